"""Reading: small limits, long polls, tails, many readers, sessions over many partitions."""

from __future__ import annotations

import asyncio
import threading
import time

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.support.admin import create_topic
from tests.support.clients import CLIENTS, CODECS, Client, Confluent, Message

client = Confluent()
by_name = pytest.mark.parametrize("reader", CLIENTS, ids=lambda reader: reader.name)


def confluent_consumer(address: str, **settings: object) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False, **settings}
    )


def test_small_limits_still_make_progress(address: str, topic: str) -> None:
    """LOG-05, FMT-07, CCF-06: a batch larger than every limit is sent whole, so that nobody gets stuck."""
    values = [bytes([number]) * 50_000 for number in range(20)]
    client.produce(address, topic, [Message(value) for value in values])
    consumer = confluent_consumer(
        address, **{"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        received = []
        while len(received) < 20:
            message = consumer.poll(30.0)
            assert message is not None and message.error() is None
            received.append(message.value())
        assert received == values
    finally:
        consumer.close()


def test_small_limits_over_many_partitions(address: str, admin: AdminClient, topic: str) -> None:
    """No partition starves when one answer has room for one batch only."""
    create_topic(admin, topic, 8)
    for partition in range(8):
        client.produce(address, topic, [Message(b"%d" % number * 2000) for number in range(10)], partition=partition)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, fetch_max_bytes=3000, max_partition_fetch_bytes=3000, consumer_timeout_ms=30_000
    )
    try:
        places = [kafka.TopicPartition(topic, partition) for partition in range(8)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        seen: dict[int, list[int]] = {partition: [] for partition in range(8)}
        for _ in range(80):
            message = next(consumer)
            seen[message.partition].append(message.offset)
        assert seen == {partition: list(range(10)) for partition in range(8)}
    finally:
        consumer.close()


@by_name
def test_a_waiting_reader_is_woken(reader: Client, address: str, admin: AdminClient, topic: str) -> None:
    """A fetch that waits for data is answered by the data, not only by the end of its wait."""
    create_topic(admin, topic)
    received: list[bytes | None] = []

    def read() -> None:
        received.extend(each.value for each in reader.consume(address, topic, 3))

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(3):
        client.produce(address, topic, [Message(b"%d" % number)])
    thread.join(30)
    assert received == [b"0", b"1", b"2"]


def test_a_long_poll_ends_with_the_data(address: str, topic: str) -> None:
    """With a wait of nearly a minute the next record still arrives at once, that is before the reader gives up."""
    client.produce(address, topic, [Message(b"first")])
    consumer = confluent_consumer(address, **{"fetch.wait.max.ms": 55_000, "socket.timeout.ms": 120_000})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        assert [message.value() for message in consumer.consume(1, timeout=30)] == [b"first"]
        client.produce(address, topic, [Message(b"wakes the reader")])
        assert [message.value() for message in consumer.consume(1, timeout=30)] == [b"wakes the reader"]
    finally:
        consumer.close()


def test_a_reader_waits_for_min_bytes(address: str, admin: AdminClient, topic: str) -> None:
    """CCF-04, fetch.min.bytes: small records are held back until enough are there, and then they come."""
    create_topic(admin, topic)
    waits = {"fetch.min.bytes": 50_000, "fetch.wait.max.ms": 50_000, "socket.timeout.ms": 120_000}
    consumer = confluent_consumer(address, **waits)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        for _ in range(10):
            client.produce(address, topic, [Message(b"x" * 1000)])
        assert consumer.poll(0.3) is None
        for _ in range(50):
            client.produce(address, topic, [Message(b"x" * 1000)])
        assert len(consumer.consume(45, timeout=30)) == 45
    finally:
        consumer.close()


def test_many_readers_at_one_tail(address: str, admin: AdminClient, topic: str) -> None:
    """TOP-01, CON-16: twenty independent readers each get every record."""
    create_topic(admin, topic)

    async def read(number: int) -> list[bytes | None]:
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=address, client_id=f"reader-{number}") as consumer:
            place = aiokafka.TopicPartition(topic, 0)
            consumer.assign([place])
            consumer.seek(place, 0)
            return [(await asyncio.wait_for(consumer.getone(), 60)).value for _ in range(100)]

    async def run() -> list[list[bytes | None]]:
        readers = [asyncio.create_task(read(number)) for number in range(20)]
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=address) as producer:
            for number in range(100):
                await producer.send_and_wait(topic, b"%d" % number)
        return await asyncio.gather(*readers)

    expected = [b"%d" % number for number in range(100)]
    assert asyncio.run(run()) == [expected] * 20


@pytest.mark.parametrize("codec", CODECS)
def test_every_offset_can_be_the_first(address: str, topic: str, codec: str) -> None:
    """LOG-04, MSG-07: from each single offset of several batches the right record comes first."""
    for start in range(0, 30, 10):
        client.produce(address, topic, [Message(b"%d" % number) for number in range(start, start + 10)], codec=codec)
    consumer = confluent_consumer(address, **{"fetch.wait.max.ms": 5})
    try:
        for offset in range(30):
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, offset)])
            message = consumer.poll(30.0)
            assert message is not None and message.error() is None
            assert (message.offset(), message.value()) == (offset, b"%d" % offset)
    finally:
        consumer.close()


def test_committed_readers_see_plain_records(address: str, topic: str) -> None:
    """Isolation level read_committed is the same as uncommitted where nobody uses transactions."""
    client.produce(address, topic, [Message(b"a"), Message(b"b")])
    for level in ("read_committed", "read_uncommitted"):
        consumer = confluent_consumer(address, **{"isolation.level": level})
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            assert [message.value() for message in consumer.consume(2, timeout=30)] == [b"a", b"b"]
        finally:
            consumer.close()


def test_pausing_and_seeking(address: str, topic: str) -> None:
    """TP-15, TOP-05: reading takes nothing away: the same records come again after a seek."""
    client.produce(address, topic, [Message(b"%d" % number) for number in range(10)])
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, consumer_timeout_ms=30_000)
    try:
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        for _ in range(3):
            consumer.seek(place, 5)
            assert [next(consumer).offset for _ in range(5)] == [5, 6, 7, 8, 9]
        consumer.pause(place)
        consumer.seek_to_beginning(place)
        assert consumer.poll(timeout_ms=200) == {}
        consumer.resume(place)
        assert next(consumer).offset == 0
    finally:
        consumer.close()


def test_many_partitions_in_one_session(address: str, admin: AdminClient, topic: str) -> None:
    """Fetch sessions: 60 partitions, each written several times while the reader goes on."""
    create_topic(admin, topic, 60)
    consumer = confluent_consumer(address)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(60)])
        for turn in range(3):
            producer = confluent_kafka.Producer({"bootstrap.servers": address})
            for partition in range(60):
                producer.produce(topic, b"%d" % turn, partition=partition)
            assert producer.flush(30) == 0
            got: set[int] = set()
            deadline = time.monotonic() + 30
            while len(got) < 60 and time.monotonic() < deadline:
                for message in consumer.consume(60, timeout=1):
                    assert message.error() is None
                    assert (message.offset(), message.value()) == (turn, b"%d" % turn)
                    got.add(message.partition())
            assert got == set(range(60))
    finally:
        consumer.close()


def test_a_large_log_is_read_whole(address: str, topic: str) -> None:
    """LOG-08: 50 MB in and out through one reader, every byte compared."""
    pattern = bytes(range(256)) * 4
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "queue.buffering.max.messages": 1_000_000})
    for number in range(50_000):
        producer.produce(topic, b"%08d" % number + pattern, partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    received = client.consume(address, topic, 50_000)
    assert all(each.value == b"%08d" % number + pattern for number, each in enumerate(received))
