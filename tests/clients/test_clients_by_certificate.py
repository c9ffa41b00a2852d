"""Clients that show a certificate, and those of SASL_SSL: kafka-python, aiokafka and Java's tools make topics, write
records and rules on a broker that refuses whoever has no rule.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.errors import TopicAuthorizationFailedError as AioRefused
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    NewTopic,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import ClusterAuthorizationFailedError, KafkaError, NoError

from moldau.tls.authority import issue
from tests.peers.apache_kafka import CONFIG_COMMAND, TOOLS, java_tool
from tests.support.names import own_name
from tests.support.secured import Secured, now

ACL_COMMAND = "org.apache.kafka.tools.AclCommand"
MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(
        tmp_path_factory.mktemp("by-certificate"),
        **{
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ALICE;User:admin;User:scram",
        },
    )
    made.broker.start()
    yield made
    assert made.broker.stop() == 0, made.broker.output()
    assert "Traceback" not in made.broker.output(), made.broker.output()


@pytest.fixture(scope="module")
def nobody(secured: Secured) -> Path:
    """The keys of a user whom no rule names."""
    return issue(secured.authority, "nobody", now())


def of_kafka_python(secured: Secured, keys: Path) -> dict[str, str]:
    return {
        "bootstrap_servers": secured.address("MUTUAL"),
        "security_protocol": "SSL",
        "ssl_cafile": str(secured.authority.certificate_file),
        "ssl_certfile": str(keys),
        "ssl_keyfile": str(keys),
    }


def test_kafka_python_writes_and_reads(secured: Secured, nobody: Path) -> None:
    topic, mine = own_name("kafka-python"), of_kafka_python(secured, secured.client_keys)
    admin = KafkaAdminClient(**mine)
    admin.create_topics([NewTopic(topic, 1, 1)])
    assert topic in admin.list_topics()
    admin.close()
    producer = KafkaProducer(**mine)
    assert producer.send(topic, b"a clue").get(30).offset == 0
    producer.close()
    consumer = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=30_000, **mine)
    assert next(consumer).value == b"a clue"
    consumer.close()
    stranger = KafkaAdminClient(**of_kafka_python(secured, nobody))
    assert topic not in stranger.list_topics()
    with pytest.raises(KafkaError, match="TopicAuthorizationFailed"):
        stranger.create_topics([NewTopic(own_name("refused"), 1, 1)])
    stranger.close()


def test_kafka_python_administers_access_rules(secured: Secured, nobody: Path) -> None:
    topic = own_name("ruled")
    admin = KafkaAdminClient(**of_kafka_python(secured, secured.client_keys))
    rules = [
        ACL("User:bob", "*", ACLOperation.READ, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, topic)),
        ACL(
            "User:bob", "127.0.0.1", ACLOperation.WRITE, ACLPermissionType.DENY,
            ResourcePattern(ResourceType.TOPIC, topic, ACLResourcePatternType.PREFIXED),
        ),
    ]  # fmt: skip
    created = admin.create_acls(rules)
    assert (created["succeeded"], created["failed"]) == (rules, [])
    matching = ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType.MATCH)
    every = ACLFilter("User:bob", None, ACLOperation.ANY, ACLPermissionType.ANY, matching)
    found, error = admin.describe_acls(every)
    assert error is NoError
    assert sorted(map(repr, found)) == sorted(map(repr, rules))
    ((_, deleted, error),) = admin.delete_acls([every])
    assert error is NoError and len(deleted) == 2
    assert admin.describe_acls(every)[0] == []
    admin.close()
    stranger = KafkaAdminClient(**of_kafka_python(secured, nobody))
    assert stranger.create_acls(rules)["failed"] == [ClusterAuthorizationFailedError] * 2
    with pytest.raises(ClusterAuthorizationFailedError):
        stranger.describe_acls(every)
    stranger.close()


def test_aiokafka_writes_and_reads(secured: Secured, nobody: Path) -> None:
    """It has no calls for access rules."""
    topic = own_name("aiokafka")

    def shown(keys: Path) -> dict[str, object]:
        context = ssl.create_default_context(cafile=str(secured.authority.certificate_file))
        context.load_cert_chain(keys)
        return {"bootstrap_servers": secured.address("MUTUAL"), "security_protocol": "SSL", "ssl_context": context}

    async def talk() -> bytes:
        mine = shown(secured.client_keys)
        admin = AIOKafkaAdminClient(**mine)
        await admin.start()
        await admin.create_topics([AioTopic(topic, 1, 1)])
        await admin.close()
        async with AIOKafkaProducer(**mine) as producer:
            await producer.send_and_wait(topic, b"a clue")
        async with AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **mine) as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), 60)).value)

    async def intrude() -> None:
        async with AIOKafkaProducer(**shown(nobody)) as producer:
            await producer.send_and_wait(topic, b"a false clue")

    assert asyncio.run(talk()) == b"a clue"
    with pytest.raises(AioRefused):
        asyncio.run(intrude())


# --- Java's tools ---


def java_file(secured: Secured, folder: Path, listener: str, login: str, keys: Path | None) -> Path:
    """A `--command-config` of this listener."""
    trusted = secured.authority.certificate_file
    lines = {
        "security.protocol": secured.protocols[listener],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": trusted,
        "default.api.timeout.ms": 20_000,
        "request.timeout.ms": 10_000,
    }
    if keys is not None:
        lines |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": keys}
    if login:
        mechanism, module = login.split(" ", 1)
        lines |= {"sasl.mechanism": mechanism, "sasl.jaas.config": module}
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    file.chmod(0o600)
    return file


PLAIN = f"PLAIN {MODULES}.plain.PlainLoginModule required username='admin' password='%s';"
SCRAM = f"SCRAM-SHA-512 {MODULES}.scram.ScramLoginModule required username='scram' password='%s';"
LOGINS = {"mutual": ("MUTUAL", "", ""), "plain": ("SECURE", PLAIN, "admin-secret"), "scram": ("SECURE", SCRAM, "s")}


@pytest.mark.live
@pytest.mark.parametrize("how", LOGINS)
def test_javas_tools_get_in_and_nobody_else(secured: Secured, nobody: Path, tmp_path: Path, how: str) -> None:
    listener, login, password = LOGINS[how]
    if how == "scram":
        admin = AdminClient(secured.config("MUTUAL"))
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion("scram", credential, password.encode())
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result()
    keys = secured.client_keys if listener == "MUTUAL" else None
    file = java_file(secured, tmp_path, listener, login % password if login else "", keys)
    to, topic = ("--bootstrap-server", secured.address(listener), "--command-config", file), own_name(f"java-{how}")
    assert "Created topic" in java_tool(TOOLS + "TopicCommand", *to, "--create", "--topic", topic).stdout
    rule = ("--allow-principal", "User:bob", "--operation", "Read", "--topic", topic)
    java_tool(ACL_COMMAND, *to, "--add", *rule)
    assert "principal=User:bob" in java_tool(ACL_COMMAND, *to, "--list", "--topic", topic).stdout
    java_tool(CONFIG_COMMAND, *to, "--alter", "--topic", topic, "--add-config", "retention.ms=60000")
    assert "retention.ms=60000" in java_tool(CONFIG_COMMAND, *to, "--describe", "--topic", topic).stdout
    wrong = java_file(secured, tmp_path, listener, login % "guessed" if login else "", nobody if keys else None)
    to = ("--bootstrap-server", secured.address(listener), "--command-config", wrong)
    refused = java_tool(TOOLS + "TopicCommand", *to, "--create", "--topic", own_name("refused"), check=False)
    assert refused.returncode == 1
    assert ("Authorization failed" if how == "mutual" else "Authentication failed") in (refused.stdout + refused.stderr)
