"""Settings of topics and of the broker: described, changed, refused; changes act at once and survive a restart."""

from __future__ import annotations

import asyncio
import struct

import aiokafka.admin
import kafka
import kafka.admin
import pytest
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ConfigSource

from tests.clients.conftest import StartBroker
from tests.support import raw
from tests.support.admin import (
    SECONDS,
    admin_client,
    broker_id,
    change_config,
    configs_of,
    create_topic,
    error_code,
    error_text,
)
from tests.support.clients import Confluent, Message
from tests.support.waiting import wait_until

INCREMENTAL_ALTER_CONFIGS = 44
BROKER_RESOURCE = 4

# As Apache Kafka 4.3 reports them.
TOPIC_DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def source(entry: ConfigEntry) -> str:
    return ConfigSource(entry.source).name


def test_defaults_of_a_new_topic(admin: AdminClient, topic: str) -> None:
    """RET-01, BRK-05: a topic without settings of its own shows Kafka's defaults and where they come from."""
    create_topic(admin, topic)
    found = configs_of(admin, "topic", topic)
    assert {name: found[name].value for name in TOPIC_DEFAULTS} == TOPIC_DEFAULTS
    # Apache Kafka 4 sets min.insync.replicas dynamically for the whole cluster when it is formatted.
    assert {source(found[name]) for name in TOPIC_DEFAULTS.keys() - {"min.insync.replicas"}} == {"DEFAULT_CONFIG"}
    assert all(found[name].is_default for name in TOPIC_DEFAULTS if source(found[name]) == "DEFAULT_CONFIG")
    assert not any(entry.is_read_only or entry.is_sensitive for entry in found.values())


def test_incremental_changes(admin: AdminClient, topic: str) -> None:
    """TP-21, TP-22: set, append, subtract and delete one setting, the others untouched."""
    create_topic(admin, topic, configs={"segment.ms": 60_000})
    change_config(admin, "topic", topic, "retention.ms", "3600000")
    change_config(admin, "topic", topic, "cleanup.policy", "compact", "APPEND")
    found = configs_of(admin, "topic", topic)
    assert found["segment.ms"].value == "60000"
    assert found["retention.ms"].value == "3600000"
    assert source(found["retention.ms"]) == "DYNAMIC_TOPIC_CONFIG"
    assert set(str(found["cleanup.policy"].value).split(",")) == {"delete", "compact"}
    change_config(admin, "topic", topic, "cleanup.policy", "delete", "SUBTRACT")
    change_config(admin, "topic", topic, "segment.ms", None, "DELETE")
    found = configs_of(admin, "topic", topic)
    assert found["cleanup.policy"].value == "compact"
    assert found["segment.ms"].value == TOPIC_DEFAULTS["segment.ms"]
    assert source(found["segment.ms"]) == "DEFAULT_CONFIG"


@pytest.mark.filterwarnings("ignore:.*alter_configs.*:DeprecationWarning")
def test_a_full_change_replaces_all_others(admin: AdminClient, topic: str) -> None:
    """AlterConfigs, the older call, resets whatever it does not name."""
    create_topic(admin, topic, configs={"segment.ms": 60_000, "retention.ms": 5000})
    resource = ConfigResource("topic", topic, set_config={"max.message.bytes": "2000"})
    admin.alter_configs([resource])[resource].result(SECONDS)
    found = configs_of(admin, "topic", topic)
    changed = {name for name, entry in found.items() if source(entry) == "DYNAMIC_TOPIC_CONFIG"}
    assert changed == {"max.message.bytes"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", "shred"),
        ("compression.type", "rar"),
        ("message.timestamp.type", "Lunch"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("preallocate", "maybe"),
        ("max.message.bytes", "99999999999999"),
        ("no.such.setting", "1"),
    ],
)
def test_bad_values_are_refused(admin: AdminClient, topic: str, key: str, value: str) -> None:
    """The error names the key, and the setting stays as it was."""
    create_topic(admin, topic)
    before = {name: entry.value for name, entry in configs_of(admin, "topic", topic).items()}
    assert error_code(lambda: change_config(admin, "topic", topic, key, value)) == "INVALID_CONFIG"
    assert key in error_text(lambda: change_config(admin, "topic", topic, key, value))
    assert {name: entry.value for name, entry in configs_of(admin, "topic", topic).items()} == before


def test_settings_of_an_unknown_topic(admin: AdminClient, topic: str) -> None:
    assert error_code(lambda: configs_of(admin, "topic", topic)) == "UNKNOWN_TOPIC_OR_PART"
    call = lambda: change_config(admin, "topic", topic, "retention.ms", "1")  # noqa: E731
    assert error_code(call) == "UNKNOWN_TOPIC_OR_PART"


def test_a_changed_size_limit_acts_at_once(admin: AdminClient, address: str, topic: str) -> None:
    """BRK-05: lowering max.message.bytes refuses the next large record, raising it admits it."""
    create_topic(admin, topic)
    client = Confluent()
    large = [Message(b"x" * 20_000)]
    client.produce(address, topic, large)
    change_config(admin, "topic", topic, "max.message.bytes", "10000")
    wait_until(
        lambda: error_code(lambda: client.produce(address, topic, large)) == "MSG_SIZE_TOO_LARGE", "the lower limit"
    )
    change_config(admin, "topic", topic, "max.message.bytes", "30000")
    wait_until(lambda: error_code(lambda: client.produce(address, topic, large)) == "NO_ERROR", "the higher limit")


def test_broker_settings_are_described(admin: AdminClient) -> None:
    """Static, default and read-only settings of a broker, with synonyms."""
    found = configs_of(admin, "broker", str(broker_id(admin)))
    assert source(found["log.dirs"]) == "STATIC_BROKER_CONFIG"
    assert found["log.dirs"].is_read_only
    assert found["num.partitions"].value == "1"
    assert found["log.retention.hours"].value == "168"
    assert source(found["message.max.bytes"]) == "DEFAULT_CONFIG"
    assert not found["message.max.bytes"].is_read_only
    assert found["log.segment.bytes"].synonyms.keys() >= {"log.segment.bytes"}


def test_dynamic_broker_settings(own_broker: StartBroker, topic: str) -> None:
    """BR-08: cluster-wide and per-broker changes act at once, are inherited by topics, and survive a restart."""
    broker = own_broker()
    admin = admin_client(broker.address)
    here = str(broker_id(admin))
    create_topic(admin, topic)
    _change_cluster_default(broker.address, "log.retention.ms", "7200000")
    wait_until(lambda: configs_of(admin, "topic", topic)["retention.ms"].value == "7200000", "the cluster-wide value")
    assert source(configs_of(admin, "topic", topic)["retention.ms"]) == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    change_config(admin, "broker", here, "message.max.bytes", "20000")
    wait_until(lambda: configs_of(admin, "broker", here)["message.max.bytes"].value == "20000", "the broker's value")
    assert source(configs_of(admin, "broker", here)["message.max.bytes"]) == "DYNAMIC_BROKER_CONFIG"
    client = Confluent()
    large = [Message(b"x" * 30_000)]
    wait_until(
        lambda: error_code(lambda: client.produce(broker.address, topic, large)) == "MSG_SIZE_TOO_LARGE", "the limit"
    )
    broker.restart()
    admin = admin_client(broker.address)
    assert configs_of(admin, "broker", here)["message.max.bytes"].value == "20000"
    assert configs_of(admin, "topic", topic)["retention.ms"].value == "7200000"
    change_config(admin, "broker", here, "message.max.bytes", None, "DELETE")
    wait_until(lambda: configs_of(admin, "broker", here)["message.max.bytes"].value == "1048588", "the default again")


def _change_cluster_default(address: str, key: str, value: str) -> None:
    """By IncrementalAlterConfigs v0: the cluster's name is empty, which no Python client lets through."""
    body = struct.pack(">ib", 1, BROKER_RESOURCE) + raw.string("")
    body += struct.pack(">i", 1) + raw.string(key) + struct.pack(">b", 0) + raw.string(value) + b"\x00"
    with raw.RawConnection(address) as connection:
        connection.send(raw.request(INCREMENTAL_ALTER_CONFIGS, 0, body))
        answer = connection.receive()
    assert answer is not None
    _, _, count, code = struct.unpack_from(">iiih", answer)
    assert (count, code) == (1, 0), answer


def test_read_only_broker_settings_stay(admin: AdminClient) -> None:
    """What only a restart can change is refused."""
    here = str(broker_id(admin))
    assert error_code(lambda: change_config(admin, "broker", here, "log.dirs", "/elsewhere")) in (
        "INVALID_REQUEST",
        "INVALID_CONFIG",
    )


def test_kafka_python_administers_configs(address: str, topic: str) -> None:
    """Described with source and synonyms, changed and reset through kafka-python."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    try:
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        resource = kafka.admin.ConfigResource("topic", topic, {"retention.ms": "60000"})
        admin.alter_configs([resource])
        described = admin.describe_configs(
            [kafka.admin.ConfigResource("topic", topic)], include_synonyms=True, config_filter="all"
        )
        entry = described["topic"][topic]["retention.ms"]
        assert entry["value"] == "60000"
        assert entry["synonyms"][0]["name"] == "retention.ms"
        admin.reset_configs([kafka.admin.ConfigResource("topic", topic, ["retention.ms"])])
        described = admin.describe_configs([kafka.admin.ConfigResource("topic", topic)], config_filter="all")
        assert described["topic"][topic]["retention.ms"]["value"] == "604800000"
    finally:
        admin.close()


def test_aiokafka_administers_configs(address: str, topic: str) -> None:
    """Described and changed through aiokafka, which uses the older calls."""
    resource_type = aiokafka.admin.config_resource.ConfigResourceType.TOPIC

    async def run() -> None:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        try:
            await admin.create_topics([aiokafka.admin.NewTopic(topic, 1, 1)])
            change = aiokafka.admin.config_resource.ConfigResource(resource_type, topic, {"retention.ms": "70000"})
            await admin.alter_configs([change])
            ask = aiokafka.admin.config_resource.ConfigResource(resource_type, topic)
            (answer,) = await admin.describe_configs([ask])
            (found,) = answer.resources
            assert found[0] == 0
            assert {entry[0]: entry[1] for entry in found[4]}["retention.ms"] == "70000"
        finally:
            await admin.close()

    asyncio.run(run())
