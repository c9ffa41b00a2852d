"""Topics: created, described, grown, refused and deleted."""

from __future__ import annotations

import asyncio
import time

import aiokafka
import aiokafka.admin
import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.clients.conftest import StartBroker
from tests.support.admin import (
    SECONDS,
    add_partitions,
    admin_client,
    broker_id,
    configs_of,
    create_topic,
    delete_topic,
    error_code,
    error_text,
    log_range,
    partitions_of,
    topic_names,
)
from tests.support.clients import CLIENTS, Confluent, Message
from tests.support.segments import partition_folder
from tests.support.waiting import wait_until


def test_create_describe_delete(admin: AdminClient, topic: str) -> None:
    """TOP-01, TP-09, BR-09: on one broker it is leader, replica and in-sync set of every partition."""
    create_topic(admin, topic, 3, {"retention.ms": 1234567})
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS)
    here = broker_id(admin)
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert partition.leader.id == here
        assert [node.id for node in partition.replicas] == [here]
        assert [node.id for node in partition.isr] == [here]
    assert not described.is_internal
    assert configs_of(admin, "topic", topic)["retention.ms"].value == "1234567"
    delete_topic(admin, topic)
    assert topic not in topic_names(admin)


def test_a_recreated_topic_is_another_topic(admin: AdminClient, address: str, topic: str) -> None:
    """A topic is its id: the same name later has another id and none of the old records."""
    client = Confluent()

    def topic_id() -> str:
        return str(admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS).topic_id)

    create_topic(admin, topic)
    first = topic_id()
    client.produce(address, topic, [Message(b"of the first life")])
    delete_topic(admin, topic)
    create_topic(admin, topic)
    assert topic_id() != first
    assert log_range(admin, topic) == (0, 0)
    assert client.produce(address, topic, [Message(b"of the second life")]) == [0]
    assert [each.value for each in client.consume(address, topic, 1)] == [b"of the second life"]


def test_kafka_python_administers_topics(address: str, topic: str) -> None:
    """The same through kafka-python, with validate-only, manual assignment and partition growth."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    try:
        (node,) = [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]]
        admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}}, validate_only=True)
        assert topic not in admin.list_topics()
        assignments = {0: [node], 1: [node]}
        admin.create_topics({topic: {"assignments": assignments, "configs": {"max.message.bytes": "5000"}}})
        (described,) = admin.describe_topics([topic])
        assert [(each["partition_index"], each["leader_id"]) for each in described["partitions"]] == [
            (0, node),
            (1, node),
        ]
        admin.create_partitions({topic: 4})
        wait_until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 4, "4 partitions")
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "the topic is deleted")
    finally:
        admin.close()


def test_aiokafka_administers_topics(address: str, topic: str) -> None:
    """The same through aiokafka."""

    async def run() -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        try:
            await admin.create_topics([aiokafka.admin.NewTopic(topic, 2, 1)])
            assert topic in await admin.list_topics()
            (described,) = await admin.describe_topics([topic])
            assert sorted(each["partition"] for each in described["partitions"]) == [0, 1]
            await admin.create_partitions({topic: aiokafka.admin.NewPartitions(3)})
            (described,) = await admin.describe_topics([topic])
            assert len(described["partitions"]) == 3
            await admin.delete_topics([topic])
            assert topic not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "name",
    [".", "..", "with space", "slash/ed", "uml\u00e4ut", "x" * 250, "colon:"],
    ids=["dot", "dots", "space", "slash", "umlaut", "250-letters", "colon"],
)
def test_illegal_names_are_refused(admin: AdminClient, name: str) -> None:
    """TP-08: letters, digits, dot, underscore and dash, at most 249 of them."""
    assert error_code(lambda: admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS)) == "TOPIC_EXCEPTION"


def test_the_longest_name_works(admin: AdminClient, address: str) -> None:
    """249 letters are allowed, and the folder on disk still gets its partition suffix."""
    name = f"long-{time.time_ns()}-".ljust(249, "x")
    create_topic(admin, name)
    assert Confluent().produce(address, name, [Message(b"fits")]) == [0]
    delete_topic(admin, name)


def test_names_that_collide_in_metrics_are_refused(admin: AdminClient, topic: str) -> None:
    """TP-08: a.b and a_b would be the same metric."""
    create_topic(admin, f"{topic}.one")
    assert error_code(lambda: create_topic(admin, f"{topic}_one")) == "TOPIC_EXCEPTION"
    assert "collides with existing topic" in error_text(lambda: create_topic(admin, f"{topic}_one"))


def test_creating_twice_is_refused(admin: AdminClient, topic: str) -> None:
    """TP-06: the error names the topic."""
    create_topic(admin, topic)
    assert error_code(lambda: create_topic(admin, topic)) == "TOPIC_ALREADY_EXISTS"
    assert topic in error_text(lambda: create_topic(admin, topic))


def test_impossible_layouts_are_refused(admin: AdminClient, topic: str) -> None:
    """TP-14: more replicas than brokers, no partition, an unknown broker in a manual assignment."""
    assert error_code(lambda: create_topic(admin, topic, replication=4)) == "INVALID_REPLICATION_FACTOR"
    assert error_code(lambda: create_topic(admin, topic, partitions=0)) == "INVALID_PARTITIONS"
    manual = NewTopic(topic, num_partitions=1, replica_assignment=[[4711]])
    assert error_code(lambda: admin.create_topics([manual])[topic].result(SECONDS)) == "INVALID_REPLICA_ASSIGNMENT"
    assert topic not in topic_names(admin)


def test_bad_configs_refuse_the_topic(admin: AdminClient, topic: str) -> None:
    """Unknown keys and bad values are named in the error, and nothing is created."""
    unknown = error_text(lambda: create_topic(admin, topic, configs={"no.such.setting": 1}))
    assert "no.such.setting" in unknown
    bad = error_text(lambda: create_topic(admin, topic, configs={"retention.ms": "soon"}))
    assert "retention.ms" in bad and "soon" in bad
    assert error_code(lambda: create_topic(admin, topic, configs={"cleanup.policy": "shred"})) == "INVALID_CONFIG"
    assert topic not in topic_names(admin)


def test_validate_only_creates_nothing(admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, 2, validate_only=True)
    assert topic not in topic_names(admin)
    assert (
        error_code(lambda: create_topic(admin, topic, replication=9, validate_only=True))
        == "INVALID_REPLICATION_FACTOR"
    )


def test_partitions_can_be_added_never_removed(admin: AdminClient, address: str, topic: str) -> None:
    """TOP-10, TP-04, TP-11: old records stay where they are; fewer or the same count is refused."""
    create_topic(admin, topic, 2)
    client = Confluent()
    client.produce(address, topic, [Message(b"stays")], partition=1)
    add_partitions(admin, topic, 5)
    wait_until(lambda: partitions_of(admin, topic) == set(range(5)), "5 partitions")
    assert [each.value for each in client.consume(address, topic, 1, partition=1)] == [b"stays"]
    client.produce(address, topic, [Message(b"in the new one")], partition=4)
    assert [each.value for each in client.consume(address, topic, 1, partition=4)] == [b"in the new one"]
    assert error_code(lambda: add_partitions(admin, topic, 5)) == "INVALID_PARTITIONS"
    assert error_code(lambda: add_partitions(admin, topic, 3)) == "INVALID_PARTITIONS"
    unknown = f"{topic}-unknown"
    call = admin.create_partitions([NewPartitions(unknown, 3)])[unknown]
    assert error_code(lambda: call.result(SECONDS)) == "UNKNOWN_TOPIC_OR_PART"


def test_deleting_what_is_not_there(admin: AdminClient, topic: str) -> None:
    assert error_code(lambda: admin.delete_topics([topic])[topic].result(SECONDS)) == "UNKNOWN_TOPIC_OR_PART"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_first_use_creates_a_topic(client: object, admin: AdminClient, address: str, topic: str) -> None:
    """TOP-02, BR-08: producing to an unknown topic creates it with the broker's defaults."""
    assert client.produce(address, topic, [Message(b"first")]) == [0]  # type: ignore[attr-defined]
    assert partitions_of(admin, topic) == {0}


def test_consumers_do_not_create_topics_unless_they_ask(address: str, admin: AdminClient, topic: str) -> None:
    """TOP-02: librdkafka's consumer asks without auto-creation and learns that the topic is unknown."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "unused"})
    try:
        error = consumer.list_topics(topic, timeout=SECONDS).topics[topic].error
        assert error is not None and error.name() == "UNKNOWN_TOPIC_OR_PART"
    finally:
        consumer.close()
    assert topic not in topic_names(admin)


def test_auto_creation_can_be_switched_off(own_broker: StartBroker, topic: str) -> None:
    """TOP-02, TP-10: with auto.create.topics.enable=false an unknown topic is an error, and none appears."""
    broker = own_broker(**{"auto.create.topics.enable": "false", "num.partitions": 3})
    admin = admin_client(broker.address)
    failures: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.address, "message.timeout.ms": 2000})
    producer.produce(topic, b"nowhere to go", on_delivery=lambda error, _: failures.append(error))
    producer.flush(SECONDS)
    assert [failure.name() for failure in failures] in (
        ["_UNKNOWN_TOPIC"],
        ["_MSG_TIMED_OUT"],
        ["UNKNOWN_TOPIC_OR_PART"],
    )
    assert topic not in topic_names(admin)
    admin.create_topics([NewTopic(topic)])[topic].result(SECONDS)
    wait_until(lambda: partitions_of(admin, topic) == {0, 1, 2}, "num.partitions is the default of a created topic")


def test_deleted_topics_leave_the_disk(own_broker: StartBroker, topic: str) -> None:
    """TP-13: the folders go after file.delete.delay.ms."""
    broker = own_broker(**{"log.segment.delete.delay.ms": 100, "log.initial.task.delay.ms": 100})
    admin = admin_client(broker.address)
    create_topic(admin, topic, 2, {"file.delete.delay.ms": 100})
    Confluent().produce(broker.address, topic, [Message(b"x" * 1000)])
    assert partition_folder(broker.data, topic).is_dir()
    delete_topic(admin, topic)
    wait_until(lambda: not list(broker.data.glob(f"{topic[:60]}*")), "the folders are gone", seconds=60)


def test_a_thousand_topics(own_broker: StartBroker) -> None:
    """TOP-03: 1,000 topics are created and listed, and each takes a record, before and after a restart."""
    broker = own_broker()
    admin = admin_client(broker.address)
    names = [f"topic-{number:04}" for number in range(1000)]
    for start in range(0, 1000, 250):
        created = admin.create_topics(
            [NewTopic(name, 1, 1) for name in names[start : start + 250]], operation_timeout=60
        )
        for future in created.values():
            future.result(60)
    wait_until(lambda: topic_names(admin) >= set(names), "1,000 topics are listed")
    _produce_one_to_each(broker.address, names)
    broker.restart()
    assert topic_names(admin_client(broker.address)) >= set(names)
    _produce_one_to_each(broker.address, names)
    assert [each.offset for each in Confluent().consume(broker.address, names[777], 2)] == [0, 1]


def _produce_one_to_each(address: str, names: list[str]) -> None:
    errors: list[object] = []
    delivered: list[str] = []

    def report(error: object, message: confluent_kafka.Message) -> None:
        (errors if error else delivered).append(error or message.topic())

    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 20})
    for name in names:
        producer.produce(name, b"one", on_delivery=report)
    producer.flush(60)
    assert errors == []
    assert sorted(delivered) == names
