"""Topics: made, grown, described and deleted through librdkafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls import cluster as cluster_calls
from moldau.cli.calls.answers import SECONDS, outcomes

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as Refusal

    from moldau.cli.connect import Connection

BROKERS_CHOICE: Final = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    config: dict[str, str] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()
    """The brokers of each partition, in place of the two numbers."""


def names(cluster: Connection) -> list[str]:
    return sorted(cluster_calls.metadata(cluster).topics)


def describe(cluster: Connection, wanted: Sequence[str]) -> dict[str, Any | Refusal]:
    """TopicDescription by name."""
    from confluent_kafka import TopicCollection

    if not wanted:
        return {}
    return outcomes(cluster.admin().describe_topics(TopicCollection(list(wanted)), request_timeout=SECONDS))


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
