"""One face for the Python clients under test, so that the same scenario runs through each of them unchanged.

Each adapter uses its client's plain public API; nothing of the client is replaced. Consumers assign partitions by hand.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiokafka
import confluent_kafka
import kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS = 30.0
# For records with times of their own: not so old that retention deletes them, and hours later is not the future yet.
# Never in a test's parameters: each xdist worker has its own.
A_DAY_AGO_MS = int(time.time() * 1000) - 86_400_000

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Message:
    """What goes in and what comes out; `timestamp` None leaves the time to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None

    def content(self) -> tuple[bytes | None, bytes | None, tuple[Header, ...]]:
        return self.key, self.value, self.headers


@dataclass(frozen=True, slots=True)
class Received(Message):
    partition: int = 0
    offset: int = -1


def send(producer: confluent_kafka.Producer, topic: str, value: bytes, **more: Any) -> None:
    """Hands a message over, and waits for room where the producer's queue is full."""
    while True:
        try:
            producer.produce(topic, value, **more)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


@dataclass(frozen=True, slots=True)
class How:
    """In what way messages are sent."""

    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False
    partition: int = 0


class Client(ABC):
    """Producing and consuming through one client library."""

    name: str

    def produce(
        self,
        address: str,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        partition: int = 0,
    ) -> list[int]:
        """Sends all in order and returns the offsets that the broker reported (-1 with acks 0)."""
        return self._send(address, topic, messages, How(codec, acks, idempotent, partition))

    @abstractmethod
    def _send(self, address: str, topic: str, messages: Sequence[Message], how: How) -> list[int]: ...

    @abstractmethod
    def consume(self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        """Reads `count` messages from `offset` on."""


class Confluent(Client):
    """confluent-kafka, that is librdkafka."""

    name = "confluent-kafka"

    def _send(self, address: str, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "compression.type": how.codec,
                "acks": how.acks,
                "enable.idempotence": how.idempotent,
                "linger.ms": 5,
                "message.timeout.ms": int(SECONDS * 1000),
                "log_level": 0,
            }
        )
        offsets: list[int] = []
        errors: list[confluent_kafka.KafkaError] = []

        def report(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                offset = message.offset()
                # librdkafka says "invalid offset" where the broker gave none.
                offsets.append(-1 if offset is None or offset < 0 else offset)

        for each in messages:
            extra = {} if each.timestamp is None else {"timestamp": each.timestamp}
            producer.produce(
                topic,
                each.value,
                each.key,
                partition=how.partition,
                headers=list(each.headers),
                on_delivery=report,
                **extra,
            )
        producer.flush(SECONDS)
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        return offsets

    def consume(self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "unused",
                "enable.auto.commit": False,
                "check.crcs": True,
                "log_level": 0,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            found: list[Received] = []
            while len(found) < count:
                batch = consumer.consume(count - len(found), timeout=SECONDS)
                if not batch:
                    raise AssertionError(f"{len(found)} of {count} messages of {topic} within {SECONDS:g} s")
                for message in batch:
                    if message.error() is not None:
                        raise confluent_kafka.KafkaException(message.error())
                    found.append(self._received(message))
            return found
        finally:
            consumer.close()

    @staticmethod
    def _received(message: confluent_kafka.Message) -> Received:
        return Received(
            message.value(),
            message.key(),
            tuple(message.headers() or ()),
            message.timestamp()[1],
            message.partition(),
            message.offset(),
        )


class KafkaPython(Client):
    """kafka-python."""

    name = "kafka-python"

    def _send(self, address: str, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=address,
            compression_type=None if how.codec == "none" else how.codec,
            acks=how.acks if how.acks == "all" else int(how.acks),
            enable_idempotence=how.idempotent,
            linger_ms=5,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    each.value,
                    each.key,
                    headers=list(each.headers),
                    partition=how.partition,
                    timestamp_ms=each.timestamp,
                )
                for each in messages
            ]
            producer.flush(SECONDS)
            return [future.get(SECONDS).offset for future in sent]
        finally:
            producer.close()

    def consume(self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=address, check_crcs=True, consumer_timeout_ms=int(SECONDS * 1000)
        )
        try:
            place = kafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            found: list[Received] = []
            while len(found) < count:
                message = next(consumer, None)
                if message is None:
                    raise AssertionError(f"{len(found)} of {count} messages of {topic} within {SECONDS:g} s")
                found.append(self._received(message))
            return found
        finally:
            consumer.close()

    @staticmethod
    def _received(message: kafka.consumer.fetcher.ConsumerRecord) -> Received:
        return Received(
            message.value, message.key, tuple(message.headers), message.timestamp, message.partition, message.offset
        )


class Aiokafka(Client):
    """aiokafka."""

    name = "aiokafka"

    def _send(self, address: str, topic: str, messages: Sequence[Message], how: How) -> list[int]:
        async def run() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=address,
                compression_type=None if how.codec == "none" else how.codec,
                acks=how.acks if how.acks == "all" else int(how.acks),
                enable_idempotence=how.idempotent,
            )
            async with producer:
                sent = [
                    await producer.send(
                        topic,
                        each.value,
                        each.key,
                        partition=how.partition,
                        timestamp_ms=each.timestamp,
                        headers=list(each.headers),
                    )
                    for each in messages
                ]
                done = await asyncio.wait_for(asyncio.gather(*sent), SECONDS)
            return [-1 if each is None else each.offset for each in done]

        return asyncio.run(run())

    def consume(self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        async def run() -> list[Received]:
            async with aiokafka.AIOKafkaConsumer(bootstrap_servers=address, check_crcs=True) as consumer:
                place = aiokafka.TopicPartition(topic, partition)
                consumer.assign([place])
                consumer.seek(place, offset)
                found: list[Received] = []
                while len(found) < count:
                    message = await asyncio.wait_for(consumer.getone(), SECONDS)
                    found.append(self._received(message))
                return found

        return asyncio.run(run())

    @staticmethod
    def _received(message: aiokafka.ConsumerRecord) -> Received:  # type: ignore[type-arg]
        return Received(
            message.value, message.key, tuple(message.headers), message.timestamp, message.partition, message.offset
        )


CLIENTS: tuple[Client, ...] = (Confluent(), KafkaPython(), Aiokafka())
