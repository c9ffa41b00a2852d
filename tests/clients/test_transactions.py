"""Transactions through real clients: all or nothing, fencing, read_committed, offsets in the transaction, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient

from moldau.client.connection import Connection
from moldau.client.settings import ClientSettings, parse_address
from moldau.types.errors import ErrorCode
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.clients.conftest import StartBroker
from tests.support.admin import admin_client, create_topic
from tests.support.process import BrokerProcess
from tests.support.segments import partition_folder, stored_bytes
from tests.support.waiting import wait_until

SECONDS = 30.0
FEW_PARTITIONS = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}


def transactional(address: str, name: str, **settings: object) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "transactional.id": name, "linger.ms": 1, "log_level": 0, **settings}
    )
    producer.init_transactions(SECONDS)
    return producer


def reader(address: str, isolation: str = "read_committed", **settings: object) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
            **settings,
        }
    )


def read(address: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[tuple[int, bytes]]:
    """Offset and value of everything that is there, partition by partition."""
    consumer = reader(address, isolation)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
        found: list[tuple[int, int, bytes]] = []
        ended: set[int] = set()
        while len(ended) < partitions:
            message = consumer.poll(SECONDS)
            assert message is not None, f"no end of {topic} within {SECONDS:g} s"
            if message.error() is None:
                found.append((message.partition(), message.offset(), message.value()))
            else:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                ended.add(message.partition())
        return [(offset, value) for _, offset, value in sorted(found)]
    finally:
        consumer.close()


def values(address: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[bytes]:
    return [value for _, value in read(address, topic, partitions, isolation)]


def test_hundred_records_become_visible_together(address: str, admin: AdminClient, topic: str) -> None:
    """TXN-02, TXN-03, APP-21."""
    create_topic(admin, topic, 3)
    producer = transactional(address, topic)
    producer.begin_transaction()
    for number in range(100):
        producer.produce(topic, str(number).encode(), partition=number % 3)
    producer.flush(SECONDS)
    assert values(address, topic, 3) == []
    assert len(values(address, topic, 3, "read_uncommitted")) == 100
    producer.commit_transaction(SECONDS)
    wait_until(lambda: len(values(address, topic, 3)) == 100, "the markers are written")
    assert sorted(map(int, values(address, topic, 3))) == list(range(100))


def test_aborted_records_stay_hidden_and_markers_leave_gaps(address: str, admin: AdminClient, topic: str) -> None:
    """TXN-06, TXN-07, CCF-17."""
    create_topic(admin, topic)
    producer = transactional(address, topic)
    for number, commit in enumerate((True, False, True, False, False, True)):
        producer.begin_transaction()
        producer.produce(topic, f"{number}a".encode())
        producer.produce(topic, f"{number}b".encode())
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
    wanted = [(0, b"0a"), (1, b"0b"), (6, b"2a"), (7, b"2b"), (15, b"5a"), (16, b"5b")]
    wait_until(lambda: read(address, topic) == wanted, "the last marker is written")
    assert len(values(address, topic, isolation="read_uncommitted")) == 12


def test_second_producer_fences_the_first(address: str, admin: AdminClient, topic: str) -> None:
    """TXN-04, PCF-25."""
    create_topic(admin, topic)
    first = transactional(address, topic)
    first.begin_transaction()
    first.produce(topic, b"lost")
    first.flush(SECONDS)
    second = transactional(address, topic)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        first.commit_transaction(SECONDS)
    assert fenced.value.args[0].fatal() and fenced.value.args[0].code() == confluent_kafka.KafkaError._FENCED
    second.begin_transaction()
    second.produce(topic, b"kept")
    second.commit_transaction(SECONDS)
    wait_until(lambda: values(address, topic) == [b"kept"], "the transaction is complete")


def test_waiting_reader_is_woken_by_the_commit(address: str, admin: AdminClient, topic: str) -> None:
    """The marker moves the last stable offset: a long poll does not sleep through it."""
    create_topic(admin, topic)
    producer = transactional(address, topic)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.flush(SECONDS)
    consumer = reader(address, **{"fetch.wait.max.ms": 100_000, "socket.timeout.ms": 200_000})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    assert consumer.poll(1.0) is None
    producer.commit_transaction(SECONDS)
    message = consumer.poll(SECONDS)
    consumer.close()
    assert message is not None and message.error() is None and message.value() == b"x"


def test_offsets_count_when_the_transaction_does(address: str, admin: AdminClient, topic: str) -> None:
    """TXN-08: the position is committed with the output, or not at all."""
    create_topic(admin, topic)
    group = f"group-{topic}"
    consumer = reader(address, **{"group.id": group})
    producer = transactional(address, topic)
    place = confluent_kafka.TopicPartition(topic, 0)

    def committed() -> int:
        return int(consumer.committed([place], timeout=SECONDS)[0].offset)

    for offset, commit, known in ((5, False, confluent_kafka.OFFSET_INVALID), (7, True, 7), (9, False, 7)):
        producer.begin_transaction()
        wanted = [confluent_kafka.TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), SECONDS)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
        wait_until(lambda known=known: committed() == known, f"offset {known}")
    consumer.close()


def test_aiokafka(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, 2)
    group = f"group-{topic}"

    async def run() -> tuple[list[bytes], int | None]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, transactional_id=topic)
        async with producer:
            async with producer.transaction():
                for number in range(10):
                    await producer.send(topic, str(number).encode(), partition=number % 2)
                place = aiokafka.TopicPartition(topic, 0)
                await producer.send_offsets_to_transaction({place: 4}, group)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"lost", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(topic, b"last", partition=0)
        consumer = aiokafka.AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        )
        async with consumer:
            found: list[bytes] = []
            while len(found) < 7:
                batch = await asyncio.wait_for(consumer.getmany(timeout_ms=500), SECONDS)
                found += [record.value for records in batch.values() for record in records]
            return found, await consumer.committed(aiokafka.TopicPartition(topic, 0))

    found, committed = asyncio.run(run())
    # Of partition 0 what follows offset 4, without the aborted one; all of partition 1.
    assert sorted(found) == [b"1", b"3", b"5", b"7", b"8", b"9", b"last"]
    assert committed == 4


def test_kafka_python(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    producer = kafka.KafkaProducer(bootstrap_servers=address, transactional_id=topic, linger_ms=1)
    try:
        producer.init_transactions()
        for number, commit in enumerate((True, False, True)):
            producer.begin_transaction()
            producer.send(topic, str(number).encode(), partition=0)
            place = kafka.TopicPartition(topic, 0)
            offsets = {place: kafka.structs.OffsetAndMetadata(number, "", -1)}
            producer.send_offsets_to_transaction(offsets, f"group-{topic}")
            if commit:
                producer.commit_transaction()
            else:
                producer.flush(SECONDS)
                producer.abort_transaction()
    finally:
        producer.close()
    wait_until(lambda: values(address, topic) == [b"0", b"2"], "the last marker is written")


Restart = Callable[[BrokerProcess], None]


def test_the_first_group_of_all_can_be_added(own_broker: StartBroker) -> None:
    """Producers ask this before anybody has looked for the coordinator of a group."""
    address = own_broker(**FEW_PARTITIONS).address
    transactional(address, "id")
    place = parse_address(address)
    with Connection(place, ClientSettings((place,))) as connection:
        begin = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
        begun = connection.call(begin, InitProducerIdResponse)
        add = AddOffsetsToTxnRequest(
            transactional_id="id", producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, group_id="first"
        )
        added = connection.call(add, AddOffsetsToTxnResponse, max_version=3)
    assert (begun.error_code, added.error_code) == (ErrorCode.NONE, ErrorCode.NONE)


def kill(broker: BrokerProcess) -> None:
    broker.kill()
    broker.start()


RESTARTS = [pytest.param(kill, id="killed"), pytest.param(BrokerProcess.restart, id="restarted")]


@pytest.mark.parametrize("restart", RESTARTS)
def test_open_transaction_goes_on_after_a_restart(own_broker: StartBroker, restart: Restart) -> None:
    broker = own_broker(**FEW_PARTITIONS)
    create_topic(admin_client(broker.address), "t")
    producer = transactional(broker.address, "id", **{"metadata.recovery.strategy": "none"})
    producer.begin_transaction()
    producer.produce("t", b"before")
    producer.flush(SECONDS)
    restart(broker)
    assert values(broker.address, "t") == []
    producer.produce("t", b"after")
    producer.commit_transaction(SECONDS)
    wait_until(lambda: values(broker.address, "t") == [b"before", b"after"], "both records")


@pytest.mark.parametrize("restart", RESTARTS)
def test_forgotten_transaction_times_out_after_a_restart(own_broker: StartBroker, restart: Restart) -> None:
    broker = own_broker(**FEW_PARTITIONS, **{"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200})
    create_topic(admin_client(broker.address), "t")
    producer = transactional(broker.address, "id", **{"transaction.timeout.ms": 3000})
    producer.begin_transaction()
    producer.produce("t", b"forgotten")
    producer.flush(SECONDS)
    restart(broker)
    plain = confluent_kafka.Producer({"bootstrap.servers": broker.address, "log_level": 0})
    plain.produce("t", b"behind it")
    plain.flush(SECONDS)
    wait_until(lambda: values(broker.address, "t") == [b"behind it"], "the abort")


def test_what_was_aborted_stays_so_after_a_crash(own_broker: StartBroker) -> None:
    """The index of aborted transactions is built anew from the log."""
    broker = own_broker(**FEW_PARTITIONS)
    create_topic(admin_client(broker.address), "t", 1, {"segment.bytes": 1048576})
    producer = transactional(broker.address, "id")
    wanted = []
    for number in range(30):
        producer.begin_transaction()
        producer.produce("t", b"%d" % number + b"x" * 100_000)
        if number % 3:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
            wanted.append(b"%d" % number)
    for _ in range(2):
        found = [value.rstrip(b"x") for value in values(broker.address, "t")]
        assert found == wanted
        kill(broker)


def test_compaction_keeps_transactions_right(own_broker: StartBroker) -> None:
    """An aborted value never displaces a committed one; nor does cleaning open or lose a transaction."""
    broker = own_broker(**FEW_PARTITIONS, **{"log.cleaner.backoff.ms": 100, "log.initial.task.delay.ms": 50})
    config = {"cleanup.policy": "compact", "segment.bytes": 1048576, "min.cleanable.dirty.ratio": "0.01"}
    create_topic(admin_client(broker.address), "t", 1, config)
    producer = transactional(broker.address, "id")
    last: dict[bytes, bytes] = {}
    for number in range(24):
        key, value = b"k%d" % (number % 4), b"%d" % number + b"x" * 150_000
        producer.begin_transaction()
        producer.produce("t", value, key)
        producer.flush(SECONDS)
        if number % 3 == 2:
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)
            last[key] = value
    folder = partition_folder(broker.data, "t")
    before = stored_bytes(folder)
    wait_until(
        lambda: stored_bytes(folder) < before * 0.7,
        "the log is cleaned",
        seconds=SECONDS,
    )
    for _ in range(2):
        found = [value for _, value in read(broker.address, "t")]
        assert {b"k%d" % (int(value.rstrip(b"x")) % 4): value for value in found} == last
        assert not {value for value in found if int(value.rstrip(b"x")) % 3 == 2}
        kill(broker)
