"""What kafka-topics --describe prints."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.cli.calls import configs, reassignments
from moldau.cli.calls import topics as topic_calls
from moldau.cli.calls.answers import refuse
from moldau.cli.calls.cluster import broker_ids
from moldau.cli.calls.configs import Source
from moldau.cli.calls.reassignments import Move
from moldau.client.errors import VersionUnsupported
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import ZERO_TOPIC_ID, TopicPartition
from moldau.types.uuid_text import encode_uuid

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponseTopic
    from moldau.wire.messages.metadata import MetadataResponseTopic


@dataclass(frozen=True, slots=True)
class PartitionView:
    index: int
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    eligible: Sequence[int] | None
    last_known_eligible: Sequence[int] | None
    move: Move | None = None

    @property
    def replication_factor(self) -> int:
        move = self.move
        if move is not None and set(self.replicas) & {*move.adding, *move.removing}:
            return len(move.replicas) - len(move.adding)
        return len(self.replicas)


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: uuid.UUID
    partitions: list[PartitionView]
    overrides: dict[str, str] = field(default_factory=dict)
    min_isr: int = 1


@dataclass(frozen=True, slots=True)
class Described:
    topics: list[TopicView]
    live_brokers: frozenset[int]


def id_text(topic_id: uuid.UUID) -> str:
    """Ids as Kafka prints them."""
    return encode_uuid(topic_id)


def topic_of_id(connection: Connection, text: str) -> str | None:
    return next((each.name for each in topic_calls.looked_up(connection) if id_text(each.topic_id) == text), None)


def describe_topics(connection: Connection, names: Sequence[str], limit: int) -> Described:
    moves = moves_under_way(connection)
    try:
        topics = [from_description(topic, moves) for topic in topic_calls.in_pages(connection, names, limit)]
    except VersionUnsupported:
        topics = [from_metadata(topic, moves) for topic in topic_calls.looked_up(connection, names)]
    live = frozenset(broker_ids(connection))
    return Described(with_settings(connection, topics), live)


def from_description(topic: DescribeTopicPartitionsResponseTopic, moves: dict[TopicPartition, Move]) -> TopicView:
    name = topic.name or ""
    partitions = [
        PartitionView(
            each.partition_index,
            each.leader_id,
            each.replica_nodes,
            each.isr_nodes,
            each.eligible_leader_replicas,
            each.last_known_elr,
            moves.get(TopicPartition(name, each.partition_index)),
        )
        for each in topic.partitions
    ]
    return TopicView(name, topic.topic_id, sorted(partitions, key=lambda each: each.index))


def from_metadata(topic: MetadataResponseTopic, moves: dict[TopicPartition, Move]) -> TopicView:
    """For brokers older than 3.8, which cannot describe partitions."""
    name = topic.name or ""
    refuse(topic.error_code)
    partitions = [
        PartitionView(
            each.partition_index,
            each.leader_id,
            each.replica_nodes,
            each.isr_nodes,
            None,
            None,
            moves.get(TopicPartition(name, each.partition_index)),
        )
        for each in topic.partitions
    ]
    return TopicView(name, topic.topic_id, sorted(partitions, key=lambda each: each.index))


def moves_under_way(connection: Connection) -> dict[TopicPartition, Move]:
    """None, for Kafka's tool, where the cluster does not tell them, or not to this user."""
    try:
        return reassignments.under_way(connection)
    except VersionUnsupported:
        return {}
    except KafkaError as error:
        if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise


def with_settings(connection: Connection, topics: Sequence[TopicView]) -> list[TopicView]:
    settings = configs.describe_topics(connection, [topic.name for topic in topics])
    found = []
    for topic in topics:
        entries = {entry.name: entry for entry in settings[topic.name]}
        changed = [entry for entry in entries.values() if entry.source is not Source.DEFAULT_CONFIG]
        overrides = {entry.name: entry.value or "" for entry in changed}
        min_isr = int(entries["min.insync.replicas"].value or 1)
        found.append(TopicView(topic.name, topic.topic_id, topic.partitions, overrides, min_isr))
    return found


def print_topic(topic: TopicView, live: frozenset[int], reports: Sequence[str], overrides_only: bool) -> None:
    if not reports and (topic.overrides or not overrides_only):
        print_heading(topic)
    if overrides_only:
        return
    for partition in topic.partitions:
        if not reports or any(reported(report, partition, topic.min_isr, live) for report in reports):
            print_partition(topic.name, partition)


def reported(report: str, partition: PartitionView, min_isr: int, live: frozenset[int]) -> bool:
    leaderless = partition.leader < 0
    match report:
        case "under-replicated-partitions":
            return partition.replication_factor > len(partition.isr)
        case "unavailable-partitions":
            return leaderless or partition.leader not in live
        case "under-min-isr-partitions":
            return leaderless or len(partition.isr) < min_isr
        case _:
            return len(partition.isr) == min_isr


def print_heading(topic: TopicView) -> None:
    identity = "" if topic.topic_id == ZERO_TOPIC_ID else f"\tTopicId: {id_text(topic.topic_id)}"
    settings = ",".join(f"{name}={value}" for name, value in topic.overrides.items())
    factor = topic.partitions[0].replication_factor
    print(
        f"Topic: {topic.name}{identity}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {factor}\tConfigs: {settings}"
    )


def print_partition(topic: str, partition: PartitionView) -> None:
    leader = partition.leader if partition.leader >= 0 else "none"
    text = f"\tTopic: {topic}\tPartition: {partition.index}\tLeader: {leader}"
    text += f"\tReplicas: {joined(partition.replicas)}\tIsr: {joined(partition.isr)}"
    if partition.move is not None:
        text += f"\tAdding Replicas: {joined(partition.move.adding)}"
        text += f"\tRemoving Replicas: {joined(partition.move.removing)}"
    print(f"{text}\tElr: {joined(partition.eligible)}\tLastKnownElr: {joined(partition.last_known_eligible)}")


def joined(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
