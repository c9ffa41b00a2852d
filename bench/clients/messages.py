"""Messages per second through our Producer and Consumer, and through librdkafka's own binding, on one broker.

Both sides are told what became of each message, as programs are that must lose none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import confluent_kafka
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.clients.registered import Avro
from moldau.testing import Broker, Registry

VALUE = bytes(100)
LINGER = {"linger.ms": 5}
SCHEMA = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"}, {"name": "customer", "type": "string"}, {"name": "price", "type": "double"},
  {"name": "note", "type": ["null", "string"], "default": null},
  {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
    {"name": "item", "type": "string"}, {"name": "pieces", "type": "int"}]}}}]}"""
ORDER: dict[str, Any] = {
    "id": 12345, "customer": "Vltava", "price": 12.5, "note": None,
    "lines": [{"item": "tea", "pieces": 2}, {"item": "sugar", "pieces": 1}],
}  # fmt: skip
Measure = Callable[[Broker, Registry, str, int], float]


def rate(count: int, started: float) -> float:
    return count / (time.perf_counter() - started)


def produce_ours(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    with broker.producer(LINGER) as producer:
        producer.partitions_for(topic)
        started = time.perf_counter()
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
        return rate(count, started)


class Told:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        self.count += 1


def produce_bare(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, **LINGER, "acks": "all",
                                         "enable.idempotence": True})  # fmt: skip
    producer.list_topics(topic, timeout=10)
    told = Told()
    started = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE, on_delivery=told)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush()
    found = rate(count, started)
    assert told.count == count
    return found


def consume_ours(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    with broker.consumer({"group.id": uuid4().hex}) as consumer:
        consumer.subscribe([topic])
        records = iter(consumer)
        next(records)
        started = time.perf_counter()
        for _ in range(count - 1):
            _ = next(records).value
        return rate(count - 1, started)


def consume_batches(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    with broker.consumer({"group.id": uuid4().hex}) as consumer:
        consumer.subscribe([topic])
        seen = 0
        while not seen:
            seen = len(consumer.poll(1.0))
        first, started = seen, time.perf_counter()
        while seen < count:
            for record in consumer.poll(1.0):
                _ = record.value
                seen += 1
        return rate(seen - first, started)


def bare_consumer(broker: Broker, topic: str) -> confluent_kafka.Consumer:
    """Without the second's rest of a full queue, which some runs would have and others not."""
    properties = {"bootstrap.servers": broker.bootstrap, "group.id": uuid4().hex, "auto.offset.reset": "earliest",
                  "fetch.queue.backoff.ms": 10}  # fmt: skip
    consumer = confluent_kafka.Consumer(properties)
    consumer.subscribe([topic])
    while consumer.poll(1.0) is None:
        continue
    return consumer


def consume_bare(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    consumer = bare_consumer(broker, topic)
    started, seen = time.perf_counter(), 1
    while seen < count:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            _ = message.value()
            seen += 1
    found = rate(count - 1, started)
    consumer.close()
    return found


def consume_bare_batches(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    consumer = bare_consumer(broker, topic)
    started, seen = time.perf_counter(), 1
    while seen < count:
        for message in consumer.consume(500, 1.0):
            if message.error() is None:
                _ = message.value()
                seen += 1
    found = rate(seen - 1, started)
    consumer.close()
    return found


def avro_write_ours(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    serde = Avro(SCHEMA)
    serde.configure(registry.properties, False)
    return calls(lambda: serde.serialize(topic, ORDER), count)


def avro_write_theirs(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer, context = AvroSerializer(client, SCHEMA), SerializationContext(topic, MessageField.VALUE)
        return calls(lambda: serializer(ORDER, context), count)


def avro_read_ours(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    serde = Avro(SCHEMA)
    serde.configure(registry.properties, False)
    data = serde.serialize(topic, ORDER)
    reader = Avro()
    reader.configure(registry.properties, False)
    return calls(lambda: reader.deserialize(topic, data), count)


def avro_read_theirs(broker: Broker, registry: Registry, topic: str, count: int) -> float:
    with SchemaRegistryClient({"url": registry.url}) as client:
        context = SerializationContext(topic, MessageField.VALUE)
        data = AvroSerializer(client, SCHEMA)(ORDER, context)
        deserializer = AvroDeserializer(client)
        return calls(lambda: deserializer(data, context), count)


def calls(call: Callable[[], object], count: int) -> float:
    call()
    started = time.perf_counter()
    for _ in range(count):
        call()
    return rate(count, started)


CASES: tuple[tuple[str, float, int, Measure, Measure], ...] = (
    ("produce 100 B", 0.9, 400_000, produce_ours, produce_bare),
    ("consume one by one", 0.9, 400_000, consume_ours, consume_bare),
    ("consume in batches", 0.9, 400_000, consume_batches, consume_bare_batches),
    ("write Avro", 1.0, 100_000, avro_write_ours, avro_write_theirs),
    ("read Avro", 1.0, 100_000, avro_read_ours, avro_read_theirs),
)
"""Name, goal as a ratio, how many, ours, the peer's."""
