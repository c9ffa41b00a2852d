"""What the broker does to records on their way in: limits, timestamps, recompression, refusals, order."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import StartBroker
from tests.support.admin import create_topic, error_code, log_range
from tests.support.clients import A_DAY_AGO_MS, CLIENTS, CODECS, Confluent, Message, send
from tests.support.process import resident_bytes
from tests.support.segments import partition_folder, stored_batches
from tests.support.waiting import wait_until

client = Confluent()
HOUR = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_too_large_records_are_refused_once(address: str, admin: AdminClient, topic: str) -> None:
    """BRK-05, PER-02, PCF-21: over max.message.bytes is MESSAGE_TOO_LARGE, and nothing of it is kept."""
    create_topic(admin, topic, configs={"max.message.bytes": 10_000})
    assert error_code(lambda: client.produce(address, topic, [Message(b"x" * 10_001)])) == "MSG_SIZE_TOO_LARGE"
    assert log_range(admin, topic) == (0, 0)
    assert client.produce(address, topic, [Message(b"x" * 9_000)]) == [0]


def test_the_limit_holds_for_the_compressed_size(address: str, admin: AdminClient, topic: str) -> None:
    """BRK-05: the limit is on the batch as it is stored."""
    create_topic(admin, topic, configs={"max.message.bytes": 10_000})
    assert client.produce(address, topic, [Message(b"x" * 500_000)], codec="zstd") == [0]
    assert client.consume(address, topic, 1)[0].value == b"x" * 500_000


def test_large_records_with_raised_limits(own_broker: StartBroker, topic: str) -> None:
    """BRK-05: 8 MB records go through when broker and clients allow them."""
    broker = own_broker(**{"message.max.bytes": 10_000_000})
    value = bytes(range(256)) * 32_768
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "message.max.bytes": 10_000_000})
    for _ in range(3):
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    assert [each.value == value for each in client.consume(broker.address, topic, 3)] == [True] * 3


def test_append_time_replaces_the_clients_time(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    """MSG-06, PR-16, FMT-02: with LogAppendTime the broker's clock is stored, marked in the batch, and read back."""
    create_topic(admin, topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = now_ms()
    for codec in CODECS:
        client.produce(address, topic, [Message(b"a", timestamp=1), Message(b"b", timestamp=2)], codec=codec)
    after = now_ms()
    for reader in CLIENTS:
        stamps = [each.timestamp for each in reader.consume(address, topic, 10)]
        assert all(stamp is not None and before <= stamp <= after for stamp in stamps), (reader.name, stamps)
    batches = stored_batches(partition_folder(data, topic))
    assert all(batch.log_append_time and batch.crc_valid for batch in batches)


def test_timestamps_too_far_from_now_are_refused(address: str, admin: AdminClient, topic: str) -> None:
    """PR-16: limits before and after the broker's clock."""
    limits = {"message.timestamp.before.max.ms": HOUR, "message.timestamp.after.max.ms": HOUR}
    create_topic(admin, topic, configs=limits)
    for stamp in (now_ms() - 2 * HOUR, now_ms() + 2 * HOUR):
        code = error_code(lambda stamp=stamp: client.produce(address, topic, [Message(b"x", timestamp=stamp)]))
        assert code == "INVALID_TIMESTAMP"
    assert client.produce(address, topic, [Message(b"x", timestamp=now_ms() - HOUR // 2)]) == [0]


def test_the_far_future_is_refused_by_default(address: str, topic: str) -> None:
    """Kafka's default allows records one hour ahead of the broker's clock."""
    code = error_code(lambda: client.produce(address, topic, [Message(b"x", timestamp=now_ms() + 25 * HOUR)]))
    assert code == "INVALID_TIMESTAMP"


def test_compacted_topics_refuse_records_without_a_key(address: str, admin: AdminClient, topic: str) -> None:
    """TP-31: in every codec; a key may be empty, and tombstones are welcome."""
    create_topic(admin, topic, configs={"cleanup.policy": "compact"})
    for codec in CODECS:
        batch = [Message(b"value " * 20, b"key"), Message(b"value " * 20, None)]
        code = error_code(lambda codec=codec, batch=batch: client.produce(address, topic, batch, codec=codec))
        assert code == "INVALID_RECORD", codec
    start = log_range(admin, topic)[1]
    assert client.produce(address, topic, [Message(None, b"key"), Message(b"value", b"")]) == [start, start + 1]


@pytest.mark.parametrize(("sent", "kept"), list(itertools.permutations(CODECS, 2)))
def test_the_topics_codec_wins(address: str, admin: AdminClient, topic: str, data: Path, sent: str, kept: str) -> None:
    """MSG-09: with compression.type other than `producer` the broker recompresses; records are unchanged."""
    create_topic(admin, topic, configs={"compression.type": "uncompressed" if kept == "none" else kept})
    messages = [
        Message(b"%d " % number * 50, b"%d" % number, (("h", b"v"),), A_DAY_AGO_MS + number) for number in range(100)
    ]
    assert client.produce(address, topic, messages, codec=sent) == list(range(100))
    received = client.consume(address, topic, 100)
    assert [each.content() for each in received] == [each.content() for each in messages]
    assert [each.timestamp for each in received] == [each.timestamp for each in messages]
    batches = stored_batches(partition_folder(data, topic))
    assert {batch.codec for batch in batches} == {kept}
    assert all(batch.crc_valid for batch in batches)


def test_the_topics_own_codec_is_kept_as_sent(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    """FMT-07, MSG-10: what a producer framed is what lies on disk: one batch stays one batch."""
    create_topic(admin, topic, configs={"compression.type": "lz4"})
    client.produce(address, topic, [Message(b"same codec " * 30)] * 50, codec="lz4")
    assert {batch.codec for batch in stored_batches(partition_folder(data, topic))} == {"lz4"}


def test_order_under_many_requests_in_flight(address: str, admin: AdminClient, topic: str) -> None:
    """PER-05, PR-05, PCF-17: 20,000 records in small requests, five in flight, in order in each of 3 partitions."""
    create_topic(admin, topic, 3)
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "enable.idempotence": True,
            "batch.num.messages": 50,
            "linger.ms": 0,
            "max.in.flight.requests.per.connection": 5,
        }
    )
    for number in range(20_000):
        producer.produce(topic, b"%d" % number, partition=number % 3)
        producer.poll(0)
    assert producer.flush(60) == 0
    for partition in range(3):
        expected = [b"%d" % number for number in range(partition, 20_000, 3)]
        received = client.consume(address, topic, len(expected), partition=partition)
        assert [each.value for each in received] == expected


def test_two_producers_never_overwrite_each_other(address: str, admin: AdminClient, topic: str) -> None:
    """TOP-04, TOP-05, PR-07: both producers' records are there, each in its own order."""
    create_topic(admin, topic)
    producers = [confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 0}) for _ in range(2)]
    for number in range(2000):
        for name, producer in zip("ab", producers, strict=True):
            producer.produce(topic, b"%s%d" % (name.encode(), number))
            producer.poll(0)
    for producer in producers:
        assert producer.flush(60) == 0
    values = [each.value or b"" for each in client.consume(address, topic, 4000)]
    for name in (b"a", b"b"):
        assert [value for value in values if value.startswith(name)] == [b"%s%d" % (name, i) for i in range(2000)]


def test_same_key_same_partition(address: str, admin: AdminClient, topic: str) -> None:
    """MSG-02, PER-08: 50 keys over 6 partitions, each in exactly one, ascending."""
    create_topic(admin, topic, 6)
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    for number in range(5000):
        producer.produce(topic, b"%d" % number, b"key %d" % (number % 50))
    assert producer.flush(60) == 0
    homes: dict[bytes, set[int]] = {}
    counts: dict[bytes, list[int]] = {}
    for partition in range(6):
        for each in client.consume(address, topic, log_range(admin, topic, partition)[1], partition=partition):
            assert each.key is not None and each.value is not None
            homes.setdefault(each.key, set()).add(partition)
            counts.setdefault(each.key, []).append(int(each.value))
    assert len(homes) == 50
    assert all(len(found) == 1 for found in homes.values())
    assert all(numbers == sorted(numbers) and len(numbers) == 100 for numbers in counts.values())


def test_one_bad_partition_leaves_the_others_alone(address: str, admin: AdminClient, topic: str) -> None:
    """PR-02, PR-03: errors are per partition of a request."""
    good, bad = f"{topic}-good", f"{topic}-bad"
    create_topic(admin, good)
    create_topic(admin, bad, configs={"max.message.bytes": 1000})
    outcome: dict[str, str] = {}

    def report(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        outcome[message.topic()] = "NO_ERROR" if error is None else error.name()

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 100})
    producer.produce(good, b"x" * 5000, on_delivery=report)
    producer.produce(bad, b"x" * 5000, on_delivery=report)
    producer.flush(30)
    assert outcome == {good: "NO_ERROR", bad: "MSG_SIZE_TOO_LARGE"}


def test_min_insync_replicas_is_bounded_by_the_replicas(address: str, admin: AdminClient, topic: str) -> None:
    """BR-29: since Kafka 4 a topic with fewer replicas than min.insync.replicas takes acks=all from all it has."""
    create_topic(admin, topic, configs={"min.insync.replicas": 2})
    assert client.produce(address, topic, [Message(b"x")], acks="all") == [0]
    assert client.produce(address, topic, [Message(b"x")], acks="1") == [1]


def test_linger_and_batch_size_shape_the_batches(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    """MSG-08, PCF-13, PCF-14: batches on disk are the producer's: a hundred of one, or one of a hundred."""
    create_topic(admin, topic, 2)
    for partition, size in ((0, 1), (1, 100)):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": address, "batch.num.messages": size, "linger.ms": 1000 if size > 1 else 0}
        )
        for number in range(100):
            producer.produce(topic, b"%d" % number, partition=partition)
        assert producer.flush(30) == 0
    singles = stored_batches(partition_folder(data, topic, 0))
    together = stored_batches(partition_folder(data, topic, 1))
    assert [len(batch.values) for batch in singles] == [1] * 100
    assert len(together) < 10
    assert sum(len(batch.values) for batch in together) == 100


def test_a_broker_outage_ends_in_success_within_the_retries(own_broker: StartBroker, topic: str) -> None:
    """PCF-11, PER-01, PR-04: a restart during a send loop is invisible to an idempotent producer."""
    broker = own_broker()
    delivered: list[int] = []
    errors: list[object] = []

    def report(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            delivered.append(message.offset())
        else:
            errors.append(error)

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
    )
    for number in range(1000):
        producer.produce(topic, b"%d" % number, on_delivery=report)
        producer.poll(0)
        if number == 500:
            wait_until(lambda: producer.poll(0.01) is not None and delivered, "the first deliveries")
            broker.restart()
    assert producer.flush(60) == 0
    assert errors == []
    assert delivered == list(range(1000))
    assert [each.value for each in client.consume(broker.address, topic, 1000)] == [b"%d" % i for i in range(1000)]


def test_memory_stays_flat_while_the_log_grows(own_broker: StartBroker, topic: str) -> None:
    """LOG-08: 300 MB more in the log are not 300 MB more in the broker."""
    broker = own_broker()
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "queue.buffering.max.messages": 10_000})

    def write(megabytes: int) -> int:
        for _ in range(megabytes * 100):
            send(producer, topic, b"x" * 10_000)
        assert producer.flush(60) == 0
        return resident_bytes(broker.pid)

    first = write(50)
    assert write(300) - first < 50_000_000
