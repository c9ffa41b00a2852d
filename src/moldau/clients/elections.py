"""Elections of leaders, asked with our own client: confluent-kafka's call cannot be made with any arguments (2.16)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.clients.admin_types import AdminFailed
from moldau.clients.errors import KafkaFailure
from moldau.clients.records import TopicPartition
from moldau.types.errors import ErrorCode
from moldau.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

PREFERRED: Final = 0
UNCLEAN: Final = 1
FINE: Final = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)


def elect_leaders(properties: Mapping[str, str], places: Collection[TopicPartition] | None, *, unclean: bool) -> None:
    settings = ClientSettings.from_properties(properties)
    request = ElectLeadersRequest(
        election_type=UNCLEAN if unclean else PREFERRED,
        topic_partitions=None if places is None else by_topic(places),
        timeout_ms=int(settings.request_seconds * 1000),
    )
    with Cluster(settings) as cluster:
        answer = cluster.retrying(lambda: cluster.any(request, ElectLeadersResponse))
    if answer.error_code:
        raise refused(answer.error_code, "", None, None)
    failed = {
        f"{topic.topic}-{each.partition_id}": refused(
            each.error_code, each.error_message or "", topic.topic, each.partition_id
        )
        for topic in answer.replica_election_results
        for each in topic.partition_result
        if each.error_code not in FINE
    }
    if failed:
        raise AdminFailed(failed)


def by_topic(places: Collection[TopicPartition]) -> list[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=partitions) for topic, partitions in topics.items()]


def refused(code: int, message: str, topic: str | None, partition: int | None) -> KafkaFailure:
    error = ErrorCode(code)
    return KafkaFailure(
        "no leader elected", cause=message or error.name, code=error.name, topic=topic, partition=partition
    )
