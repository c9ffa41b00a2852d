"""Records, commits and transactions for the commands to find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.waiting import wait_until

SECONDS = 30.0


def produce(
    address: str, topic: str, values: Sequence[str], partition: int = 0, timestamps: Sequence[int] | None = None
) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for value, timestamp in zip(values, timestamps or [0] * len(values), strict=True):
        producer.produce(topic, value, partition=partition, timestamp=timestamp)
    assert producer.flush(SECONDS) == 0


def commit(address: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Offsets of a group without members."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]

    def committed() -> bool:
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            # A cluster makes its coordinators when the first group asks for one.
            if "COORDINATOR" in error.args[0].name():
                return False
            raise
        return True

    wait_until(committed, f"{group} has a coordinator", seconds=SECONDS)
    consumer.close()


@contextmanager
def member(address: str, group: str, topic: str) -> Iterator[Consumer]:
    """A group with one member that has its partitions."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": group, "client.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert consumer.poll(SECONDS) is not None
    yield consumer
    consumer.close()


@contextmanager
def open_transaction(address: str, transactional_id: str, topic: str, values: Sequence[str]) -> Iterator[Producer]:
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": transactional_id,
            # Long enough for any machine to look at it.
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(SECONDS) == 0
    yield producer
