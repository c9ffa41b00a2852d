"""Topics: made, grown, described and deleted through librdkafka; looked up over our own client for what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls import cluster as cluster_calls
from moldau.cli.calls.answers import SECONDS, outcomes
from moldau.client.asking.answers import refuse
from moldau.client.librdkafka import uuid_of
from moldau.types.uuid_text import encode_uuid

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as Refusal

    from moldau.cli.connection import Connection
    from moldau.wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic
    from moldau.wire.messages.metadata import MetadataResponseTopic

BROKERS_CHOICE: Final = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    config: dict[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()
    """The brokers of each partition, in place of the two numbers."""


def names(cluster: Connection, seconds: float = SECONDS) -> list[str]:
    return sorted(cluster_calls.metadata(cluster, seconds).topics)


def looked_for(cluster: Connection, name: str) -> Refusal | None:
    """What Metadata says against a topic. Asked by its name, as producers do: a broker that makes topics makes it."""
    refused: Refusal | None = cluster.admin().list_topics(name, timeout=cluster.reach_seconds).topics[name].error
    return refused


def looked_up(cluster: Connection, wanted: Sequence[str] | None = None) -> list[MetadataResponseTopic]:
    """These topics, or all, as Metadata tells them over our own client; one with an error stands there with it."""
    return list(cluster.wire().metadata(wanted).topics)


def in_pages(cluster: Connection, wanted: Sequence[str], limit: int) -> list[DescribeTopicPartitionsResponseTopic]:
    """Topics with what is known of eligible leaders, at most so many partitions in one answer. A topic that goes on in
    the next page is put together."""
    from moldau.wire.messages.describe_topic_partitions import (
        Cursor,
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
        TopicRequest,
    )

    found: dict[str, DescribeTopicPartitionsResponseTopic] = {}
    cursor: Cursor | None = None
    asked = [TopicRequest(name=name) for name in sorted(wanted)]
    while True:
        request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=limit, cursor=cursor)
        answer = cluster.wire().any(request, DescribeTopicPartitionsResponse)
        for topic in answer.topics:
            name = topic.name or ""
            refuse(topic.error_code)
            if name in found:
                topic.partitions = [*found[name].partitions, *topic.partitions]
            found[name] = topic
        if answer.next_cursor is None:
            return list(found.values())
        after = answer.next_cursor
        cursor = Cursor(topic_name=after.topic_name, partition_index=after.partition_index)


def describe(cluster: Connection, wanted: Sequence[str]) -> dict[str, Any | Refusal]:
    """TopicDescription by name."""
    from confluent_kafka import TopicCollection

    if not wanted:
        return {}
    return outcomes(cluster.admin().describe_topics(TopicCollection(list(wanted)), request_timeout=SECONDS))


def id_text(described: Any) -> str:
    return encode_uuid(uuid_of(described.topic_id))


def create(cluster: Connection, topics: Sequence[NewTopic], validate_only: bool = False) -> dict[str, Refusal | None]:
    """The name decides about each: None where it was created."""
    from confluent_kafka.admin import NewTopic as ClientTopic

    asked = [
        ClientTopic(topic.name, len(topic.assignment), replica_assignment=_lists(topic.assignment), config=topic.config)
        if topic.assignment
        else ClientTopic(topic.name, topic.partitions, topic.replication_factor, config=topic.config)
        for topic in topics
    ]
    found = cluster.admin().create_topics(
        asked, validate_only=validate_only, request_timeout=SECONDS, operation_timeout=SECONDS
    )
    return outcomes(found)


def delete(cluster: Connection, wanted: Sequence[str]) -> dict[str, Refusal | None]:
    found = cluster.admin().delete_topics(list(wanted), request_timeout=SECONDS, operation_timeout=SECONDS)
    return outcomes(found)


def add_partitions(
    cluster: Connection,
    totals: Mapping[str, int],
    assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
    validate_only: bool = False,
) -> dict[str, Refusal | None]:
    """Topics to their new totals; assignments name the brokers of the partitions that are added."""
    from confluent_kafka.admin import NewPartitions

    given = assignments or {}
    asked = [
        NewPartitions(name, total, replica_assignment=_lists(given[name]))
        if given.get(name)
        else NewPartitions(name, total)
        for name, total in totals.items()
    ]
    found = cluster.admin().create_partitions(
        asked, validate_only=validate_only, request_timeout=SECONDS, operation_timeout=SECONDS
    )
    return outcomes(found)


def _lists(assignment: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(brokers) for brokers in assignment]
