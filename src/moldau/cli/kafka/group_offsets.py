"""Offsets: those a group has committed, and those where partitions begin and end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from moldau.cli.kafka.group_states import Partition

if TYPE_CHECKING:
    from moldau.cli.connect import Connection

SECONDS = 30


def committed_offsets(connection: Connection, group_id: str) -> dict[Partition, tuple[int, int | None]]:
    """Offset and leader epoch of every partition that the group has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = connection.admin().list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group_id)], request_timeout=SECONDS
    )
    found: dict[Partition, tuple[int, int | None]] = {}
    for each in asked[group_id].result().topic_partitions:
        if each.error is None and each.offset >= 0:
            epoch = each.leader_epoch
            found[each.topic, each.partition] = (each.offset, None if epoch is None or epoch < 0 else epoch)
    return found


def listed_offsets(connection: Connection, partitions: Iterable[Partition], spec: Any) -> dict[Partition, int]:
    """One offset per partition; an error of any partition is raised."""
    from confluent_kafka import TopicPartition

    wanted = {TopicPartition(*partition): spec for partition in partitions}
    if not wanted:
        return {}
    asked = connection.admin().list_offsets(wanted, request_timeout=SECONDS)
    return {(place.topic, place.partition): future.result().offset for place, future in asked.items()}


def end_offsets(connection: Connection, partitions: Iterable[Partition]) -> dict[Partition, int]:
    """Ends of the partitions that have a leader."""
    from confluent_kafka.admin import OffsetSpec

    led = led_partitions(connection)
    return listed_offsets(connection, [each for each in partitions if each in led], OffsetSpec.latest())


def start_offsets(connection: Connection, partitions: Iterable[Partition]) -> dict[Partition, int]:
    from confluent_kafka.admin import OffsetSpec

    return listed_offsets(connection, partitions, OffsetSpec.earliest())


def offsets_at(connection: Connection, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
    """First offsets at or after a time; the end where there is none, with a warning as Kafka's tool gives it."""
    from confluent_kafka.admin import OffsetSpec

    found = listed_offsets(connection, partitions, OffsetSpec.for_timestamp(timestamp))
    empty = [partition for partition, offset in found.items() if offset < 0]
    for topic, index in empty:
        print(f"\nWarn: Partition {index} from topic {topic} is empty. Falling back to latest known offset.")
    return found | end_offsets(connection, empty)


def led_partitions(connection: Connection) -> set[Partition]:
    topics = connection.admin().list_topics(timeout=SECONDS).topics
    return {
        (name, index)
        for name, topic in topics.items()
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    }
