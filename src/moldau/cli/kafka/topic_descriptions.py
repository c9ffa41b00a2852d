"""What kafka-topics --describe prints."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import configs
from moldau.cli.calls.configs import Source
from moldau.client.cluster import Cluster, check
from moldau.client.errors import VersionUnsupported
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from moldau.wire.messages.metadata import MetadataResponseTopic

if TYPE_CHECKING:
    from moldau.cli.connect import Connection

NO_ID: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Move:
    """A reassignment under way."""

    adding: Sequence[int]
    removing: Sequence[int]
    replicas: Sequence[int]


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
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def topic_of_id(connection: Connection, text: str) -> str | None:
    return next((each.name for each in connection.wire().metadata(None).topics if id_text(each.topic_id) == text), None)


def describe_topics(connection: Connection, names: Sequence[str], limit: int) -> Described:
    cluster = connection.wire()
    moves = moves_under_way(cluster)
    try:
        topics = [from_description(topic, moves) for topic in ask_descriptions(cluster, names, limit)]
    except VersionUnsupported:
        topics = [from_metadata(topic, moves) for topic in cluster.metadata(names).topics]
    live = frozenset(cluster.broker_ids())
    return Described(with_settings(connection, topics), live)


def ask_descriptions(cluster: Cluster, names: Sequence[str], limit: int) -> list[DescribeTopicPartitionsResponseTopic]:
    """All pages of the answer; a topic that goes on in the next page is put together."""
    found: dict[str, DescribeTopicPartitionsResponseTopic] = {}
    cursor: Cursor | None = None
    wanted = [TopicRequest(name=name) for name in sorted(names)]
    while True:
        request = DescribeTopicPartitionsRequest(topics=wanted, response_partition_limit=limit, cursor=cursor)
        answer = cluster.any(request, DescribeTopicPartitionsResponse)
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code:
                raise KafkaError(ErrorCode(topic.error_code), None)
            if name in found:
                topic.partitions = [*found[name].partitions, *topic.partitions]
            found[name] = topic
        if answer.next_cursor is None:
            return list(found.values())
        after = answer.next_cursor
        cursor = Cursor(topic_name=after.topic_name, partition_index=after.partition_index)


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
    check(topic.error_code, f"topic {name}")
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


def moves_under_way(cluster: Cluster) -> dict[TopicPartition, Move]:
    try:
        answer = cluster.any(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    except VersionUnsupported:
        return {}
    return {
        TopicPartition(topic.name, each.partition_index): Move(
            each.adding_replicas, each.removing_replicas, each.replicas
        )
        for topic in answer.topics
        for each in topic.partitions
    }


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
    identity = "" if topic.topic_id == NO_ID else f"\tTopicId: {id_text(topic.topic_id)}"
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
