"""Retention, compaction and moves between log directories, as clients see them; the same holds for Apache Kafka."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer

from tests.clients.conftest import StartBroker
from tests.support.admin import admin_client, create_topic, delete_topic, log_range
from tests.support.clients import Confluent
from tests.support.segments import partition_folder, segment_files
from tests.support.waiting import wait_until

QUICK = {
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 200,
    "log.segment.delete.delay.ms": 100,
}
HOUR_MS = 3_600_000
NOW_MS = time.time_ns() // 1_000_000


def produce(address: str, topic: str, *batches: dict[str, str | None], hours_ago: int = 0) -> None:
    """Each batch is an hour after the one before, and so in a segment of its own where `segment.ms` is less."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50})
    for index, batch in enumerate(batches):
        for key, value in batch.items():
            timestamp = NOW_MS - (hours_ago - index) * HOUR_MS
            producer.produce(topic, key=key, value=value, timestamp=timestamp, partition=0)
        producer.flush()


def pairs(address: str, topic: str, count: int, offset: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    received = Confluent().consume(address, topic, count, offset=offset)
    return [(message.offset, message.key, message.value) for message in received]


def bases(folder: Path) -> list[int]:
    return [int(path.stem) for path in segment_files(folder)]


def test_a_compacted_topic_keeps_the_last_value_of_each_key(own_broker: StartBroker) -> None:
    broker = own_broker(**QUICK)
    config = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}
    create_topic(admin_client(broker.address), "users", configs=config)
    produce(
        broker.address,
        "users",
        {"u1": "a@old", "u2": "b@old"},
        {"u1": "a@new", "u3": "c@old"},
        {"u2": None, "u3": "c@new"},
        {"last": "active"},
        hours_ago=10,
    )
    folder = partition_folder(broker.data, "users")
    wait_until(lambda: bases(folder) == [0, 6], "the cleaner has made one segment of three")
    expected = [(2, b"u1", b"a@new"), (4, b"u2", None), (5, b"u3", b"c@new"), (6, b"last", b"active")]
    assert pairs(broker.address, "users", 4) == expected
    assert pairs(broker.address, "users", 2, offset=3)[0] == expected[1], "a removed offset is still a position"
    assert log_range(admin_client(broker.address), "users") == (0, 7)
    broker.kill()
    broker.start()
    assert pairs(broker.address, "users", 4) == expected
    wait_until(
        lambda: not any(path.suffix in (".deleted", ".swap", ".cleaned") for path in folder.iterdir()),
        "old files are gone",
    )


def test_old_segments_go(own_broker: StartBroker) -> None:
    broker = own_broker(**QUICK)
    config = {"retention.ms": str(HOUR_MS * 49 // 2), "segment.ms": "60000", "file.delete.delay.ms": "100"}
    create_topic(admin_client(broker.address), "events", configs=config)
    produce(broker.address, "events", *({"k": str(number)} for number in range(6)), hours_ago=27)
    folder = partition_folder(broker.data, "events")
    wait_until(lambda: log_range(admin_client(broker.address), "events") == (3, 6), "three hours are gone")
    wait_until(lambda: bases(folder) == [3, 4, 5] and not list(folder.glob("*.deleted")), "and their files")
    assert pairs(broker.address, "events", 3, offset=3)[0] == (3, b"k", b"3")


def test_a_deleted_topic_leaves_the_disk(own_broker: StartBroker) -> None:
    broker = own_broker(**QUICK)
    admin = admin_client(broker.address)
    create_topic(admin, "short-lived", partitions=3)
    produce(broker.address, "short-lived", {"k": "v"})
    delete_topic(admin, "short-lived")
    wait_until(lambda: not list(broker.data.glob("short-lived*")), "its folders are gone")
    create_topic(admin, "short-lived")
    assert log_range(admin, "short-lived") == (0, 0), "a new topic of that name starts empty"
