"""`moldau security` against a broker that refuses what no rule allows: rules, roles, users, quotas, certificates."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cli.conftest import Moldau
from tests.support.admin import create_topic
from tests.support.command import Ran, run
from tests.support.locked import LockedBroker
from tests.support.names import own_name
from tests.support.waiting import wait_until

USERS = ("alice", "bob", "carol")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    broker = LockedBroker(tmp_path_factory.mktemp("locked"), USERS)
    with broker:
        yield broker
        assert "Traceback" not in broker.output(), broker.output()


@pytest.fixture
def security(locked: LockedBroker) -> Moldau:
    def call(*arguments: object, stdin: str = "") -> Ran:
        environment = {"MOLDAU_BOOTSTRAP_SERVERS": locked.address}
        return run("security", *arguments, stdin=stdin, environment=environment)

    return call


@pytest.fixture
def topic(locked: LockedBroker, request: pytest.FixtureRequest) -> str:
    found = own_name(request.node.name)
    create_topic(AdminClient({"bootstrap.servers": locked.address}), found)
    return found


def written(locked: LockedBroker, user: str, topic: str) -> bool:
    outcome: list[KafkaError | None] = []
    producer = Producer(locked.config(user))
    producer.produce(topic, b"x", on_delivery=lambda error, message: outcome.append(error))
    assert producer.flush(20) == 0
    assert outcome[0] is None or outcome[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    return outcome[0] is None


def read(locked: LockedBroker, user: str, topic: str) -> bool:
    consumer = Consumer(locked.config(user) | {"group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    errors: list[int] = []

    def told() -> bool:
        message = consumer.poll(1)
        if message is not None:
            errors.append(0 if message.error() is None else message.error().code())
        return bool(errors) and errors[-1] != KafkaError.GROUP_AUTHORIZATION_FAILED  # asked about unasked

    wait_until(told, f"{user} is told whether {topic} may be read")
    consumer.close()
    assert errors[-1] in (0, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return errors[-1] == 0


def test_rules_come_and_go(security: Moldau, locked: LockedBroker, topic: str) -> None:
    """SX-18: a rule holds at once on a broker that runs; whom none allows something is refused."""
    assert not written(locked, "alice", topic)
    dry = security("acl", "allow", "alice", "-O", "write", "-t", topic, "--dry-run")
    assert dry.out == f"would add: User:alice may write: topic {topic}\n"
    assert not written(locked, "alice", topic)
    security("acl", "allow", "alice", "User:bob", "-O", "write", "-O", "Read", "-t", topic)
    assert written(locked, "alice", topic) and read(locked, "bob", topic)
    assert not written(locked, "carol", topic)
    rows = security("acl", "list", "-t", topic, "-o", "json").document
    assert {(row["principal"], row["operation"]) for row in rows} == {
        (f"User:{user}", operation) for user in ("alice", "bob") for operation in ("read", "write")
    }
    assert rows[0] == {
        "resource": "topic", "name": topic, "pattern": "literal", "principal": "User:alice", "permission": "allow",
        "operation": "read", "host": "*",
    }  # fmt: skip
    denied = security("acl", "deny", "alice", "-O", "all", "-t", topic[:-2], "--prefixed")
    assert denied.out == f"added: User:alice may not do everything: topic {topic[:-2]}…\n"
    assert not written(locked, "alice", topic) and written(locked, "bob", topic)
    assert len(security("acl", "list", "-t", topic).rows) == 4
    covering = security("acl", "list", "-t", topic, "--covering", "--principal", "alice", "-o", "json").document
    assert [row["permission"] for row in covering].count("deny") == 1
    removal = ("acl", "remove", "--principal", "alice", "-t", topic[:-2], "--prefixed")
    assert security(*removal, "--dry-run").out.startswith("would remove: User:alice may not do everything")
    assert security(*removal).code == 2
    assert security(*removal, "--yes").out.startswith("removed: ")
    assert written(locked, "alice", topic)
    assert security(*removal, "--yes").code == 4


def test_a_role_is_given_and_taken_and_a_denial_is_stronger(security: Moldau, locked: LockedBroker, topic: str) -> None:
    """SX-23."""
    role = f"team-{topic}"
    about = ("-O", "read", "-O", "write", "-t", topic)
    assert security("role", "create", role, *about, "--dry-run").out.startswith(f"would create role {role}: ")
    security("role", "create", role, *about)
    assert not written(locked, "alice", topic)
    granted = security("role", "grant", role, "-m", "alice", "-m", "User:bob", "-O", "describe", "-g", "g")
    assert granted.out == f"added to role {role}: describe group g; User:alice; User:bob\n"
    assert written(locked, "alice", topic) and written(locked, "bob", topic) and read(locked, "alice", topic)
    assert not written(locked, "carol", topic)
    security("acl", "deny", "alice", "-O", "write", "-t", topic)
    assert not written(locked, "alice", topic)
    assert read(locked, "alice", topic)
    (found,) = security("role", "list", role, "-o", "json").document
    assert found["members"] == ["User:alice", "User:bob"]
    assert found["permissions"][0] == {
        "resource": "topic", "name": topic, "pattern": "literal", "operation": "read", "host": "*",
    }  # fmt: skip
    assert f"write topic {topic}" in security("role", "list", "--member", "bob").out
    assert role not in security("role", "list", "--member", "carol").out
    security("role", "revoke", role, "-m", "bob")
    assert not written(locked, "bob", topic)
    security("role", "revoke", role, "-O", "read", "-t", topic)
    assert not read(locked, "alice", topic)
    locked.kill()
    locked.start()
    (found,) = security("role", "list", role, "-o", "json").document
    assert [each["operation"] for each in found["permissions"]] == ["write", "describe"]
    assert security("role", "delete", role).code == 2
    security("role", "delete", role, "--yes")
    assert security("role", "list", role).code == 4


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("acl", "allow", "alice", "-O", "write"), 2, "give --topic"),
        (("acl", "allow", "alice", "-t", "x"), 2, "give --operation"),
        (("acl", "allow", "alice", "-O", "wriet", "-t", "x"), 2, "did you mean 'write'?"),
        (("acl", "allow", "alice", "-O", "idempotent-write", "-t", "x"), 2, "nothing that is done to a topic"),
        (("acl", "remove"), 2, "give --topic"),
        (("role", "grant", "nobodys", "-m", "alice"), 4, "does not exist"),
        (("role", "create", "x" * 250), 1, "1 to 249 characters"),
        (("quota", "set", "producer_byte_rat=1", "--user", "a"), 2, "did you mean 'producer_byte_rate'?"),
        (("quota", "set", "producer_byte_rate=many", "--user", "a"), 2, "producer_byte_rate=NUMBER"),
        (("quota", "set", "producer_byte_rate=1"), 2, "give --user"),
        (("quota", "set", "producer_byte_rate=1", "--ip", "::1", "--user", "a"), 2, "--ip alone"),
        (("quota", "set", "producer_byte_rate=1", "--ip", "::1"), 1, "cannot set quotas of ip ::1"),
        (("quota", "remove", "--user", "nobody"), 4, "no such quota"),
        (("user", "set", "dave"), 2, "the password is empty"),
        (("user", "remove", "nobody", "--yes"), 4, "no such credentials"),
        (("certificates", "/dev/null/x", "broker"), 1, "cannot make certificates"),
        (("certificates", "/tmp", "ca"), 2, "cannot be the name"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(security: Moldau, arguments: tuple[str, ...], code: int, said: str) -> None:
    refused = security(*arguments)
    assert refused.code == code, refused
    assert said in refused.complaint


def test_users_come_and_go(security: Moldau, locked: LockedBroker) -> None:
    name = own_name("dave")
    assert "would set" in security("user", "set", name, "--dry-run").out
    done = security("user", "set", name, "--mechanism", "SCRAM-SHA-512", stdin="pass,word=1\n")
    assert done.out == f"set the password of user {name} for SCRAM-SHA-512\n"
    assert "pass" not in done.err

    def gets_in(password: str) -> bool:
        try:
            return bool(AdminClient(locked.config(name, password, "SCRAM-SHA-512")).list_topics(timeout=3).cluster_id)
        except KafkaException:
            return False

    assert gets_in("pass,word=1") and not gets_in("password")
    (found,) = security("user", "list", name, "-o", "json").document
    assert found == {"user": name, "mechanisms": {"SCRAM-SHA-512": 8192}}
    assert "SCRAM-SHA-512 (8,192)" in security("user", "list").out
    assert "would remove" in security("user", "remove", name, "--dry-run").out
    assert security("user", "remove", name).code == 2
    security("user", "remove", name, "--yes")
    assert not gets_in("pass,word=1")


def test_quotas_come_and_go(security: Moldau) -> None:
    """SX-27: for users, and for a user with a client id."""
    name = own_name("eve")
    key = "producer_byte_rate"
    assert security("quota", "set", f"{key}=1000", "--user", name, "--dry-run").out.startswith("would set for user")
    assert security("quota", "list", "--user", name).err == "no quotas\n"
    security("quota", "set", f"{key}=1000", "request_percentage=50", "--user", name)
    security("quota", "set", f"{key}=2000", "--user", name, "--client-id", "")
    rows = security("quota", "list", "--user", name, "-o", "json").document
    assert rows == [
        {"user": name, "client-id": None, "limits": {key: 2000.0}},
        {"user": name, "limits": {key: 1000.0, "request_percentage": 50.0}},
    ]
    assert security("quota", "remove", key, "--user", name).out == f"removed from user {name}: {key}\n"
    security("quota", "remove", "--user", name)
    security("quota", "remove", "--user", name, "--client-id", "")
    assert security("quota", "list", "--user", name).err == "no quotas\n"


def test_certificates_for_development(tmp_path: Path) -> None:
    """SX-13: keys are written for their owner alone."""
    made = run("security", "certificates", str(tmp_path), "broker", "alice", "--host", "localhost")
    assert made.code == 0, made
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    context.load_cert_chain(tmp_path / "alice.pem")
    assert (tmp_path / "broker.pem").stat().st_mode & 0o777 == 0o600
    again = run("security", "certificates", str(tmp_path), "bob")
    assert again.code == 0 and (tmp_path / "bob.pem").exists()


def test_who_may_not_alter_the_cluster_changes_no_rule(locked: LockedBroker, topic: str) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="alice" password="alice-secret";'
    properties = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", f"sasl.jaas.config={jaas}")
    login = [part for each in properties for part in ("-X", each)]
    for command in (
        ("acl", "allow", "alice", "-O", "write", "-t", topic),
        ("acl", "list"),
        ("role", "create", "mine", "-m", "alice", "-O", "all", "-t", topic),
        ("role", "list"),
        ("user", "list"),
        ("quota", "list"),
        ("quota", "set", "producer_byte_rate=1", "--user", "bob"),
    ):
        refused = run("security", *command, *login, "-b", locked.login_address)
        assert refused.code == 1, (command, refused)
        assert "may not do this" in refused.complaint
    wait_until(lambda: "User:alice is Denied operation = ALTER" in locked.audit(), "the refusal is in the audit log")
