"""Offsets: those a group has committed, and those where partitions begin and end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.cli.calls import cluster as cluster_calls
from moldau.cli.calls import groups, offsets
from moldau.cli.calls.answers import demanded
from moldau.cli.calls.offsets import At
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection


def committed_offsets(connection: Connection, group_id: str) -> dict[TopicPartition, tuple[int, int | None]]:
    """Offset and leader epoch of every partition that the group has committed."""
    return {place: (each.offset, each.leader_epoch) for place, each in groups.committed(connection, group_id).items()}


def listed_offsets(connection: Connection, places: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
    """One offset per partition; an error of any partition is raised."""
    return {place: demanded(answer) for place, answer in offsets.listed(connection, places, at).items()}


def end_offsets(connection: Connection, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Ends of the partitions that have a leader."""
    led = led_partitions(connection)
    return listed_offsets(connection, [place for place in places if place in led], At.END)


def start_offsets(connection: Connection, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    return listed_offsets(connection, places, At.START)


def offsets_at(connection: Connection, places: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """First offsets at or after a time; the end where there is none, with a warning as Kafka's tool gives it."""
    found = listed_offsets(connection, places, timestamp)
    empty = [place for place, offset in found.items() if offset < 0]
    for topic, index in empty:
        print(f"\nWarn: Partition {index} from topic {topic} is empty. Falling back to latest known offset.")
    return found | end_offsets(connection, empty)


def led_partitions(connection: Connection) -> set[TopicPartition]:
    topics = cluster_calls.metadata(connection).topics
    return {
        TopicPartition(name, index)
        for name, topic in topics.items()
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    }
