"""Positions of sources, as Connect keeps them in its offset topic, and offsets of sinks, which are those of their
group.

key    ["<connector>",{"filename":"test.txt"}]
value  {"position":12}                            null: unknown again
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from moldau.client.librdkafka import translate
from moldau.connect.interface import Position, Stream
from moldau.connect.source_reading import compact, position_key
from moldau.connect.task import Job
from moldau.connect.worker.topics import TopicTable, TopicUnavailable
from moldau.types.ids import TopicPartition

SECONDS = 30.0
UNKNOWN = -1001


def canonical(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


class PositionTable:
    def __init__(self, kafka: Mapping[str, str], topic: str) -> None:
        self._found: dict[tuple[str, str], tuple[dict[str, Any], Position]] = {}
        self.table = TopicTable(translate(kafka), topic, self._apply)

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        connector, partition = json.loads(key or b"null")
        place = str(connector), canonical(partition)
        position = None if value is None else json.loads(value)
        if position is None:
            self._found.pop(place, None)
        else:
            self._found[place] = partition, position

    def of_streams(self, connector: str, streams: Sequence[Stream]) -> list[Position | None]:
        """Read to the end; call it when nobody else can write."""
        self.table.catch_up()
        found = (self._found.get((connector, canonical(stream.partition))) for stream in streams)
        return [None if each is None else each[1] for each in found]

    def of_connector(self, connector: str) -> list[tuple[dict[str, Any], Position]]:
        self.table.catch_up()
        return [each for (name, _), each in sorted(self._found.items()) if name == connector]

    def known(self, connector: str) -> dict[str, Position]:
        """By canonical partition, without a look at whether more was committed meanwhile."""
        found = list(self._found.items())
        return {partition: each[1] for (name, partition), each in found if name == connector}

    def set(self, connector: str, positions: Iterable[tuple[Mapping[str, Any], Position | None]]) -> None:
        records = [
            (position_key(connector, partition), None if position is None else compact(position))
            for partition, position in positions
        ]
        self.table.write(records)


class PositionTables:
    """One for each topic that a connector names; opened when it is needed."""

    def __init__(self, kafka: Mapping[str, str], partitions: int, replication: int) -> None:
        self._kafka = kafka
        self._partitions = partitions
        self._replication = replication
        self._tables: dict[str, PositionTable] = {}
        self._lock = threading.Lock()

    def table(self, topic: str) -> PositionTable:
        """One whose reading has ended is opened anew."""
        with self._lock:
            if topic in self._tables and self._tables[topic].table.is_dead:
                self._tables.pop(topic).table.close()
            if topic not in self._tables:
                made = PositionTable(self._kafka, topic)
                made.table.prepare(self._partitions, self._replication)
                made.table.start()
                self._tables[topic] = made
            return self._tables[topic]

    def close(self) -> None:
        for each in self._tables.values():
            each.table.close()


# -- sinks -----------------------------------------------------------------------------------------------------------


def group_offsets(job: Job) -> dict[TopicPartition, int]:
    admin = AdminClient({**translate(job.admin_kafka)})
    try:
        asked = [ConsumerGroupTopicPartitions(job.sink_group)]
        found = admin.list_consumer_group_offsets(asked)[job.sink_group].result(SECONDS)
    except KafkaException as error:
        raise TopicUnavailable(f"the offsets of {job.sink_group}: {error}") from None
    return {
        TopicPartition(each.topic, each.partition): each.offset
        for each in found.topic_partitions or ()
        if each.offset >= 0
    }


def set_group_offsets(job: Job, offsets: Mapping[TopicPartition, int | None]) -> None:
    """None: the group knows nothing of the partition any more."""
    from moldau.connect.worker.group_offsets import forget

    consumer = Consumer({**translate(job.consumer_kafka), "group.id": job.sink_group, "enable.auto.commit": False})
    try:
        known = [Place(place.topic, place.partition, offset) for place, offset in offsets.items() if offset is not None]
        if known:
            consumer.commit(offsets=known, asynchronous=False)
    except KafkaException as error:
        raise TopicUnavailable(f"the offsets of {job.sink_group}: {error}") from None
    finally:
        consumer.close()
    forget(job, [place for place, offset in offsets.items() if offset is None])
