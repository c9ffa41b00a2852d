"""Positions of sources, as Connect keeps them in its offset topic, and offsets of sinks, which are those of their
group.

key    ["<connector>",{"filename":"test.txt"}]
value  {"position":12}                            null: unknown again
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.librdkafka import translate
from moldau.client.settings import ClientSettings
from moldau.client.states import StateReader
from moldau.connect.interface import Position, Stream
from moldau.connect.source_reading import compact, position_key
from moldau.connect.task import Job
from moldau.connect.worker.topics import WRITING, TopicUnavailable, prepare_topic
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.records import Record

log = logging.getLogger(__name__)

SECONDS: Final = 30.0
UNKNOWN = -1001


def canonical(partition: Mapping[str, Any]) -> str:
    return json.dumps(partition, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Found:
    """The last record of a key."""

    in_partition: int
    timestamp: int
    partition: dict[str, Any]
    position: Position | None


class PositionTable:
    """Reads on each call, up to the end of the topic. Transactions of others that are open there are not waited for:
    whoever has fenced a connector finds what that one has committed, however long another one's transaction lasts."""

    def __init__(self, kafka: Mapping[str, str], topic: str, seconds: float = SECONDS) -> None:
        """`seconds`: how long the brokers may take."""
        self._kafka = dict(kafka)
        self._topic = topic
        self._seconds = seconds
        self._cluster = Cluster(
            ClientSettings.from_properties({**kafka, "default.api.timeout.ms": str(int(seconds * 1000))})
        )
        self._reader = StateReader(self._cluster, topic)
        self._found: dict[tuple[str, str], Found] = {}
        self._reading = threading.Lock()

    def prepare(self, partitions: int, replication: int) -> None:
        prepare_topic(translate(self._kafka), self._topic, partitions, replication, self._seconds)

    def close(self) -> None:
        with self._reading:
            self._cluster.close()

    def _caught_up(self) -> dict[tuple[str, str], Found]:
        with self._reading:
            try:
                for number, record in self._reader.placed():
                    self._apply(number, record)
            except (ClientError, KafkaError) as error:
                raise TopicUnavailable(f"{self._topic}: {error}") from None
            return dict(self._found)

    def _apply(self, number: int, record: Record) -> None:
        try:
            connector, partition = json.loads(record.key or b"null")
            key = str(connector), canonical(partition)
            position = None if record.value is None else json.loads(record.value)
        except (ValueError, TypeError) as problem:
            log.error("%s-%d: a record is skipped: %s", self._topic, number, problem)
            return
        known = self._found.get(key)
        # Others may have put a record of the key into another partition, where offsets say nothing of what is newer.
        if known is None or known.in_partition == number or known.timestamp <= record.timestamp:
            self._found[key] = Found(number, record.timestamp, partition, position)

    def of_streams(self, connector: str, streams: Sequence[Stream]) -> list[Position | None]:
        """Read to the end; call it when nobody else can write."""
        known = self.known(connector)
        return [known.get(canonical(stream.partition)) for stream in streams]

    def of_connector(self, connector: str) -> list[tuple[dict[str, Any], Position]]:
        found = sorted(self._caught_up().items())
        return [
            (each.partition, each.position)
            for (name, _), each in found
            if name == connector and each.position is not None
        ]

    def known(self, connector: str) -> dict[str, Position]:
        """By canonical partition."""
        return {canonical(partition): position for partition, position in self.of_connector(connector)}

    def set(self, connector: str, positions: Iterable[tuple[Mapping[str, Any], Position | None]]) -> None:
        failed: list[KafkaException] = []

        def told(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(KafkaException(error))

        try:
            writer = Producer({**translate(self._kafka), **WRITING})
            for partition, position in positions:
                value = None if position is None else compact(position)
                writer.produce(self._topic, value, position_key(connector, partition), on_delivery=told)
            left = writer.flush(self._seconds)
        except KafkaException as error:
            raise TopicUnavailable(f"{self._topic}: {error}") from None
        if failed or left:
            raise TopicUnavailable(f"{self._topic}: {failed[0] if failed else 'the brokers did not answer in time'}")


class PositionTables:
    """One for each topic that a connector names; opened when it is needed."""

    def __init__(self, kafka: Mapping[str, str], partitions: int, replication: int) -> None:
        self._kafka = kafka
        self._partitions = partitions
        self._replication = replication
        self._tables: dict[str, PositionTable] = {}
        self._lock = threading.Lock()

    def table(self, topic: str) -> PositionTable:
        with self._lock:
            if topic not in self._tables:
                made = PositionTable(self._kafka, topic)
                made.prepare(self._partitions, self._replication)
                self._tables[topic] = made
            return self._tables[topic]

    def close(self) -> None:
        for each in self._tables.values():
            each.close()


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
