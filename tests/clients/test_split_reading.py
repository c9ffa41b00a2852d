"""What a Spark task reads of a partition, compared with librdkafka: every edge of splits, batches and transactions."""

from __future__ import annotations

import random
import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from moldau.spark.errors import SourceError
from moldau.spark.fetching.prefetch import read_split
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split
from tests.clients.conftest import StartBroker
from tests.support.admin import admin_client, create_topic, log_range
from tests.support.clients import A_DAY_AGO_MS, CODECS
from tests.support.segments import partition_folder, segment_files
from tests.support.split_reading import (
    COLUMNS,
    LANES,
    LIBRDKAFKA,
    PATHS,
    SECONDS,
    WIRE,
    Row,
    client_settings,
    librdkafka_rows,
    split_of,
    task_rows,
)
from tests.support.waiting import wait_until

OFFSET = COLUMNS.index("offset")
MINUTE_MS = 60_000
SMALL = ReadSettings(timeout_seconds=SECONDS, fetch_bytes=200, batch_bytes=300)
PRODUCERS = 3


def producer(address: str, **settings: object) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0, "linger.ms": 5, **settings})


class Writers:
    """Producers outside and inside of transactions that take turns in one partition."""

    def __init__(self, address: str, topic: str, seed: int) -> None:
        self.choice = random.Random(seed)
        self.topic = topic
        self.plain = [producer(address, **{"compression.type": codec}) for codec in CODECS]
        self.transactional = [
            producer(address, **{"transactional.id": f"{topic}-{index}", "compression.type": codec})
            for index, codec in enumerate(("none", "lz4", "none")[:PRODUCERS])
        ]
        for each in self.transactional:
            each.init_transactions(SECONDS)
        self.open: set[int] = set()
        self.count = 0

    def turn(self, timestamp: int) -> None:
        index = self.choice.randrange(2 * PRODUCERS)
        if index >= PRODUCERS:
            self.write(self.choice.choice(self.plain), timestamp)
        elif index in self.open and self.choice.random() < 0.5:
            self.finish(index)
        else:
            if index not in self.open:
                self.transactional[index].begin_transaction()
                self.open.add(index)
            self.write(self.transactional[index], timestamp)

    def finish(self, index: int) -> None:
        if self.choice.random() < 0.5:
            self.transactional[index].commit_transaction(SECONDS)
        else:
            self.transactional[index].abort_transaction(SECONDS)
        self.open.discard(index)

    def write(self, through: confluent_kafka.Producer, timestamp: int) -> None:
        for _ in range(self.choice.randint(1, 4)):
            self.count += 1
            through.produce(
                self.topic,
                key=self.choice.choice([None, b"", b"k%d" % self.choice.randrange(4)]),
                value=self.choice.choice([None, b"", b"value %d " % self.count + b"x" * self.choice.randrange(60)]),
                headers=self.choice.choice([None, [("h", b"1"), ("ü", None)], [("", b"")]]),
                partition=0,
                timestamp=timestamp + self.count,
            )
        through.flush(SECONDS)

    def close(self) -> None:
        for index in sorted(self.open):
            self.finish(index)


def all_splits(last: int, seed: int) -> list[tuple[int, int]]:
    """Every offset is the start of some splits and the end of some; long ones and empty ones among them."""
    choice = random.Random(seed)
    pairs = {(0, last), (last, last)}
    for place in range(last):
        pairs |= {(place, place + 1), (place, choice.randint(place, last)), (choice.randint(0, place), place)}
    return sorted(pairs)


def compare_all_splits(address: str, topic: str, last: int, expected: list[Row], isolation: str, path: str) -> None:
    planned = split_of(address, topic, 0, last)
    for start, end in all_splits(last, seed=last):
        split = Split(planned.topic, planned.topic_id, 0, start, end, planned.leader)
        found = task_rows(address, split, settings=SMALL, isolation=isolation, path=path)
        assert found == [row for row in expected if start <= row[OFFSET] < end], (start, end)


@pytest.mark.parametrize("path", [WIRE, LANES])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_split_of_a_log_with_transactions_and_codecs(
    address: str, admin: AdminClient, topic: str, isolation: str, path: str
) -> None:
    create_topic(admin, topic)
    writers = Writers(address, topic, seed=5)
    for _ in range(40):
        writers.turn(A_DAY_AGO_MS)
    writers.close()
    last = log_range(admin, topic)[1]
    expected = librdkafka_rows(address, topic, isolation)
    assert len(expected) > 20
    compare_all_splits(address, topic, last, expected, isolation, path)
    whole = task_rows(address, split_of(address, topic, 0, last), isolation=isolation, path=path)
    assert whole == expected, "the same in one answer"


def test_every_split_of_a_compacted_log(own_broker: StartBroker) -> None:
    """Holes at the start, between and at the end of splits; markers stay, batches lose records or go."""
    broker = own_broker(**{"log.cleaner.backoff.ms": 200, "log.initial.task.delay.ms": 100})
    admin = admin_client(broker.address)
    config = {"cleanup.policy": "compact", "segment.ms": "60000", "min.cleanable.dirty.ratio": "0.01"}
    create_topic(admin, "compacted", configs=config)
    keyed = producer(broker.address)
    transactional = producer(broker.address, **{"transactional.id": "t"})
    transactional.init_transactions(SECONDS)
    for round_number in range(8):
        # Later than any marker, which has the broker's time: each round begins a segment.
        timestamp = time.time_ns() // 1_000_000 + (round_number + 1) * 2 * MINUTE_MS
        for index in range(6):
            keyed.produce(
                "compacted", b"%d.%d" % (round_number, index), b"key %d" % (index % 4), 0, timestamp=timestamp
            )
        keyed.flush(SECONDS)
        transactional.begin_transaction()
        transactional.produce(
            "compacted", b"t%d" % round_number, b"key %d" % (round_number % 3), 0, timestamp=timestamp
        )
        if round_number % 2:
            # Without this librdkafka may abort what no broker has heard of yet, and fail for good; on Apache Kafka too.
            transactional.flush(SECONDS)
            transactional.abort_transaction(SECONDS)
        else:
            transactional.commit_transaction(SECONDS)
    folder = partition_folder(broker.data, "compacted")
    last = log_range(admin, "compacted")[1]
    wait_until(lambda: len(segment_files(folder)) <= 2, "the cleaner has made one segment of all but the last")
    expected = librdkafka_rows(broker.address, "compacted")
    assert len(expected) < last // 2, "there are holes"
    for path in (WIRE, LANES):
        compare_all_splits(broker.address, "compacted", last, expected, "read_committed", path)


def test_a_batch_larger_than_a_fetch(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, configs={"max.message.bytes": 8 << 20})
    sender = producer(address, **{"message.max.bytes": 8 << 20})
    values = [b"a" * (3 << 20), b"b", b"c" * (5 << 20)]
    for value in values:
        sender.produce(topic, value)
        sender.flush(SECONDS)
    rows = task_rows(address, split_of(address, topic, 0, 3), ["value"], fetch_bytes=1000, batch_bytes=1 << 20)
    assert [row[0] for row in rows] == values


def test_arrow_batches_stay_small(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    sender = producer(address, **{"compression.type": "lz4"})
    for index in range(3000):
        sender.produce(topic, b"x" * 1000, key=b"%d" % index)
    sender.flush(SECONDS)
    settings = ReadSettings(batch_bytes=100_000)
    batches = list(
        read_split(split_of(address, topic, 0, 3000), client_settings(address), settings, ("value", "topic"))
    )
    assert sum(batch.num_rows for batch in batches) == 3000
    assert max(batch.nbytes for batch in batches) <= 100_000 + 3000 // 8 + 64


def test_append_time_filters_and_columns(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, configs={"message.timestamp.type": "LogAppendTime"})
    sender = producer(address)
    for index in range(3):
        sender.produce(topic, b"%d" % index, headers=[("n", b"%d" % index)])
        sender.flush(SECONDS)
    expected = librdkafka_rows(address, topic)
    split = split_of(address, topic, 0, 3)
    assert task_rows(address, split) == expected
    assert [row[6] for row in expected] == [1, 1, 1]
    times = [row[5] for row in expected]
    since = task_rows(address, split, ["timestamp"], low_timestamp=times[1])
    assert since == [(time,) for time in times if time >= times[1]]
    until = task_rows(address, split, ["timestamp"], high_timestamp=times[1])
    assert until == [(time,) for time in times if time <= times[1]]
    assert task_rows(address, split, ["headers", "partition"]) == [(row[7], 0) for row in expected]
    assert task_rows(address, split, ["offset"]) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("path", PATHS)
def test_an_open_transaction_holds_the_reader_back(address: str, admin: AdminClient, topic: str, path: str) -> None:
    create_topic(admin, topic)
    writer = producer(address, **{"transactional.id": topic})
    writer.init_transactions(SECONDS)
    writer.begin_transaction()
    writer.produce(topic, b"undecided")
    writer.flush(SECONDS)
    split = split_of(address, topic, 0, 1)
    with pytest.raises(SourceError, match=r"still open holds back the offsets from 0 on"):
        task_rows(address, split, path=path, timeout_seconds=0.5, max_wait_ms=50)
    assert task_rows(address, split, ["value"], path=path, isolation="read_uncommitted") == [(b"undecided",)]
    writer.commit_transaction(SECONDS)
    assert task_rows(address, split, ["value"], path=path) == [(b"undecided",)]


def test_librdkafka_gives_the_same_rows(address: str, admin: AdminClient, topic: str) -> None:
    """What the mechanisms use that only librdkafka knows."""
    create_topic(admin, topic)
    writers = Writers(address, topic, seed=11)
    for _ in range(20):
        writers.turn(A_DAY_AGO_MS)
    writers.close()
    last = log_range(admin, topic)[1]
    expected = librdkafka_rows(address, topic)
    for start, end in ((0, last), (3, last - 2), (last // 2, last // 2 + 1)):
        split = split_of(address, topic, start, end)
        rows = task_rows(address, split, settings=SMALL, path=LIBRDKAFKA)
        assert rows == task_rows(address, split) == [row for row in expected if start <= row[OFFSET] < end]
