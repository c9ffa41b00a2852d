"""What a broker's properties mean, and which are refused."""

import pytest

from moldau.config.broker import BrokerConfig, BrokerConfigError
from moldau.config.broker_checks import refuse_missing_security
from moldau.config.listeners import Listener


def test_no_properties_are_enough() -> None:
    config = BrokerConfig.load({})
    assert config.node_id == 1
    assert config.listeners == (Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092),)
    assert config.advertised_listeners == config.listeners
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert config.message_max_bytes == 1_048_588
    assert config.log_cleaner_io_max_bytes_per_second == 1.7976931348623157e308
    assert config.broker_rack is None
    assert config.max_connections_per_ip_overrides == {}
    assert config.warnings == ()


def test_a_single_node_has_one_replica_of_internal_topics_and_a_cluster_three() -> None:
    alone, cluster = BrokerConfig.load({}), BrokerConfig.load({"zookeeper.connect": "zk:2181"})
    assert (alone.offsets_topic_replication_factor, cluster.offsets_topic_replication_factor) == (1, 3)
    assert (alone.transaction_state_log_replication_factor, cluster.transaction_state_log_replication_factor) == (1, 3)
    assert (alone.transaction_state_log_min_isr, cluster.transaction_state_log_min_isr) == (1, 2)
    assert BrokerConfig.load({"offsets.topic.replication.factor": "2"}).offsets_topic_replication_factor == 2


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_either_name_of_the_id_gives_both(name: str) -> None:
    config = BrokerConfig.load({name: "7"})
    assert config.node_id == 7
    assert config.values["broker.id"] == 7


def test_values_are_typed() -> None:
    config = BrokerConfig.load(
        {
            "log.dirs": "/a, /b",
            "auto.create.topics.enable": "FALSE",
            "max.connections.per.ip.overrides": "127.0.0.1:5, host-1.example:6,[::1]:7",
            "log.cleaner.io.buffer.load.factor": "0.7",
            "broker.rack": "r1",
        }
    )
    assert config.log_dirs == ("/a", "/b")
    assert config.auto_create_topics_enable is False
    assert config.max_connections_per_ip_overrides == {"127.0.0.1": 5, "host-1.example": 6, "::1": 7}
    assert config.log_cleaner_io_buffer_load_factor == 0.7
    assert config.broker_rack == "r1"


def test_a_limit_is_for_an_address_however_it_is_written() -> None:
    text = "::1:1,[0:0:0:0:0:0:0:2]:2,::ffff:10.0.0.3:3,localhost:4"
    config = BrokerConfig.load({"max.connections.per.ip.overrides": text})
    assert config.max_connections_per_ip_overrides == {"::1": 1, "::2": 2, "10.0.0.3": 3, "localhost": 4}


@pytest.mark.parametrize(
    "name",
    ["max.connections", "max.connection.creation.rate", "connections.max.reauth.ms", "sasl.server.max.receive.size"],
)
def test_a_setting_that_one_listener_may_have_is_not_said_to_have_no_effect(name: str) -> None:
    assert BrokerConfig.load({f"listener.name.plaintext.{name}": "5"}).warnings == ()


def test_log_dir_counts_only_without_log_dirs() -> None:
    assert BrokerConfig.load({"log.dir": "/a,/c"}).log_dirs == ("/a", "/c")
    assert BrokerConfig.load({"log.dir": "/a", "log.dirs": "/b"}).log_dirs == ("/b",)


def test_all_bad_values_are_refused_at_once_with_key_value_and_what_is_allowed() -> None:
    with pytest.raises(BrokerConfigError) as refused:
        BrokerConfig.load({"num.partitions": "0", "log.segment.bytes": "many", "delete.topic.enable": "si"})
    assert set(str(refused.value).splitlines()) == {
        "Invalid value 0 for configuration num.partitions: Value must be at least 1 (allowed: [1,...])",
        "Invalid value many for configuration log.segment.bytes: Not a number of type INT (allowed: [1048576,...])",
        "Invalid value si for configuration delete.topic.enable: Expected value to be either true or false",
    }


def test_settings_that_disagree_are_refused_at_once() -> None:
    with pytest.raises(BrokerConfigError) as refused:
        BrokerConfig.load(
            {
                "listeners": "NOBODY://:1",
                "queued.max.request.bytes": "5",
                "node.id": "1",
                "broker.id": "2",
                "log.retention.hours": "0",
                "log.roll.ms": "0",
                "log.roll.jitter.ms": "-1",
                "max.connections.per.ip": "0",
                "connections.max.idle.ms": "50",
                "log.cleaner.min.compaction.lag.ms": "6",
                "log.cleaner.max.compaction.lag.ms": "5",
                "log.cleaner.dedupe.buffer.size": "1048576",
                "cordoned.log.dirs": "/elsewhere",
            }
        )
    assert {problem.key for problem in refused.value.problems} == {
        "listeners",
        "queued.max.request.bytes",
        "node.id",
        "log.retention.ms",
        "log.roll.ms",
        "log.roll.jitter.ms",
        "max.connections.per.ip",
        "connections.max.idle.ms",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.dedupe.buffer.size",
        "cordoned.log.dirs",
    }
    assert len(str(refused.value).splitlines()) == len(refused.value.problems)


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"max.connections.per.ip.overrides": "bad addr:5"}, "max.connections.per.ip.overrides"),
        ({"max.connections.per.ip.overrides": "127.0.0.1"}, "max.connections.per.ip.overrides"),
        ({"max.connections.per.ip.overrides": "127.0.0.1:x"}, "max.connections.per.ip.overrides"),
        ({"log.cleaner.threads": "0"}, "log.cleaner.threads"),
        ({"cordoned.log.dirs": "*,/tmp/kafka-logs"}, "cordoned.log.dirs"),
        ({"log.dirs": ""}, "log.dirs"),
        ({"num.io.threads": "0"}, "num.io.threads"),
        ({"offsets.topic.compression.codec": "5"}, "offsets.topic.compression.codec"),
    ],
)
def test_a_bad_value_is_refused(properties: dict[str, str], key: str) -> None:
    with pytest.raises(BrokerConfigError) as refused:
        BrokerConfig.load(properties)
    assert [problem.key for problem in refused.value.problems] == [key]
    assert f"for configuration {key}: " in str(refused.value)


def test_a_cordoned_folder_is_one_of_the_logs() -> None:
    assert BrokerConfig.load({"cordoned.log.dirs": "*"}).values["cordoned.log.dirs"] == ("*",)
    config = BrokerConfig.load({"log.dirs": "/a,/b", "cordoned.log.dirs": "/b"})
    assert config.values["cordoned.log.dirs"] == ("/b",)


def test_what_is_unknown_or_without_effect_is_named_once() -> None:
    config = BrokerConfig.load(
        {
            "num.partitions": "3",
            "num.io.threads": "4",
            "made.up": "1",
        }
    )
    assert config.warnings == (
        "Configuration num.io.threads is accepted but has no effect on this broker.",
        "Unknown configuration made.up is ignored.",
    )


def test_dynamic_settings_lie_over_the_properties_and_replace_each_other() -> None:
    config = BrokerConfig.load({"log.retention.hours": "1", "message.max.bytes": "10"})
    changed = config.with_dynamic({"log.retention.ms": "5", "message.max.bytes": "20"}, {"message.max.bytes": "30"})
    assert changed.topic_defaults["retention.ms"] == 5
    assert changed.message_max_bytes == 30
    assert changed.with_dynamic({"message.max.bytes": "20"}, {}).message_max_bytes == 20
    assert changed.with_dynamic({}, {}) == config


def test_bad_dynamic_settings_are_refused() -> None:
    with pytest.raises(BrokerConfigError, match=r"message\.max\.bytes"):
        BrokerConfig.load({}).with_dynamic({"message.max.bytes": "x"}, {})


@pytest.mark.parametrize(
    ("properties", "milliseconds"),
    [
        ({}, 7 * 24 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(properties: dict[str, str], milliseconds: int) -> None:
    assert BrokerConfig.load(properties).topic_defaults["retention.ms"] == milliseconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.server.callback.handler.class", "com.example.Handler"),
        ("ssl.engine.factory.class", "com.example.Factory"),
        ("listener.name.plaintext.ssl.engine.factory.class", "com.example.Factory"),
        ("listener.name.plaintext.plain.sasl.server.callback.handler.class", "com.example.Handler"),
        ("principal.builder.class", "com.example.Builder"),
    ],
)
def test_protection_that_is_not_given_is_refused(name: str, value: str) -> None:
    with pytest.raises(BrokerConfigError) as refused:
        refuse_missing_security({name: value})
    assert str(refused.value).startswith(
        f"Invalid value {value} for configuration {name}: not supported yet; leave it out"
    )


SECRETS = ("sasl.oauthbearer.assertion.private.key.passphrase",)


def test_a_refused_password_is_not_shown() -> None:
    with pytest.raises(BrokerConfigError) as refused:
        refuse_missing_security(dict.fromkeys(SECRETS, "hush"))
    assert "hush" not in str(refused.value) and str(refused.value).count("[hidden]") == 1


def test_which_context_of_javas_makes_connections_is_no_protection() -> None:
    """Files of old clusters and of many how-tos name it; which versions are spoken stands elsewhere."""
    refuse_missing_security({"ssl.protocol": "TLS", "listener.name.ssl.ssl.protocol": "TLSv1.2"})


def test_protection_that_is_switched_off_is_not_asked_for() -> None:
    refuse_missing_security({"authorizer.class.name": "", "ssl.client.auth": "none", "ssl.keystore.location": " "})


def test_a_mistyped_setting_gets_the_nearest_name() -> None:
    config = BrokerConfig.load({"num.partition": "3", "log.retention.houres": "1", "made.up": "1"})
    assert config.warnings == (
        "Unknown configuration num.partition is ignored. Did you mean num.partitions?",
        "Unknown configuration log.retention.houres is ignored. Did you mean log.retention.hours?",
        "Unknown configuration made.up is ignored.",
    )
