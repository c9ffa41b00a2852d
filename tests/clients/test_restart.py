"""What a stop, a kill and a second start leave behind."""

from __future__ import annotations

import signal
import subprocess

import confluent_kafka
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import StartBroker
from tests.peers.choice import new_broker
from tests.support.admin import (
    SECONDS,
    admin_client,
    configs_of,
    create_topic,
    delete_records,
    settled_log_range,
    topic_names,
)
from tests.support.clients import CODECS, Confluent, Message, send
from tests.support.process import BrokerFailed, BrokerProcess
from tests.support.raw import FETCH, RawConnection, api_versions, fetch_body, request
from tests.support.segments import partition_folder, stored_batches

client = Confluent()
both_ends = pytest.mark.parametrize("end", ["stop", "kill"])


def end_and_start(broker: BrokerProcess, end: str) -> AdminClient:
    if end == "stop":
        assert broker.stop() == 0
    else:
        broker.kill()
    broker.start()
    return admin_client(broker.address)


@both_ends
def test_everything_acknowledged_is_there_again(own_broker: StartBroker, end: str) -> None:
    """BRK-01, LOG-07: records, topics, ids, settings and log start survive a stop and a kill."""
    broker = own_broker()
    admin = admin_client(broker.address)
    create_topic(admin, "kept", 3, {"retention.ms": 777_777_777})
    for codec in CODECS:
        for partition in range(3):
            messages = [Message(b"%d" % number) for number in range(50)]
            client.produce(broker.address, "kept", messages, codec=codec, partition=partition)
    delete_records(admin, "kept", before=20, partition=1)
    topic_id = str(admin.describe_topics(TopicCollection(["kept"]))["kept"].result(SECONDS).topic_id)
    for _ in range(2):
        admin = end_and_start(broker, end)
        assert str(admin.describe_topics(TopicCollection(["kept"]))["kept"].result(SECONDS).topic_id) == topic_id
        assert configs_of(admin, "topic", "kept")["retention.ms"].value == "777777777"
        ranges = [settled_log_range(admin, "kept", partition) for partition in range(3)]
        assert ranges[0] == ranges[2] == (0, 250)
        # Like Kafka's, the log start may be up to a minute behind after a kill; a stop writes it.
        assert ranges[1] == (20, 250) if end == "stop" else ranges[1] in ((0, 250), (20, 250))
        for partition, start in ((0, 0), (1, 20), (2, 0)):
            received = client.consume(broker.address, "kept", 250 - start, partition=partition, offset=start)
            assert [each.value for each in received] == [b"%d" % (i % 50) for i in range(start, 250)]


@both_ends
def test_an_idempotent_producer_goes_on_after_a_restart(own_broker: StartBroker, end: str) -> None:
    """PR-05, PCF-26, PER-09: the same producer continues its sequence; nothing twice, nothing lost."""
    broker = own_broker()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "enable.idempotence": True, "reconnect.backoff.max.ms": 200}
    )
    for round_number in range(3):
        for number in range(100):
            producer.produce("sequence", b"%d" % (round_number * 100 + number))
        assert producer.flush(60) == 0
        end_and_start(broker, end)
    received = client.consume(broker.address, "sequence", 300)
    assert [each.value for each in received] == [b"%d" % number for number in range(300)]
    ids = {batch.producer_id for batch in stored_batches(partition_folder(broker.data, "sequence"))}
    assert len(ids) == 1


@both_ends
def test_every_start_raises_the_leader_epoch(own_broker: StartBroker, end: str) -> None:
    """No two histories of a partition share a leader epoch: batches written after a restart carry a higher one."""
    broker = own_broker()
    for _ in range(3):
        client.produce(broker.address, "epochs", [Message(b"x")])
        end_and_start(broker, end)
    epochs = [batch.leader_epoch for batch in stored_batches(partition_folder(broker.data, "epochs"))]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == 3


@both_ends
def test_producer_ids_are_never_issued_twice(own_broker: StartBroker, end: str) -> None:
    """Each idempotent producer, before and after restarts, has an id of its own."""
    broker = own_broker()
    for _ in range(3):
        for _ in range(3):
            client.produce(broker.address, "ids", [Message(b"x")], idempotent=True)
        end_and_start(broker, end)
    ids = [batch.producer_id for batch in stored_batches(partition_folder(broker.data, "ids"))]
    assert len(ids) == len(set(ids)) == 9


def test_deleted_topics_stay_deleted(own_broker: StartBroker) -> None:
    """TP-13: also when the broker dies before it has removed the files."""
    broker = own_broker()
    admin = admin_client(broker.address)
    create_topic(admin, "doomed", 3)
    create_topic(admin, "spared")
    client.produce(broker.address, "doomed", [Message(b"x")])
    admin.delete_topics(["doomed"])["doomed"].result(SECONDS)
    admin = end_and_start(broker, "kill")
    assert topic_names(admin) & {"doomed", "spared"} == {"spared"}
    create_topic(admin, "doomed", 1)
    assert settled_log_range(admin, "doomed") == (0, 0)


def test_a_second_broker_on_the_same_folder_is_refused(own_broker: StartBroker) -> None:
    """Two processes must never write the same files; the message says where the lock is, and the first goes on."""
    first = own_broker()
    client.produce(first.address, "kept", [Message(b"x")])
    second = new_broker(first.directory.parent / "second", {"log.dirs": first.data})
    with pytest.raises(BrokerFailed) as refusal:
        second.start()
    assert str(first.data) in str(refusal.value)
    assert client.produce(first.address, "kept", [Message(b"y")]) == [1]


def test_a_stop_under_load_loses_nothing(own_broker: StartBroker) -> None:
    """SIGTERM drains: what was acknowledged before the end is there after it."""
    broker = own_broker()
    delivered: list[bytes] = []

    def report(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            delivered.append(message.value())

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "linger.ms": 1, "message.timeout.ms": 3000, "message.send.max.retries": 0}
    )
    sent = 0
    while broker.running:
        send(producer, "drained", b"%d" % sent, on_delivery=report)
        sent += 1
        if len(delivered) > 5000:
            broker.process.send_signal(signal.SIGTERM)
            broker.process.wait(60)
    producer.flush(10)
    broker.start()
    admin = admin_client(broker.address)
    end = settled_log_range(admin, "drained")[1]
    values = {each.value for each in client.consume(broker.address, "drained", end)}
    assert values >= set(delivered)


def test_sigint_is_a_clean_end_too(own_broker: StartBroker) -> None:
    """Ctrl-C in a terminal."""
    broker = own_broker()
    client.produce(broker.address, "kept", [Message(b"x")])
    broker.process.send_signal(signal.SIGINT)
    assert broker.process.wait(60) in (0, 128 + signal.SIGINT)
    broker.start()
    assert client.consume(broker.address, "kept", 1)[0].value == b"x"


def test_waiting_readers_do_not_delay_the_end(own_broker: StartBroker) -> None:
    """A fetch that would wait another minute must not hold up SIGTERM."""
    broker = own_broker()
    client.produce(broker.address, "quiet", [Message(b"x")])
    with RawConnection(broker.address) as reader:
        reader.send(request(FETCH, 4, fetch_body("quiet", offset=1, wait_ms=60_000)))
        # Answered after the fetch was read: requests of other connections are taken in their turn.
        with RawConnection(broker.address) as other:
            assert api_versions(other) > 0
        broker.process.send_signal(signal.SIGTERM)
        try:
            broker.process.wait(30)
        except subprocess.TimeoutExpired:
            pytest.fail("still running 30 s after SIGTERM, with a reader waiting")
