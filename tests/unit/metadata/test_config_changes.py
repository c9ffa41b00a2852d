"""Altering settings, in the words and codes that Apache Kafka 4.3 was seen to answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.config_changes import (
    AlteredResource,
    ResourceChanges,
    ResourceSettings,
    alter_configs,
    incremental_alter_configs,
)
from moldau.metadata.controller.config_operations import SettingChange, java_split
from moldau.metadata.controller.config_resources import ResourceType
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.types.errors import ErrorCode
from moldau.work.slices import at_once
from tests.support.metadata import Cluster

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Change = tuple[str, int, str | None]


def resource(kind: int, name: str, *changes: Change) -> ResourceChanges:
    return ResourceChanges(kind, name, [SettingChange(*change) for change in changes])


def alter(cluster: Cluster, *resources: ResourceChanges, validate_only: bool = False) -> list[AlteredResource]:
    return cluster.decide(
        lambda image: incremental_alter_configs(
            image, resources, configured(cluster), validate_only=validate_only, loggers={"moldau.storage"}
        )
    )


def alter_all(
    cluster: Cluster, kind: int, name: str, *settings: tuple[str, str | None], validate_only: bool = False
) -> AlteredResource:
    wanted = [ResourceSettings(kind, name, settings)]
    (answer,) = cluster.decide(
        lambda image: alter_configs(image, wanted, configured(cluster), validate_only=validate_only)
    )
    return answer


def configured(cluster: Cluster) -> BrokerConfig:
    """The broker's configuration under the image's dynamic settings, as a running broker has it."""
    image = cluster.image
    own = image.broker_settings.get(1)
    return cluster.config.with_dynamic(image.default_broker_settings.values, own.values if own else {})


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create(NewTopic("t"), NewTopic("u"))
    return cluster


ILLEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
THREADS = "org.apache.kafka.common.config.ConfigException: Log cleaner threads cannot be increased to more than double"


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "message"),
    [
        (TOPIC, "nope", [("retention.ms", SET, "5")], 3, "The topic 'nope' does not exist."),
        (TOPIC, "nope", [("retention.ms", SET, "x")], 40,
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (TOPIC, "", [("retention.ms", SET, "5")], 42, "Default topic resources are not allowed."),
        (TOPIC, "bad name", [("retention.ms", SET, "5")], 17, f"Topic name is invalid: 'bad name' {ILLEGAL}"),
        (TOPIC, "t", [("retention.ms", SET, "x")], 40,
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (TOPIC, "t", [("nope", SET, "x")], 40, "Unknown topic config name: nope"),
        (TOPIC, "t", [("nope", DELETE, None)], 0, None),
        (TOPIC, "t", [("nope", APPEND, "x")], 40, "Can't APPEND to key nope because its type is not LIST."),
        (TOPIC, "t", [("retention.ms", APPEND, "5")], 40,
         "Can't APPEND to key retention.ms because its type is not LIST."),
        (TOPIC, "t", [("retention.ms", SUBTRACT, "5")], 40,
         "Can't SUBTRACT to key retention.ms because its type is not LIST."),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("nope", SET, "1"), ("segment.ms", APPEND, "x")], 40,
         "Can't APPEND to key segment.ms because its type is not LIST."),
        (TOPIC, "t", [("cleanup.policy", APPEND, "compact,zzz")], 40,
         "Invalid value zzz for configuration cleanup.policy: String must be one of: compact, delete"),
        (TOPIC, "t", [("cleanup.policy", APPEND, "")], 40, "Configuration 'cleanup.policy' values must not be empty."),
        (TOPIC, "t", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("retention.ms", SET, None), ("segment.ms", APPEND, None)], 42,
         "Null value not supported for : retention.ms, segment.ms"),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], 42,
         "Error due to duplicate config keys"),
        (TOPIC, "t", [("retention.ms", 9, "1")], -1, None),
        (TOPIC, "t", [], 0, None),
        (0, "x", [("a", SET, "b")], 42, "Unknown resource type 0"),
        (3, "x", [("a", SET, "b")], 42, "Unknown resource type 3"),
        (-1, "x", [("a", SET, "b")], 42, "Unknown resource type -1"),
        (BROKER, "2", [("log.retention.ms", SET, "99")], 42, "Unexpected broker id, expected 1, but received 2"),
        (BROKER, "-1", [("log.retention.ms", SET, "99")], 42, "Unexpected broker id, expected 1, but received -1"),
        (BROKER, "x", [("log.retention.ms", SET, "99")], 42, "Node id must be an integer, but it is: x"),
        (BROKER, "1", [("num.partitions", SET, "3")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "", [("num.partitions", SET, "3")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "1", [("message.max.bytes", SET, "2000000"), ("num.partitions", SET, "7")], 42,
         "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "1", [("nope", SET, "3")], 0, None),
        (BROKER, "1", [("nope", DELETE, None)], 0, None),
        (BROKER, "1", [("nope", APPEND, "3")], 40, "Unknown config name: nope"),
        (BROKER, "1", [("log.retention.ms", SET, "zz")], 42,
         "Invalid value zz for configuration log.retention.ms: Not a number of type LONG"),
        (BROKER, "1", [("log.retention.ms", APPEND, "3")], 40,
         "Config value append is not allowed for config key: log.retention.ms"),
        (BROKER, "1", [("log.retention.ms", SUBTRACT, "3")], 40,
         "Config value subtract is not allowed for config key: log.retention.ms"),
        (BROKER, "1", [("log.retention.ms", 9, "3")], 42, "Unknown operations type 9"),
        (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], 42,
         "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"),
        (BROKER, "1", [("log.cleaner.threads", SET, "9")], 42,
         f"Invalid value {THREADS} the current value 1 for configuration Invalid dynamic configuration"),
        (BROKER, "", [("background.threads", SET, "0")], 42,
         "Invalid value 0 for configuration background.threads: Value must be at least 1"),
        (BROKER, "1", [("min.insync.replicas", SET, "1")], 40,
         "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        (BROKER, "", [("min.insync.replicas", DELETE, None)], 40,
         "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."),
        (BROKER, "", [("min.insync.replicas", SET, "2")], 0, None),
        (LOGGER, "1", [("nope", SET, "INFO")], 40, "Logger nope does not exist!"),
        (LOGGER, "1", [("nope", DELETE, None)], 40, "Logger nope does not exist!"),
        (LOGGER, "1", [("root", SET, "info")], 40,
         ("Cannot set the log level of root to info as it is not a supported log level. "
         "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN")),
        (LOGGER, "1", [("root", SET, "INFO"), ("moldau.storage", SET, "DEBUG")], 0, None),
        (LOGGER, "2", [("root", SET, "INFO")], 42, "Unexpected node id. Expected 1, but received 2"),
        (LOGGER, "", [("root", SET, "INFO")], 42, "Node id must be an integer, but it is: "),
        (LOGGER, "1", [("root", DELETE, None)], 42, "Removing the log level of the root logger is not allowed"),
        (LOGGER, "1", [("moldau.storage", DELETE, None)], 0, None),
        (LOGGER, "1", [("root", APPEND, "INFO")], 42, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (LOGGER, "1", [("root", 9, "INFO")], -1, None),
        (METRICS, "", [("interval.ms", SET, "1000")], 42, "Subscription name can't be empty"),
        (METRICS, "m", [("nope", SET, "1")], 42, "Unknown client metrics configuration: nope"),
        (METRICS, "m", [("interval.ms", SET, "x")], 40,
         "Invalid value x for configuration interval.ms: Not a number of type INT"),
        (METRICS, "m", [("interval.ms", SET, "99")], 42,
         "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
        (METRICS, "m", [("match", SET, "zz=a")], 40, "Illegal client matching pattern: zz=a"),
        (METRICS, "m", [("match", SET, "client_id")], 40, "Illegal client matching pattern: client_id"),
        (METRICS, "m", [("match", SET, "client_id=[")], 40, "Illegal client matching pattern: client_id=["),
        (METRICS, "m", [("match", SET, "client_id=a=b")], 40, "Illegal client matching pattern: client_id=a=b"),
        (METRICS, "m", [("metrics", APPEND, "q")], 40, "Can't APPEND to key metrics because its type is not LIST."),
        (METRICS, "m", [("match", SET, " client_id = a , client_software_name=b"), ("metrics", SET, "*")], 0, None),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], 42, "Default group resources are not allowed."),
        (GROUP, "g", [("nope", SET, "1")], 40, "Unknown group config name: nope"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "0")], 40,
         "Invalid value 0 for configuration consumer.session.timeout.ms: Value must be at least 1"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], 40,
         "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "99999999")], 40,
         "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (GROUP, "g", [("streams.num.standby.replicas", SET, "9")], 40,
         "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"),
        (GROUP, "g", [("share.partition.max.record.locks", SET, "999999")], 40,
         "share.partition.max.record.locks must be less than or equal to group.share.max.partition.max.record.locks"),
        (GROUP, "g", [("consumer.session.timeout.ms", APPEND, "5")], 40,
         "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST."),
    ],
)  # fmt: skip
def test_answers(
    cluster: Cluster, kind: int, name: str, changes: Sequence[Change], code: int, message: str | None
) -> None:
    before = cluster.image
    assert alter(cluster, resource(kind, name, *changes)) == [AlteredResource(kind, name, ErrorCode(code), message)]
    if code:
        assert cluster.image is before


def test_settings_of_a_topic_come_and_go(cluster: Cluster) -> None:
    alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "1000")))
    topic = cluster.image.topics["t"]
    assert dict(topic.configs) == {"retention.ms": "5", "segment.ms": "1000"}
    assert [(delta.new, delta.settings_changed) for delta in cluster.delta.changed] == [(topic, True)]
    alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "6")))
    alter(cluster, resource(TOPIC, "t", ("segment.ms", DELETE, None)))
    assert dict(cluster.image.topics["t"].configs) == {"retention.ms": "6"}
    alter(cluster, resource(TOPIC, "t", ("retention.ms", DELETE, "ignored")))
    assert cluster.image.topics["t"].settings.version == -1
    alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "7")))
    assert dict(cluster.image.topics["t"].configs) == {"retention.ms": "7"}


def test_nothing_is_written_when_nothing_changes(cluster: Cluster) -> None:
    alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "5")))
    before = cluster.image
    alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)))
    assert cluster.image is before


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ([(APPEND, "compact")], "delete,compact"),
        ([(APPEND, "compact"), (APPEND, "compact,delete")], "delete,compact"),
        ([(APPEND, "compact"), (SUBTRACT, "delete")], "compact"),
        ([(SUBTRACT, "compact")], "delete"),
        ([(SUBTRACT, "delete")], ""),
        ([(SET, "compact"), (APPEND, "delete,")], "compact,delete"),
    ],
)
def test_lists_grow_and_shrink_from_their_default(cluster: Cluster, changes: list[tuple[int, str]], value: str) -> None:
    for operation, text in changes:
        (answer,) = alter(cluster, resource(TOPIC, "t", ("cleanup.policy", operation, text)))
        assert answer.code is ErrorCode.NONE
    assert cluster.image.topics["t"].configs["cleanup.policy"] == value


def test_settings_of_one_broker_and_of_all(cluster: Cluster) -> None:
    alter(cluster, resource(BROKER, "1", ("log.retention.ms", SET, "99")))
    assert cluster.delta.broker_settings == {1}
    alter(cluster, resource(BROKER, "", ("log.retention.ms", SET, "98"), ("log.cleanup.policy", APPEND, "compact")))
    assert cluster.delta.default_broker_settings
    assert dict(cluster.image.broker_settings[1].values) == {"log.retention.ms": "99"}
    assert dict(cluster.image.default_broker_settings.values) == {
        "log.retention.ms": "98",
        "log.cleanup.policy": "delete,compact",
    }
    assert configured(cluster).topic_defaults["retention.ms"] == 99
    alter(cluster, resource(BROKER, "+1", ("log.retention.ms", DELETE, None)))
    assert 1 not in cluster.image.broker_settings
    assert configured(cluster).topic_defaults["retention.ms"] == 98


def test_settings_of_groups_and_of_client_metrics_have_any_name(cluster: Cluster) -> None:
    for name in ("g", "..", "a/b é"):
        alter(
            cluster,
            resource(GROUP, name, ("consumer.session.timeout.ms", SET, "50000")),
            resource(METRICS, name, ("interval.ms", SET, "1000")),
        )
        assert dict(cluster.image.group_settings[name].values) == {"consumer.session.timeout.ms": "50000"}
        assert dict(cluster.image.client_metrics_settings[name].values) == {"interval.ms": "1000"}
        assert (cluster.delta.group_settings, cluster.delta.client_metrics_settings) == ({name}, {name})
    alter(cluster, resource(GROUP, "..", ("consumer.session.timeout.ms", DELETE, None)))
    assert sorted(cluster.image.group_settings) == ["a/b é", "g"]


def test_a_resource_fails_alone_and_twice_the_same_together(cluster: Cluster) -> None:
    answers = alter(
        cluster,
        resource(TOPIC, "t", ("retention.ms", SET, "1")),
        resource(TOPIC, "u", ("retention.ms", SET, "z")),
        resource(BROKER, "1", ("log.retention.ms", SET, "1")),
        resource(BROKER, "1", ("log.retention.ms", SET, "2")),
    )
    assert [int(answer.code) for answer in answers] == [0, 40, 42, 42]
    assert answers[2].message == answers[3].message == "Each resource must appear at most once."
    assert dict(cluster.image.topics["t"].configs) == {"retention.ms": "1"}


def test_an_unknown_operation_spoils_the_request(cluster: Cluster) -> None:
    answers = alter(
        cluster, resource(TOPIC, "t", ("retention.ms", 9, "1")), resource(TOPIC, "u", ("retention.ms", SET, "1"))
    )
    assert [int(answer.code) for answer in answers] == [-1, -1]


def test_validate_only_answers_the_same_and_changes_nothing(cluster: Cluster) -> None:
    before = cluster.image
    (answer,) = alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "1")), validate_only=True)
    assert answer.code is ErrorCode.NONE
    assert alter_all(cluster, TOPIC, "t", ("retention.ms", "1"), validate_only=True).code is ErrorCode.NONE
    assert cluster.image is before


@pytest.mark.parametrize(
    ("kind", "name", "settings", "code", "message"),
    [
        (TOPIC, "t", [("retention.ms", None)], 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("retention.ms", "1"), ("retention.ms", "2")], 42, "Error due to duplicate config keys"),
        (TOPIC, "nope", [("retention.ms", "1")], 3, "The topic 'nope' does not exist."),
        (TOPIC, "t", [("nope", "1")], 40, "Unknown topic config name: nope"),
        (TOPIC, "", [], 42, "Default topic resources are not allowed."),
        (TOPIC, "bad name", [], 17, f"Topic name is invalid: 'bad name' {ILLEGAL}"),
        (BROKER, "1", [("num.partitions", "1")], 42, "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "3", [("log.retention.ms", "9")], 42, "Unexpected broker id, expected 1, but received 3"),
        (BROKER, "", [("listeners", "1")], 42,
         "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"),
        (LOGGER, "1", [("root", "INFO")], 42, "Unknown resource type 8"),
        (0, "1", [("root", "INFO")], 42, "Unknown resource type 0"),
    ],
)  # fmt: skip
def test_refusals_of_all_settings_at_once(
    cluster: Cluster, kind: int, name: str, settings: list[tuple[str, str | None]], code: int, message: str
) -> None:
    before = cluster.image
    assert alter_all(cluster, kind, name, *settings) == AlteredResource(kind, name, ErrorCode(code), message)
    assert cluster.image is before


def test_the_clusters_number_of_replicas_in_sync_cannot_be_left_out(cluster: Cluster) -> None:
    message = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    alter_all(cluster, BROKER, "", ("min.insync.replicas", "1"), ("log.retention.ms", "99"))
    refused = AlteredResource(BROKER, "", ErrorCode.INVALID_CONFIG, message)
    assert alter_all(cluster, BROKER, "") == refused
    assert alter_all(cluster, BROKER, "", ("log.retention.ms", "98")) == refused
    assert alter_all(cluster, BROKER, "", ("min.insync.replicas", "1")) == AlteredResource(BROKER, "")
    assert dict(cluster.image.default_broker_settings.values) == {"min.insync.replicas": "1"}


def test_all_settings_at_once_replace_those_that_were(cluster: Cluster) -> None:
    alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "1"), ("segment.ms", SET, "1000")))
    alter_all(cluster, TOPIC, "t", ("retention.ms", "5"))
    assert dict(cluster.image.topics["t"].configs) == {"retention.ms": "5"}
    alter_all(cluster, TOPIC, "t")
    assert dict(cluster.image.topics["t"].configs) == {}
    alter_all(cluster, BROKER, "1", ("log.retention.ms", "99"))
    alter_all(cluster, BROKER, "1", ("nope", "1"))
    assert dict(cluster.image.broker_settings[1].values) == {"nope": "1"}
    alter_all(cluster, GROUP, "g", ("consumer.session.timeout.ms", "50000"))
    alter_all(cluster, GROUP, "g")
    assert dict(cluster.image.group_settings) == {}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "t", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (BROKER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (LOGGER, "1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (METRICS, "m", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (GROUP, "g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_what_a_client_may_not_alter(cluster: Cluster, kind: int, name: str, code: ErrorCode) -> None:
    asked: list[tuple[ResourceType, str]] = []

    def deny(kind: ResourceType, name: str) -> bool:
        asked.append((kind, name))
        return False

    changes = [resource(kind, name)]
    decision = at_once(incremental_alter_configs(cluster.image, changes, cluster.config, may_alter=deny))
    assert (decision.operations, decision.answer[0].code) == ([], code)
    assert asked == [(ResourceType(kind), name)]
    if kind != LOGGER:
        settings = [ResourceSettings(kind, name, [])]
        decision = at_once(alter_configs(cluster.image, settings, cluster.config, may_alter=deny))
        assert (decision.operations, decision.answer[0].code) == ([], code)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [("", [""]), (",", []), ("a", ["a"]), ("a,", ["a"]), (",a", ["", "a"]), ("a,,b,,", ["a", "", "b"])],
)
def test_lists_are_split_as_java_does(text: str, pieces: list[str]) -> None:
    assert java_split(text) == pieces


def test_the_controller_takes_the_settings_of_every_broker_that_is_registered() -> None:
    cluster = Cluster({1: None, 2: None})
    (altered,) = alter(cluster, resource(BROKER, "2", ("log.retention.ms", SET, "99")))
    assert altered.code == 0
    assert cluster.image.broker_settings[2].values == {"log.retention.ms": "99"}
    (unknown,) = alter(cluster, resource(BROKER, "3", ("log.retention.ms", SET, "99")))
    assert unknown.code == 42
