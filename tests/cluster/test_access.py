"""Rules, roles and quotas in a cluster: whichever broker is told of them, all of them follow at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from moldau.cli.cluster.local_cluster import LocalCluster, Process
from moldau.client.connection import Connection
from moldau.client.settings import Address, ClientSettings, SaslSettings
from moldau.types.errors import ErrorCode
from moldau.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.cluster.looking import QUIET
from tests.cluster.secured import ADMIN, ALICE, SCRAM, Locked, locked_cluster
from tests.cluster.test_locked_brokers import LOCKS
from tests.support.command import Ran, run
from tests.support.names import own_name
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def locked(running: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    with locked_cluster(running, tmp_path_factory.mktemp("access"), "locked-access", LOCKS["scram"]) as found:
        yield found
        for broker in found.cluster.brokers:
            assert "Traceback" not in found.log_of(broker), found.log_of(broker)


@pytest.fixture
def topic(locked: Locked, request: pytest.FixtureRequest) -> str:
    """With a partition led by each broker."""
    name = own_name(request.node.name)
    numbers = [broker.number for broker in locked.cluster.brokers]
    admin = locked.admin()
    admin.create_topics([NewTopic(name, len(numbers), 2)])[name].result(30)

    def led() -> bool:
        partitions = locked.admin().list_topics(name, timeout=20).topics[name].partitions
        return {each.leader for each in partitions.values()} == set(numbers)

    wait_until(led, "each broker leads a partition", 60)
    return name


def refusals(locked: Locked, topic: str) -> list[bool]:
    """Whether alice is refused, by the leader of each partition."""
    found: dict[int, bool] = {}
    producer = Producer({"bootstrap.servers": locked.cluster.bootstrap, **ALICE, **QUIET})

    def told(error: KafkaError | None, message: object) -> None:
        if error is not None and error.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise KafkaException(error)
        found[len(found)] = error is not None

    for partition in range(len(locked.cluster.brokers)):
        producer.produce(topic, b"x", partition=partition, on_delivery=told)
    assert producer.flush(30) == 0
    return list(found.values())


def write_right(topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )  # fmt: skip


def test_a_rule_that_any_broker_is_told_holds_on_all_of_them(locked: Locked, topic: str) -> None:
    for broker in locked.cluster.brokers:
        admin = locked.admin(**{"bootstrap.servers": broker.address})
        right = write_right(topic)
        assert refusals(locked, topic) == [True, True]
        for future in admin.create_acls([right]).values():
            future.result(30)
        settle(lambda: refusals(locked, topic) == [False, False])
        wanted = AclBindingFilter(
            right.restype, right.name, right.resource_pattern_type, right.principal, right.host, right.operation,
            right.permission_type,
        )  # fmt: skip
        for future in admin.delete_acls([wanted]).values():
            assert len(future.result(30)) == 1
        settle(lambda: refusals(locked, topic) == [True, True])


def settle(holds: Callable[[], bool]) -> None:
    wait_until(holds, "a change of rules on all brokers", 30)


def test_a_writer_whose_right_is_taken_in_the_middle_is_refused_on_its_quick_way_too(
    locked: Locked, topic: str
) -> None:
    admin, right = locked.admin(), write_right(topic)
    for future in admin.create_acls([right]).values():
        future.result(30)
    settle(lambda: refusals(locked, topic) == [False, False])
    outcomes: list[int] = []
    producer = Producer({"bootstrap.servers": locked.cluster.bootstrap, **ALICE, **QUIET, "linger.ms": 0})

    def write() -> int:
        told: list[KafkaError | None] = []
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=lambda error, message: told.append(error))
        assert producer.flush(30) == 0
        outcomes.append(0 if told[0] is None else told[0].code())
        return outcomes[-1]

    assert {write() for _ in range(50)} == {0}
    denial = AclBinding(
        ResourceType.TOPIC, topic[:-1], ResourcePatternType.PREFIXED, "User:*", "*", AclOperation.WRITE,
        AclPermissionType.DENY,
    )  # fmt: skip
    for future in admin.create_acls([denial]).values():
        future.result(30)
    wait_until(lambda: write() == KafkaError.TOPIC_AUTHORIZATION_FAILED, "the writer is refused", 30)
    committed = Consumer({"bootstrap.servers": locked.cluster.bootstrap, **ADMIN, **QUIET, "group.id": topic})
    _, end = committed.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    committed.close()
    assert end == outcomes.count(0) + 1  # one by whom the right was awaited


def moldau(locked: Locked, broker: Process, *arguments: str) -> Ran:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    properties = (
        "security.protocol=SASL_PLAINTEXT",
        f"sasl.mechanism={SCRAM}",
        f'sasl.jaas.config={module} required username="admin" password="admin-secret";',
    )
    login = [part for each in properties for part in ("-X", each)]
    return run("security", *arguments, *login, "-b", broker.address)


def test_roles_are_handed_on_to_the_controller(locked: Locked, topic: str) -> None:
    for broker in locked.cluster.brokers:
        role = own_name(f"role-{broker.number}")
        made = moldau(locked, broker, "role", "create", role, "-m", "alice", "-O", "write", "-t", topic)
        assert made.code == 0, made
        wait_until(lambda: refusals(locked, topic) == [False, False], "the role counts on all brokers", 30)
        removed = moldau(locked, broker, "role", "delete", role, "--yes")
        assert removed.code == 0, removed
        wait_until(lambda: refusals(locked, topic) == [True, True], "the role counts no more", 30)


def test_changes_of_topics_are_limited_whichever_broker_is_asked(locked: Locked) -> None:
    """The controller counts; the broker that was asked makes the client wait."""
    who, admin = own_name("greedy"), locked.cluster.brokers[0]
    limited = moldau(locked, admin, "quota", "set", "controller_mutation_rate=0.01", "--client-id", who)
    assert limited.code == 0, limited
    names = iter(range(100))

    def created(broker: Process) -> tuple[int, int]:
        host, _, port = broker.address.rpartition(":")
        address = Address(host, int(port))
        settings = ClientSettings((address,), sasl=SaslSettings(SCRAM, "admin", "admin-secret"), client_id=who)
        with Connection(address, settings) as client:
            wanted = CreatableTopic(name=f"{who}-{next(names)}", num_partitions=1, replication_factor=1)
            answer = client.call(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse)
        (topic,) = answer.topics
        return topic.error_code, answer.throttle_time_ms

    first, other = locked.cluster.brokers
    wait_until(lambda: created(first)[0] == ErrorCode.THROTTLING_QUOTA_EXCEEDED, "the quota is known", 30)
    for broker in (first, other, first, other):
        code, wait_ms = created(broker)
        assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED and wait_ms > 0
    moldau(locked, admin, "quota", "remove", "--client-id", who)
    wait_until(lambda: created(first)[0] == created(other)[0] == ErrorCode.NONE, "nothing is limited any more", 30)


def test_who_may_describe_nothing_sees_no_topics(locked: Locked, topic: str) -> None:
    for broker in locked.cluster.brokers:
        seen = AdminClient({"bootstrap.servers": broker.address, **ALICE, **QUIET}).list_topics(timeout=20)
        assert topic not in seen.topics
