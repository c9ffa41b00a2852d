"""Loads that are measured: many records in, many out, one there and back. For `moldau perf` and Kafka's perf names.

The client is librdkafka below Python, one process: it tells what a Python program sees, not what the broker can do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.output import CommandError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

LOOK_SECONDS: Final = 0.1
BATCH: Final = 5_000
PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
SILENCE_SECONDS: Final = 10.0
MB: Final = 1e6


@dataclass(slots=True)
class Latencies:
    """Seconds that operations took."""

    values: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        self.values.append(seconds)

    def percentile(self, percent: float) -> float:
        """The smallest value that so many percent do not exceed (nearest rank)."""
        if not self.values:
            return 0.0
        ordered = sorted(self.values)
        rank = -(-len(ordered) * percent // 100)
        return ordered[max(0, int(rank) - 1)]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values) if self.values else 0.0

    @property
    def largest(self) -> float:
        return max(self.values, default=0.0)


@dataclass(slots=True)
class Measured:
    records: int = 0
    bytes: int = 0
    failed: int = 0
    seconds: float = 0.0
    latencies: Latencies = field(default_factory=Latencies)

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds if self.seconds else 0.0

    @property
    def mb_per_second(self) -> float:
        return self.bytes / MB / self.seconds if self.seconds else 0.0


Advance = Callable[[int], None]


def produce_load(
    producer: Producer, topic: str, payloads: Iterator[bytes], count: int, rate: float | None, advance: Advance
) -> Measured:
    """`count` records as fast as they are taken, or at a rate; Ctrl-C ends it early with what was measured."""
    measured = Measured()

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            measured.failed += 1
            return
        measured.records += 1
        measured.bytes += len(message)
        measured.latencies.add(message.latency() or 0.0)

    started = time.perf_counter()
    try:
        for number in range(count):
            if rate is not None:
                _pace(producer, started + number / rate)
            _send(producer, topic, next(payloads), delivered)
            if number % 1000 == 0:
                producer.poll(0)
                advance(measured.records)
        while producer.flush(LOOK_SECONDS):
            advance(measured.records)
    except KeyboardInterrupt:
        producer.purge()
        producer.flush(LOOK_SECONDS)
        measured.failed = 0
    measured.seconds = time.perf_counter() - started
    return measured


def _send(producer: Producer, topic: str, payload: bytes, delivered: Any) -> None:
    while True:
        try:
            producer.produce(topic, payload, on_delivery=delivered)
            return
        except BufferError:
            producer.poll(LOOK_SECONDS)


def _pace(producer: Producer, moment: float) -> None:
    while (ahead := moment - time.perf_counter()) > 0:
        producer.poll(min(ahead, LOOK_SECONDS))


def consume_load(consumer: Consumer, count: int | None, ends: int, advance: Advance) -> Measured:
    """Until `count` records came, or the end of all `ends` partitions (the consumer tells ends), or Ctrl-C."""
    measured = Measured()
    reached: set[tuple[str | None, int | None]] = set()
    started = heard = time.perf_counter()
    first = 0.0
    try:
        while (count is None or measured.records < count) and len(reached) < ends:
            wanted = BATCH if count is None else min(BATCH, count - measured.records)
            messages = consumer.consume(wanted, LOOK_SECONDS)
            for message in messages:
                if message.error() is not None:
                    _note_end(message, reached)
                    continue
                first = first or time.perf_counter()
                measured.records += 1
                measured.bytes += len(message)
            heard = time.perf_counter() if messages else heard
            advance(measured.records)
            if time.perf_counter() - heard > SILENCE_SECONDS:
                break
    except KeyboardInterrupt:
        pass
    measured.seconds = time.perf_counter() - started
    if first:
        measured.latencies.add(first - started)
    return measured


def _note_end(message: Message, reached: set[tuple[str | None, int | None]]) -> None:
    from confluent_kafka import KafkaException

    error: Any = message.error()
    if error.name() == "_PARTITION_EOF":
        reached.add((message.topic(), message.partition()))
    elif not error.retriable() and not error.name().startswith("_"):
        raise KafkaException(error)


def round_trips(
    producer: Producer, consumer: Consumer, topic: str, payload: bytes, count: int, advance: Advance
) -> Measured:
    """One record written and read back, then the next. The consumer stands at the end already."""
    measured = Measured()
    started = time.perf_counter()
    try:
        for number in range(count):
            sent = time.perf_counter()
            producer.produce(topic, payload)
            producer.flush(SILENCE_SECONDS)
            _await(consumer, payload)
            measured.latencies.add(time.perf_counter() - sent)
            measured.records += 1
            measured.bytes += len(payload)
            advance(number + 1)
    except KeyboardInterrupt:
        pass
    measured.seconds = time.perf_counter() - started
    return measured


def _await(consumer: Consumer, payload: bytes) -> None:
    deadline = time.perf_counter() + SILENCE_SECONDS
    while time.perf_counter() < deadline:
        message = consumer.poll(LOOK_SECONDS)
        if message is None or message.error() is not None:
            continue
        if message.value() != payload:
            raise CommandError("another record came back", "use a topic that nobody else writes to")
        return
    raise CommandError(f"the record did not come back within {SILENCE_SECONDS:g} s")


def stand_at_end(consumer: Consumer, topic: str, partitions: Sequence[int]) -> None:
    """Assigned and positioned behind the last record, so that the first round trip finds it ready."""
    from confluent_kafka import TopicPartition

    places = []
    for partition in partitions:
        place = TopicPartition(topic, partition)
        _, place.offset = consumer.get_watermark_offsets(place, timeout=SILENCE_SECONDS)
        places.append(place)
    consumer.assign(places)
    consumer.poll(LOOK_SECONDS)
