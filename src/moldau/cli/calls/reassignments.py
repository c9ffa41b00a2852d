"""Where replicas are, and moving them: between brokers, and between the log directories of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from moldau.cli.calls.cluster import log_dirs
from moldau.client.asking.answers import by_topic, refuse
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

Layout = dict[TopicPartition, tuple[int, ...]]
"""The replicas of partitions, the preferred leader first."""


class Replica(NamedTuple):
    broker: int
    topic: str
    partition: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


@dataclass(frozen=True, slots=True)
class Move:
    """A change of replicas that is under way."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Directories:
    """The log directory in which a replica is, and the one to which it is being moved."""

    current: str | None = None
    future: str | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    rack: str | None


def brokers(cluster: Connection) -> list[Broker]:
    """Those that live; Metadata goes on telling of one that has just died."""
    from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

    answer = cluster.wire().any(DescribeClusterRequest(), DescribeClusterResponse)
    refuse(answer.error_code, answer.error_message)
    return sorted((Broker(each.broker_id, each.rack) for each in answer.brokers), key=lambda broker: broker.id)


def layout(cluster: Connection, topics: Iterable[str]) -> Layout:
    """The replicas of every partition of these topics. Raises where one is not there."""
    names = sorted(set(topics))
    found: Layout = {}
    for topic in cluster.wire().metadata(names).topics if names else ():
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {topic.name} not found.")
        refuse(topic.error_code)
        for each in topic.partitions:
            found[TopicPartition(str(topic.name), each.partition_index)] = tuple(each.replica_nodes)
    return found


def under_way(cluster: Connection, places: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, Move]:
    """In these partitions, or in all."""
    from moldau.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        ListPartitionReassignmentsTopics,
    )

    topics = None
    if places is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
            for name, numbers in by_topic(places).items()
        ]
    answer = cluster.wire().any(ListPartitionReassignmentsRequest(topics=topics), ListPartitionReassignmentsResponse)
    refuse(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Move(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def alter(
    cluster: Connection,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_factor_change: bool = True,
) -> dict[TopicPartition, KafkaError]:
    """Begins to move partitions, or with None ends a move under way; what was refused, and why."""
    from moldau.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=number, replicas=wanted[TopicPartition(name, number)])
                for number in numbers
            ],
        )
        for name, numbers in by_topic(wanted).items()
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=allow_factor_change)
    answer = cluster.wire().any(request, AlterPartitionReassignmentsResponse)
    refuse(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): KafkaError(ErrorCode(each.error_code), each.error_message)
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code
    }


def replica_directories(cluster: Connection, replicas: Iterable[Replica]) -> dict[Replica, Directories]:
    """Of those replicas that their brokers know; brokers that are not there are left out."""
    found: dict[Replica, Directories] = {}
    alive = {broker.id for broker in brokers(cluster)}
    for broker, places in places_by_broker(replicas).items():
        if broker not in alive:
            continue
        for directory in log_dirs(cluster, broker, places):
            for topic in directory.topics:
                for each in topic.partitions:
                    replica = Replica(broker, topic.name, each.partition_index)
                    known = found.get(replica, Directories())
                    found[replica] = (
                        Directories(known.current, directory.log_dir)
                        if each.is_future_key
                        else Directories(directory.log_dir, known.future)
                    )
    return found


def alter_directories(cluster: Connection, wanted: Mapping[Replica, str]) -> dict[Replica, ErrorCode]:
    """Asks brokers to move replicas into other log directories; NONE where it has begun."""
    from moldau.client.asking.replicas import alter_log_dirs

    found: dict[Replica, ErrorCode] = {}
    for broker in sorted({replica.broker for replica in wanted}):
        directories = {replica.place: directory for replica, directory in wanted.items() if replica.broker == broker}
        for place, code in alter_log_dirs(cluster, broker, directories).items():
            found[Replica(broker, *place)] = code
    return found


def places_by_broker(replicas: Iterable[Replica]) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = {}
    for replica in replicas:
        found.setdefault(replica.broker, []).append(replica.place)
    return found
