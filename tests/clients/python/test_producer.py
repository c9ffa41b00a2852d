"""Sending: the three ways of the books, what a record carries, partitioners, interceptors, errors, transactions."""

from __future__ import annotations

import contextlib
import gc
import itertools
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from moldau import Consumer, Producer
from moldau.clients.errors import (
    BufferExhausted,
    ClientError,
    DeliveryFailed,
    InvalidRecord,
    KafkaFailure,
    ProducerFenced,
    RecordTooLarge,
    SerializationFailed,
    SettingError,
    TimedOut,
    UndeliveredRecords,
    UnknownTopic,
)
from moldau.clients.interceptors import ProducerInterceptor
from moldau.clients.partitioners import SpecialKeys, hashed
from moldau.clients.records import ProducerRecord, RecordMetadata, TopicPartition
from moldau.testing.brokers import Kafka, Running
from tests.support.broker import Broker
from tests.support.process import free_port

NOBODY = f"127.0.0.1:{free_port()}"
KILOBYTE = 1024


def records(kafka: Kafka, topic: str, count: int, **properties: object) -> list[Any]:
    found = []
    with kafka.consumer(**properties) as consumer:
        consumer.assign([TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)])
        for record in consumer.records(20.0):
            found.append(record)
            if len(found) == count:
                break
    return found


def test_fire_and_forget_delivers_all_by_close(kafka: Kafka, topic: str) -> None:
    """PRD-05, AR-16."""
    with kafka.producer() as producer:
        for number in range(1000):
            producer.send(topic, b"%d" % number)
    assert kafka.values(topic, 1000) == [b"%d" % number for number in range(1000)]


def test_close_returns_when_every_callback_has_been_called(kafka: Kafka, topic: str) -> None:
    """PRD-13."""
    told: list[int] = []
    producer = kafka.producer(linger_ms=1000)
    for number in range(1000):
        producer.send(topic, b"v", on_delivery=lambda _, error, number=number: told.append(number if not error else -1))
    producer.close()
    assert told == list(range(1000))


def test_whatever_a_record_leaves_out_it_is_stored_where_it_was_told(kafka: Kafka, wide_topic: str) -> None:
    """PRD-01, PRD-03, PRD-08: every combination, with and without a callback."""
    told: list[RecordMetadata | None] = []
    waited: list[RecordMetadata] = []
    sent: list[ProducerRecord] = []
    with kafka.producer() as producer:
        for key, partition, timestamp in itertools.product((None, b"k"), (None, 1), (None, 5)):
            record = ProducerRecord(wide_topic, b"%d" % len(sent), key, partition, timestamp)
            sent += [record, record]
            waited.append(producer.send(record).result(30))
            waited.append(producer.send(record, on_delivery=lambda place, _: told.append(place)).result(30))
    assert told == waited[1::2]
    found = {(each.partition, each.offset): each for each in records(kafka, wide_topic, len(sent))}
    for record, place in zip(sent, waited, strict=True):
        stored = found.pop((place.partition, place.offset))
        assert (stored.key, stored.value, stored.timestamp) == (record.key, record.value, place.timestamp)
        assert record.partition in (None, place.partition) and record.timestamp in (None, place.timestamp)
    assert found == {}


def test_a_synchronous_send_says_where_the_record_is(kafka: Kafka, topic: str) -> None:
    """PRD-06."""
    with kafka.producer(value_serializer="string") as producer:
        first = producer.send(topic, "a", timestamp=1_600_000_000_000).result(30)
        second = producer.send(ProducerRecord(topic, "b")).result(30)
    assert first == RecordMetadata(topic, 0, 0, 1_600_000_000_000)
    assert second.offset == 1


def test_the_first_sample_of_the_documents(kafka: Kafka, topic: str) -> None:
    """PRD-21."""
    sample = {"acks": "all", "retries": 0, "batch.size": 16384, "linger.ms": 1, "buffer.memory": 33554432}
    with kafka.producer(sample, key_serializer="string", value_serializer="string") as producer:
        for number in range(100):
            producer.send(topic, str(number), str(number))
    assert [record.key for record in records(kafka, topic, 100, key_deserializer="string")] == list(
        map(str, range(100))
    )


def test_a_callback_gets_metadata_or_an_error_once(kafka: Kafka, topic: str) -> None:
    """PRD-07, PRD-09."""
    told: list[tuple[int, RecordMetadata | None, KafkaFailure | None]] = []
    with kafka.producer(max_request_size=2_000_000) as producer:
        for number, value in enumerate([b"small", b"x" * 1_500_000]):
            producer.send(
                topic, value, on_delivery=lambda metadata, error, number=number: told.append((number, metadata, error))
            )
    (good, metadata, none), (bad, nothing, error) = sorted(told, key=lambda each: each[0])
    assert (good, none, bad, nothing) == (0, None, 1, None)
    assert metadata is not None and metadata.offset == 0
    assert isinstance(error, RecordTooLarge)
    assert topic in str(error) and "max.message.bytes" in str(error)


def test_a_record_carries_key_headers_and_timestamp(kafka: Kafka, topic: str) -> None:
    """MSG-05, CON-07."""
    with kafka.producer(key_serializer="long", value_serializer="json") as producer:
        producer.send(topic, {"stage": "ü"}, 7, headers=[("trace", b"1"), ("trace", b"2"), ("none", None)], timestamp=5)
        producer.send(topic, None, 8)
    first, tombstone = records(kafka, topic, 2, key_deserializer="long", value_deserializer="json")
    assert (first.key, first.value, first.timestamp) == (7, {"stage": "ü"}, 5)
    assert first.headers == [("trace", b"1"), ("trace", b"2"), ("none", None)]
    assert first.header("trace") == b"2"
    assert first.value_bytes == '{"stage":"ü"}'.encode()
    assert (tombstone.key, tombstone.value) == (8, None)


def test_a_record_says_whose_its_timestamp_is(kafka: Kafka, topic: str) -> None:
    """MSG-06, PR-16."""
    appended = kafka.topic(message_timestamp_type="LogAppendTime")
    with kafka.producer() as producer:
        for each in (topic, appended):
            producer.send(each, b"v", timestamp=5)
    (by_producer,), (by_broker,) = records(kafka, topic, 1), records(kafka, appended, 1)
    assert (by_producer.timestamp, by_producer.is_log_append_time) == (5, False)
    assert by_broker.timestamp > 5 and by_broker.is_log_append_time


def test_without_a_serializer_only_bytes_are_taken(kafka: Kafka, topic: str) -> None:
    with (
        kafka.producer() as producer,
        pytest.raises(SerializationFailed, match=rf"the value of a record for {topic}: str"),
    ):
        producer.send(topic, "text")


def test_a_serializer_refuses_other_types(kafka: Kafka, topic: str) -> None:
    """PER-03, SER-05."""
    with kafka.producer(value_serializer="string") as producer, pytest.raises(SerializationFailed, match="int"):
        producer.send(topic, 5)


def test_many_threads_share_a_producer(kafka: Kafka, wide_topic: str) -> None:
    """PRD-11, AR-15."""
    with kafka.producer(value_serializer="integer") as producer:

        def send(first: int) -> None:
            for number in range(first, first + 10_000):
                producer.send(wide_topic, number)

        threads = [threading.Thread(target=send, args=(10_000 * number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(kafka.values(wide_topic, 80_000, value_deserializer="integer")) == list(range(80_000))


def test_keys_are_placed_as_by_java(kafka: Kafka, wide_topic: str) -> None:
    """PAR-03."""
    with kafka.producer(key_serializer="string", value_serializer="string") as producer:
        placed = {key: producer.send(wide_topic, "v", key) for key in ("alpha", "beta", "gamma", "21", "foobar")}
        partitions = {key: delivery.result(30).partition for key, delivery in placed.items()}
    assert partitions == {key: hashed(key.encode(), 3) for key in placed}
    assert hashed(b"foobar", 0x7FFFFFFF) == -790332482 & 0x7FFFFFFF  # from Kafka's own tests


def test_round_robin_spreads_evenly(kafka: Kafka, wide_topic: str) -> None:
    """PR-20: with the partitioner that takes turns; librdkafka's own chooses at random."""
    with kafka.producer(partitioner_class="org.apache.kafka.clients.producer.RoundRobinPartitioner") as producer:
        for _ in range(9):
            producer.send(wide_topic, b"v")
    assert Counter(record.partition for record in records(kafka, wide_topic, 9)) == {0: 3, 1: 3, 2: 3}


def test_a_special_key_has_the_last_partition_alone(kafka: Kafka, wide_topic: str) -> None:
    """PAR-06, PAR-07."""
    properties = {"partitioner.class": SpecialKeys, "partitioner.special.keys": "Banana"}
    with kafka.producer(properties, key_serializer="string") as producer:
        for key in ["Banana", *map(str, range(50))]:
            producer.send(wide_topic, b"v", key)
        with pytest.raises(InvalidRecord, match="no key"):
            producer.send(wide_topic, b"v")
    found = records(kafka, wide_topic, 51)
    assert {record.key for record in found if record.partition == 2} == {b"Banana"}
    assert {record.partition for record in found if record.key != b"Banana"} == {0, 1}


def test_producers_with_different_partitioners_share_a_topic(kafka: Kafka, wide_topic: str) -> None:
    """PAR-08."""
    special = {"partitioner.class": SpecialKeys, "partitioner.special.keys": "Banana"}
    with (
        kafka.producer(partitioner_class="round_robin") as one,
        kafka.producer(special, key_serializer="string") as two,
    ):
        places = [(one.send(wide_topic, b"v"), two.send(wide_topic, b"v", "Banana")) for _ in range(3)]
        assert [other.result(30).partition for _, other in places] == [2, 2, 2]
        assert {mine.result(30).partition for mine, _ in places} == {0, 1, 2}


def test_an_explicit_partition_is_used_as_it_is(kafka: Kafka, wide_topic: str) -> None:
    """PAR-01."""
    with kafka.producer(partitioner_class="round_robin") as producer:
        assert {producer.send(wide_topic, b"v", partition=2).result(30).partition for _ in range(3)} == {2}
        with pytest.raises(DeliveryFailed, match=rf"{wide_topic}-7.*partitions_for"):
            producer.send(wide_topic, b"v", partition=7).result(30)


class Tracing(ProducerInterceptor):
    def __init__(self, name: str, log: list[object]) -> None:
        self.name, self.log = name, log

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.log.append((self.name, record.header("trace")))
        record.headers.append(("trace", self.name))
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaFailure | None) -> None:
        self.log.append((self.name, "acknowledged", metadata and metadata.offset))

    def close(self) -> None:
        self.log.append((self.name, "closed"))


class Broken(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("a bug in an interceptor")


def test_interceptors_run_in_order_and_never_stop_a_record(kafka: Kafka, topic: str) -> None:
    """TR-04, PR-23."""
    log: list[object] = []
    chain = [Tracing("first", log), Broken(), Tracing("second", log)]
    with kafka.producer(interceptor_classes=chain) as producer:
        producer.send(topic, b"v").result(30)
    assert log == [
        ("first", None),
        ("second", "first"),
        ("first", "acknowledged", 0),
        ("second", "acknowledged", 0),
        ("first", "closed"),
        ("second", "closed"),
    ]
    (record,) = records(kafka, topic, 1)
    assert record.headers == [("trace", b"first"), ("trace", b"second")]


# -- errors ------------------------------------------------------------------------------------------------------


def test_a_lost_record_is_told_at_close() -> None:
    """PRD-05, PRD-06: send itself does not raise; what was asked about tells why."""
    producer = Producer(
        {"bootstrap.servers": NOBODY, "delivery.timeout.ms": 300, "linger.ms": 0}, value_serializer="string"
    )
    producer.send("orders", "tea")
    asked = producer.send("orders", "coffee")
    assert isinstance(asked.exception(30), DeliveryFailed)
    with pytest.raises(UndeliveredRecords, match="1 record was not delivered") as told:
        producer.close()
    assert "orders" in str(told.value) and "delivery.timeout.ms" in str(told.value)
    producer.close()


def test_interceptors_do_not_keep_a_lost_record_quiet() -> None:
    producer = Producer(bootstrap_servers=NOBODY, delivery_timeout_ms=300, interceptor_classes=[ProducerInterceptor])
    producer.send("orders", b"tea")
    asked: list[object] = []
    producer.send("orders", b"coffee", on_delivery=lambda _, error: asked.append(error))
    with pytest.raises(UndeliveredRecords, match="1 record was not delivered"):
        producer.close()
    assert len(asked) == 1


def test_a_lost_record_does_not_hide_the_error_of_the_block() -> None:
    def fail() -> None:
        with Producer(bootstrap_servers=NOBODY, delivery_timeout_ms=300) as producer:
            producer.send("orders", b"tea")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError) as told:
        fail()
    assert "1 record was not delivered" in told.value.__notes__[0]


def test_close_with_a_timeout_gives_up_what_is_under_way() -> None:
    """PRD-14."""
    producer = Producer(bootstrap_servers=NOBODY)
    delivery = producer.send("orders", b"tea")
    with pytest.raises(TimedOut, match="still under way"):
        delivery.result(0.05)
    with pytest.raises(UndeliveredRecords):
        producer.close(0.1)
    assert delivery.done()
    with pytest.raises(ClientError, match="closed"):
        producer.send("orders", b"tea")


@pytest.mark.parametrize("room", [{"queue.buffering.max.messages": 10}, {"buffer.memory": 10 * KILOBYTE}])
def test_a_full_buffer_blocks_and_then_raises(room: dict[str, object]) -> None:
    """PCF-07, PCF-09, PER-03."""
    producer = Producer({"bootstrap.servers": NOBODY, "max.block.ms": 200, "delivery.timeout.ms": 60_000, **room})
    for _ in range(10):
        producer.send("orders", bytes(KILOBYTE))
    with pytest.raises(BufferExhausted, match=r"max\.block\.ms=200"):
        producer.send("orders", bytes(KILOBYTE))
    with pytest.raises(UndeliveredRecords, match="10 records"):
        producer.close(0)


def test_partitions_are_waited_for_no_longer_than_allowed() -> None:
    """PRD-15, PCF-09."""
    with (
        Producer(bootstrap_servers=NOBODY, max_block_ms=200) as producer,
        pytest.raises(TimedOut, match="cannot look up the partitions"),
    ):
        producer.partitions_for("orders")


def test_partitions_of_a_topic_that_is_not_there(kafka: Kafka) -> None:
    with (
        kafka.producer(allow_auto_create_topics=False) as producer,
        pytest.raises(UnknownTopic, match="create the topic"),
    ):
        producer.partitions_for("nowhere..not")


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": "h:1", "block.on.buffer.full": "true"}, "block.on.buffer.full"),
        ({"bootstrap.servers": "h:1", "metadata.fetch.timeout.ms": "1"}, "metadata.fetch.timeout.ms"),
        ({"bootstrap.servers": "h:1", "timeout.ms": "1"}, "timeout.ms"),
        ({"bootstrap.servers": "h:1", "transactional.id": "t", "enable.idempotence": False}, "enable.idempotence"),
        ({"bootstrap.servers": "h:1", "linger.ms": "soon"}, "linger.ms"),
        ({"bootstrap.servers": "h:1", "no.such.setting": "1"}, "no.such.setting"),
        ({"bootstrap.servers": "h:1", "value.serializer": "nowhere.Nothing"}, "value.serializer"),
        ({"bootstrap.servers": "h:1", "partitioner.class": "builtins:int"}, "partitioner.class"),
        ({"bootstrap.servers": "h:1", "interceptor.classes": "builtins:int"}, "interceptor.classes"),
        ({"bootstrap.servers": "h:1", "value.serializer": "avro"}, "schema.registry.url"),
    ],
)
def test_a_wrong_property_is_named(properties: dict[str, object], key: str) -> None:
    """PR-09, PCF-08, PCF-19, PCF-20, PCF-26: what is mandatory, and what is gone."""
    with pytest.raises(SettingError, match=key.replace(".", r"\.")):
        Producer(properties)


def forget() -> None:
    Producer(bootstrap_servers=NOBODY)
    gc.collect()


def test_a_forgotten_producer_is_told() -> None:
    """PRD-12."""
    with pytest.warns(ResourceWarning, match="without close"):
        forget()


# -- transactions ------------------------------------------------------------------------------------------------


def test_a_transaction_is_seen_whole_or_not_at_all(kafka: Kafka, topic: str, wide_topic: str) -> None:
    """TXN-02, TXN-03, TXN-06."""
    with kafka.producer(transactional_id=f"tx-{topic}") as producer:
        with producer.transaction():
            producer.send(topic, b"kept")
            producer.send(wide_topic, b"kept")
        with contextlib.suppress(ZeroDivisionError), producer.transaction():
            producer.send(topic, b"dropped")
            _ = 1 / 0
        with producer.transaction():
            producer.send(topic, b"kept too")
    assert kafka.values(topic, 2, isolation_level="read_committed") == [b"kept", b"kept too"]
    assert kafka.values(wide_topic, 1, isolation_level="read_committed") == [b"kept"]


def test_a_second_producer_fences_the_first(kafka: Kafka, topic: str) -> None:
    """TXN-04."""
    first = kafka.producer(transactional_id=f"fenced-{topic}")
    with first.transaction():
        first.send(topic, b"a")
    with kafka.producer(transactional_id=f"fenced-{topic}") as second, second.transaction():
        second.send(topic, b"b")

    def send_again() -> None:
        with first.transaction():
            first.send(topic, b"c")
            first.flush(30)

    with pytest.raises(ProducerFenced, match="close this one") as told:
        send_again()
    assert told.value.fatal
    with pytest.raises(UndeliveredRecords):
        first.close(1)


def test_offsets_and_records_are_committed_together(kafka: Kafka, topic: str, wide_topic: str) -> None:
    with kafka.producer() as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number)
    settings = {"group.id": f"copy-{topic}", "enable.auto.commit": False}
    with kafka.producer(transactional_id=f"copy-{topic}") as producer, kafka.consumer(settings) as consumer:
        consumer.subscribe(topic)
        copied = 0
        while copied < 10:
            batch = consumer.poll(10.0)
            with producer.transaction() as transaction:
                for record in batch:
                    producer.send(wide_topic, record.value, partition=0)
                transaction.send_offsets(consumer)
            copied += len(batch)
    assert kafka.values(wide_topic, 10, isolation_level="read_committed") == [b"%d" % number for number in range(10)]
    with kafka.admin() as admin:
        assert admin.list_consumer_group_offsets(f"copy-{topic}")[TopicPartition(topic, 0)].offset == 10


def test_a_commit_without_an_answer_is_not_forgotten(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Producer(bootstrap_servers=broker.address, transactional_id="t") as producer:
        kafka = Running(broker.address)
        topic = kafka.topic()
        producer.begin_transaction()
        producer.send(topic, b"first").result(30)
        broker.process.send_signal(signal.SIGSTOP)
        with pytest.raises(TimedOut, match="not committed"):
            producer.commit_transaction(0.01)
        with pytest.raises(ClientError, match=r"may have succeeded.*commit_transaction\(\)"), producer.transaction():
            pass
        broker.process.send_signal(signal.SIGCONT)
        producer.commit_transaction()
        with producer.transaction():
            producer.send(topic, b"second")
        assert kafka.values(topic, 2, isolation_level="read_committed") == [b"first", b"second"]


def test_an_abort_without_an_answer_ends_before_the_next_transaction(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Producer(bootstrap_servers=broker.address, transactional_id="t") as producer:
        kafka = Running(broker.address)
        topic = kafka.topic()
        producer.begin_transaction()
        producer.send(topic, b"dropped").result(30)
        broker.process.send_signal(signal.SIGSTOP)
        with pytest.raises(TimedOut, match="not aborted"):
            producer.abort_transaction(0.01)
        broker.process.send_signal(signal.SIGCONT)
        with producer.transaction():
            producer.send(topic, b"kept")
        assert kafka.values(topic, 1, isolation_level="read_committed") == [b"kept"]


def test_transactions_need_an_id(kafka: Kafka) -> None:
    with kafka.producer() as producer, pytest.raises(SettingError, match=r"transactional\.id"), producer.transaction():
        pass


def test_names_are_those_of_the_package() -> None:
    assert (Producer.__module__, Consumer.__module__) == ("moldau.clients.producer", "moldau.clients.consumer")
