"""Offsets by place and by time, records deleted from the front, positions out of range."""

from __future__ import annotations

import asyncio

import aiokafka
import confluent_kafka
import kafka
import kafka.admin
import pytest
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.admin import create_topic, delete_records, error_code, list_offset, log_range
from tests.support.clients import A_DAY_AGO_MS, Confluent, Message
from tests.support.waiting import wait_until

NOW = A_DAY_AGO_MS
client = Confluent()


@pytest.fixture
def timed(address: str, topic: str) -> str:
    """Ten records, a second apart, with one straggler: offset 6 is older than its neighbours."""
    times = [NOW + 1000 * number for number in range(10)]
    times[6] = NOW + 500
    client.produce(address, topic, [Message(b"%d" % number, timestamp=time) for number, time in enumerate(times)])
    return topic


def test_earliest_latest_and_max_timestamp(admin: AdminClient, timed: str) -> None:
    assert list_offset(admin, timed, OffsetSpec.earliest())[0] == 0
    assert list_offset(admin, timed, OffsetSpec.latest())[0] == 10
    assert list_offset(admin, timed, OffsetSpec.max_timestamp()) == (9, NOW + 9000)


@pytest.mark.parametrize(
    ("moment", "offset", "timestamp"),
    [(-10_000, 0, 0), (0, 0, 0), (1, 1, 1000), (1000, 1, 1000), (4500, 5, 5000), (9000, 9, 9000)],
)
def test_first_offset_at_or_after_a_moment(
    admin: AdminClient, timed: str, moment: int, offset: int, timestamp: int
) -> None:
    """TP-17: the first record whose timestamp is not older."""
    assert list_offset(admin, timed, OffsetSpec.for_timestamp(NOW + moment)) == (offset, NOW + timestamp)


def test_no_offset_after_the_last_record(admin: AdminClient, timed: str) -> None:
    assert list_offset(admin, timed, OffsetSpec.for_timestamp(NOW + 9001))[0] == -1


def test_times_over_many_batches(admin: AdminClient, address: str, topic: str) -> None:
    """The same answer whether a record shares its batch with others or not, in every codec."""
    for codec in ("none", "lz4", "gzip"):
        first = NOW + 1_000_000 * log_range(admin, topic)[1] if codec != "none" else NOW
        for start in range(0, 30, 10):
            batch = [Message(b"x", timestamp=first + 10 * number) for number in range(start, start + 10)]
            client.produce(address, topic, batch, codec=codec)
        end = log_range(admin, topic)[1]
        assert list_offset(admin, topic, OffsetSpec.for_timestamp(first + 145)) == (end - 15, first + 150)


def test_offsets_for_times_through_the_other_clients(address: str, timed: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=address)
    place = kafka.TopicPartition(timed, 0)
    try:
        found = consumer.offsets_for_times({place: NOW + 2500})[place]
        assert (found.offset, found.timestamp) == (3, NOW + 3000)
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: 10}
    finally:
        consumer.close()

    async def ask() -> None:
        spot = aiokafka.TopicPartition(timed, 0)
        async with aiokafka.AIOKafkaConsumer(bootstrap_servers=address) as reader:
            answer = (await reader.offsets_for_times({spot: NOW + 2500}))[spot]
            assert (answer.offset, answer.timestamp) == (3, NOW + 3000)
            assert await reader.end_offsets([spot]) == {spot: 10}

    asyncio.run(ask())


def test_records_deleted_from_the_front(admin: AdminClient, address: str, timed: str) -> None:
    """The log starts later, reads below it are out of range, times are found among what is left."""
    assert delete_records(admin, timed, before=4) == 4
    assert log_range(admin, timed) == (4, 10)
    assert [each.offset for each in client.consume(address, timed, 6, offset=4)] == [4, 5, 6, 7, 8, 9]
    assert list_offset(admin, timed, OffsetSpec.for_timestamp(0)) == (4, NOW + 4000)
    assert delete_records(admin, timed, before=2) == 4, "the start never moves back"
    assert error_code(lambda: delete_records(admin, timed, before=11)) == "OFFSET_OUT_OF_RANGE"
    assert delete_records(admin, timed, before=confluent_kafka.OFFSET_END) == 10
    assert log_range(admin, timed) == (10, 10)
    assert client.produce(address, timed, [Message(b"next")]) == [10]


def test_compacted_topics_refuse_deleted_records(admin: AdminClient, address: str, topic: str) -> None:
    create_topic(admin, topic, configs={"cleanup.policy": "compact"})
    client.produce(address, topic, [Message(b"value", b"key")])
    assert error_code(lambda: delete_records(admin, topic, before=1)) == "POLICY_VIOLATION"


@pytest.mark.parametrize(("policy", "position"), [("earliest", 3), ("latest", 10)])
@pytest.mark.parametrize("wanted", [1, 99], ids=["before the start", "after the end"])
def test_positions_out_of_range_follow_the_reset_policy(
    admin: AdminClient, address: str, timed: str, policy: str, position: int, wanted: int
) -> None:
    """RET-02, CCF-09: a consumer whose offset is gone goes where auto.offset.reset says."""
    delete_records(admin, timed, before=3)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": policy,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(timed, 0, wanted)])
        message = consumer.poll(30.0)
        assert message is not None
        error = message.error()
        at_end = error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF
        assert (message.offset(), at_end) == (position, policy == "latest")
    finally:
        consumer.close()


def test_no_reset_policy_reports_the_range_error(address: str, timed: str) -> None:
    """RET-02: without a policy the application sees the error."""
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, auto_offset_reset="none")
    try:
        place = kafka.TopicPartition(timed, 0)
        consumer.assign([place])
        consumer.seek(place, 4711)
        with pytest.raises(kafka.errors.OffsetOutOfRangeError):
            wait_until(lambda: consumer.poll(timeout_ms=300), "records, though an error is due")
    finally:
        consumer.close()


def test_kafka_python_deletes_records_and_lists_offsets(address: str, timed: str) -> None:
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    place = kafka.TopicPartition(timed, 0)
    try:
        assert admin.delete_records({place: 5})[place]["low_watermark"] == 5
        found = admin.list_partition_offsets({place: kafka.admin.OffsetSpec.EARLIEST})
        assert found[place].offset == 5
        found = admin.list_partition_offsets({place: kafka.admin.OffsetSpec.MAX_TIMESTAMP})
        assert (found[place].offset, found[place].timestamp) == (9, NOW + 9000)
    finally:
        admin.close()
