"""The state that scenarios need beside what their commands make, by a real client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.kafka_tools.scenario import Place
from tests.support.admin import admin_client, create_topic
from tests.support.waiting import wait_until

FIRST_TIMESTAMP = 1_600_000_000_000
# The records are old.
FOR_EVER = {"retention.ms": "-1"}


def fill(address: str, topic: str, records: int = 5, partition: int = 0) -> None:
    """Records with known times, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": address})
    for number in range(records):
        producer.produce(
            topic, f"value {number}", key=f"key {number}", partition=partition, timestamp=FIRST_TIMESTAMP + number
        )
        producer.flush()


@contextmanager
def filled_topic(place: Place) -> Iterator[None]:
    admin = admin_client(place.address)
    create_topic(admin, "filled", 1, FOR_EVER)
    create_topic(admin, "other", 3)
    fill(place.address, "filled")
    yield


@contextmanager
def groups(place: Place) -> Iterator[None]:
    """`done` has committed and gone; `classic` and `modern` have members; `static` has one with a name."""
    admin = admin_client(place.address)
    create_topic(admin, "filled", 1, FOR_EVER)
    create_topic(admin, "other", 3)
    fill(place.address, "filled")
    with members(place.address, ("classic", {}), ("modern", {"group.protocol": "consumer"}), ("static", STATIC)):
        commit(place.address, "done", "filled", 3)
        commit(place.address, "old", "filled", 1)
        yield


STATIC = {"group.instance.id": "first"}


def commit(address: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@contextmanager
def members(address: str, *wanted: tuple[str, dict[str, str]]) -> Iterator[None]:
    """Consumers that stay in their groups; each owns all partitions of both topics."""
    consumers = []
    for group, settings in wanted:
        consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "client.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **settings,
            }
        )
        consumer.subscribe(["filled", "other"])
        consumers.append(consumer)
    ended = threading.Event()

    def stay() -> None:
        while not ended.is_set():
            for consumer in consumers:
                consumer.poll(0.05)

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        wait_until(lambda: all(len(each.assignment()) == 4 for each in consumers), "every member owns partitions", 60)
        for consumer in consumers:
            consumer.commit(offsets=[TopicPartition("filled", 0, 2)], asynchronous=False)
        yield
    finally:
        ended.set()
        thread.join()
        for consumer in consumers:
            consumer.close()


@contextmanager
def transactions(place: Place) -> Iterator[None]:
    """`ended` committed one and aborted one; `open` is in the middle of one."""
    admin = admin_client(place.address)
    create_topic(admin, "filled", 1, FOR_EVER)
    ended = Producer({"bootstrap.servers": place.address, "transactional.id": "ended"})
    ended.init_transactions()
    for end in (ended.commit_transaction, ended.abort_transaction):
        ended.begin_transaction()
        ended.produce("filled", "x", partition=0)
        ended.flush()
        end()
    still_open = Producer(
        {"bootstrap.servers": place.address, "transactional.id": "open", "transaction.timeout.ms": 900_000}
    )
    still_open.init_transactions()
    still_open.begin_transaction()
    still_open.produce("filled", "y", partition=0)
    still_open.flush()
    yield
