"""Leaders elected where somebody asks for it; over our own client, which hands on the broker's own words."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from moldau.client.asking.answers import by_topic, refuse
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

TIMEOUT_MS: Final = 30_000


class Election(IntEnum):
    """Kafka's numbers."""

    PREFERRED = 0
    UNCLEAN = 1


def elect(
    cluster: Connection, kind: Election, places: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, KafkaError | None]:
    """In these partitions, or in all where it is possible: None where a leader was elected."""
    from moldau.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

    topics = None
    if places is not None:
        topics = [TopicPartitions(topic=name, partitions=numbers) for name, numbers in by_topic(places).items()]
    request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS)
    answer = cluster.wire().any(request, ElectLeadersResponse)
    refuse(answer.error_code)
    return {
        TopicPartition(topic.topic, each.partition_id): (
            KafkaError(ErrorCode(each.error_code), each.error_message) if each.error_code else None
        )
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }
