"""The demo's client side: numbered records written and read with confluent-kafka, and what became of each."""

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

NUMBER_BYTES = 8
NOT_ACKNOWLEDGED = -1
TOPIC_SECONDS = 30
FLUSH_SECONDS = 120
READ_SECONDS_WITHOUT_NEWS = 30
RECORDS_PER_READ = 5_000
RECORDS_PER_POLL = 1_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How much in how long."""

    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What reading everything back showed."""

    acknowledged: int
    missing: int
    twice: int
    out_of_order: int
    changed: int
    offsets: tuple[tuple[int, int], ...]

    @property
    def all_there(self) -> bool:
        """Whether the log holds exactly what was acknowledged."""
        return not (self.missing or self.twice or self.out_of_order or self.changed)


class Traffic:
    """Writes records that carry their number, remembers each acknowledgement, and compares with what is read."""

    def __init__(self, address: str, topic: str, partitions: int, records: int, record_bytes: int) -> None:
        self.topic = topic
        self.acknowledged = 0
        self._address = address
        self._partitions = partitions
        self._records = records
        self._filling = bytes(record_bytes - NUMBER_BYTES)
        self._offsets = array("q", [NOT_ACKNOWLEDGED]) * records

    def create_topic(self) -> None:
        """Make the topic and wait until it is there."""
        admin = AdminClient(self._settings())
        topic = NewTopic(self.topic, num_partitions=self._partitions, replication_factor=1)
        for outcome in admin.create_topics([topic]).values():
            outcome.result(timeout=TOPIC_SECONDS)

    def write(self, half_way: Callable[[], None], progress: Callable[[int], None]) -> Pace:
        """Write every record, idempotently and with acks=all; `half_way` is called in the middle, some still unsent."""
        producer = Producer(self._settings() | {"enable.idempotence": True, "linger.ms": 5})
        started = time.perf_counter()
        for number in range(self._records):
            self._produce(producer, number)
            if number % RECORDS_PER_POLL == 0:
                producer.poll(0)
                progress(self.acknowledged)
            if number == self._records // 2:
                self._wait_for_an_acknowledgement(producer)
                half_way()
        while producer.flush(0.1) > 0 and time.perf_counter() - started < FLUSH_SECONDS:
            progress(self.acknowledged)
        return Pace(self.acknowledged, time.perf_counter() - started)

    def _wait_for_an_acknowledgement(self, producer: Producer) -> None:
        deadline = time.perf_counter() + FLUSH_SECONDS
        while self.acknowledged == 0 and time.perf_counter() < deadline:
            producer.poll(0.1)

    def _produce(self, producer: Producer, number: int) -> None:
        def acknowledge(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                self._offsets[number] = offset
                self.acknowledged += 1

        value = number.to_bytes(NUMBER_BYTES, "big") + self._filling
        while True:
            try:
                producer.produce(self.topic, value, partition=number % self._partitions, on_delivery=acknowledge)
            except BufferError:  # the client's queue is full: let it send
                producer.poll(0.1)
            else:
                return

    def read(self, progress: Callable[[int], None]) -> tuple[Pace, Findings]:
        """Read every partition from its first to its end offset and compare."""
        consumer = Consumer(
            self._settings() | {"group.id": "demo", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        )
        partitions = [TopicPartition(self.topic, partition) for partition in range(self._partitions)]
        offsets = tuple(consumer.get_watermark_offsets(partition) for partition in partitions)
        expected = sum(end - first for first, end in offsets)
        for partition, (first, _) in zip(partitions, offsets, strict=True):
            partition.offset = first
        comparison = _Comparison(self._offsets, self._filling, self._partitions)
        started = last_news = time.perf_counter()
        consumer.assign(partitions)
        count = 0
        while count < expected and time.perf_counter() - last_news < READ_SECONDS_WITHOUT_NEWS:
            messages = consumer.consume(RECORDS_PER_READ, timeout=0.5)
            for message in messages:
                if message.error() is None:
                    comparison.look_at(message)
                    count += 1
                    last_news = time.perf_counter()
            progress(count)
        seconds = time.perf_counter() - started
        consumer.close()
        return Pace(count, seconds), comparison.findings(self.acknowledged, offsets)

    def _settings(self) -> dict[str, Any]:
        # The lost connection is part of the show: the client's own complaints about it are not shown.
        return {"bootstrap.servers": self._address, "log_level": 0, "error_cb": lambda _: None}


class _Comparison:
    """Counts what differs between the acknowledgements and the records read."""

    def __init__(self, offsets: "array[int]", filling: bytes, partitions: int) -> None:
        self._offsets = offsets
        self._filling = filling
        self._seen = bytearray(len(offsets))
        self._last_number = [-1] * partitions
        self._twice = self._out_of_order = self._changed = 0

    def look_at(self, message: Message) -> None:
        """Take one record that was read into account."""
        value, partition, offset = message.value() or b"", message.partition(), message.offset()
        number = int.from_bytes(value[:NUMBER_BYTES], "big")
        if partition is None or number >= len(self._offsets) or value[NUMBER_BYTES:] != self._filling:
            self._changed += 1
            return
        if self._offsets[number] not in (NOT_ACKNOWLEDGED, offset):
            self._changed += 1
            return
        self._twice += self._seen[number]
        self._out_of_order += number < self._last_number[partition]
        self._seen[number] = 1
        self._last_number[partition] = number

    def findings(self, acknowledged: int, offsets: tuple[tuple[int, int], ...]) -> Findings:
        """The result, once everything was looked at."""
        missing = sum(
            offset != NOT_ACKNOWLEDGED and not seen for offset, seen in zip(self._offsets, self._seen, strict=True)
        )
        return Findings(acknowledged, missing, self._twice, self._out_of_order, self._changed, offsets)
