"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

Settings of the broker are shared by all scenarios: only such are changed here that no other scenario notices, and they
are put back.
"""

from collections.abc import Callable
from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.topics import BAD_TOPIC_CONFIGS
from tests.conformance.session import Session

UNKNOWN, TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 0, 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
BROKER_ID = "1"


def _resource(kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    return {"resource_type": kind, "resource_name": name, "configuration_keys": keys}


def _describe(s: Session, step: str, *resources: dict[str, Any], version: int | None = None, **more: Any) -> None:
    s.ask(step, "describe_configs", {"resources": list(resources), **more}, version=version)


def _value(s: Session, kind: int, name: str, key: str) -> str | None:
    answer = s.send("describe_configs", {"resources": [_resource(kind, name, [key])]})
    configs = answer["results"][0]["configs"]
    return configs[0]["value"] if configs else None


@scenario("describe_configs")
def describe_configs_of_topics(s: Session, version: int) -> None:
    plain = s.create("plain").name
    own = s.create(
        "own", configs={"retention.ms": "12345", "cleanup.policy": "compact", "min.insync.replicas": "1"}
    ).name
    _describe(s, "everything", _resource(TOPIC, plain))
    _describe(
        s,
        "everything with synonyms and documentation",
        _resource(TOPIC, own),
        include_synonyms=True,
        include_documentation=True,
    )
    _describe(s, "some keys", _resource(TOPIC, own, ["retention.ms", "segment.bytes"]), include_synonyms=True)
    _describe(s, "unknown key", _resource(TOPIC, own, ["no.such.key", "retention.ms"]))
    _describe(s, "broker's key", _resource(TOPIC, own, ["log.retention.ms"]))
    _describe(s, "key twice", _resource(TOPIC, own, ["retention.ms", "retention.ms"]))
    _describe(s, "no keys", _resource(TOPIC, own, []))
    _describe(s, "unknown topic", _resource(TOPIC, s.topic_name("missing")))
    _describe(s, "illegal name", _resource(TOPIC, "a b"))
    _describe(s, "empty name", _resource(TOPIC, ""))
    keys = ["retention.ms"]
    _describe(s, "two topics", _resource(TOPIC, plain, keys), _resource(TOPIC, own, keys))
    _describe(s, "a topic twice", _resource(TOPIC, own, keys), _resource(TOPIC, own, keys))
    _describe(s, "one unknown", _resource(TOPIC, plain, keys), _resource(TOPIC, s.topic_name("missing"), keys))
    _describe(s, "nothing")
    s.ask("null list", "describe_configs", {"resources": None})


@scenario("describe_configs")
def describe_configs_of_brokers(s: Session, version: int) -> None:
    keys = ["num.partitions", "log.retention.ms", "log.cleaner.threads", "min.insync.replicas", "listeners.no.such"]
    _describe(
        s, "everything", _resource(BROKER, BROKER_ID), include_synonyms=version % 2 == 1, include_documentation=True
    )
    _describe(s, "some keys", _resource(BROKER, BROKER_ID, keys), include_synonyms=True, include_documentation=True)
    _describe(s, "defaults of the cluster", _resource(BROKER, ""), include_synonyms=True)
    _describe(s, "another broker", _resource(BROKER, "2", keys))
    _describe(s, "not a number", _resource(BROKER, "abc", keys))
    _describe(s, "negative number", _resource(BROKER, "-1", keys))
    for kind in (UNKNOWN, 1, 3, 5, 99, -1):
        _describe(s, f"type {kind}", _resource(kind, "x", keys))
    _describe(s, "logger of another broker", _resource(LOGGER, "2"))
    _describe(s, "logger without name", _resource(LOGGER, ""))
    _describe(s, "logger not a number", _resource(LOGGER, "abc"))
    _describe(s, "client metrics", _resource(CLIENT_METRICS, "some-subscription"))
    _describe(s, "client metrics without name", _resource(CLIENT_METRICS, ""))


@scenario("describe_configs")
def describe_configs_of_groups(s: Session, version: int) -> None:
    _describe(s, "group", _resource(GROUP, "some-group"), include_synonyms=True, include_documentation=True)
    _describe(s, "group without name", _resource(GROUP, ""))


def _alter(s: Session, step: str, kind: int, name: str, configs: dict[str, str | None], **more: Any) -> None:
    wanted = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": wanted}
    s.ask(step, "alter_configs", {"resources": [resource], **more})


@scenario("alter_configs")
def alter_configs_of_topics(s: Session, version: int) -> None:
    topic = s.create("a", configs={"retention.ms": "1000", "segment.ms": "5000"}).name
    keys = ["retention.ms", "segment.ms", "cleanup.policy"]
    _alter(s, "replaces all", TOPIC, topic, {"retention.ms": "2000"})
    s.until(lambda: _value(s, TOPIC, topic, "retention.ms") == "2000", "the change")
    _describe(s, "replaced", _resource(TOPIC, topic, keys), version=4, include_synonyms=True)
    _alter(s, "only validated", TOPIC, topic, {"retention.ms": "3000"}, validate_only=True)
    _alter(s, "only validated, bad", TOPIC, topic, {"retention.ms": "x"}, validate_only=True)
    _alter(s, "one bad of two", TOPIC, topic, {"retention.ms": "4000", "segment.ms": "x"})
    _alter(s, "null value", TOPIC, topic, {"retention.ms": None})
    _alter(s, "unknown setting", TOPIC, topic, {"no.such.setting": "1"})
    _alter(s, "broker's setting", TOPIC, topic, {"log.retention.ms": "1"})
    for key, value in BAD_TOPIC_CONFIGS[:12]:
        _alter(s, f"{key} is {value or 'empty'}", TOPIC, topic, {key: value})
    _alter(s, "unknown topic", TOPIC, s.topic_name("missing"), {"retention.ms": "1"})
    _alter(s, "illegal name", TOPIC, "a b", {"retention.ms": "1"})
    _alter(s, "empty name", TOPIC, "", {"retention.ms": "1"})
    _alter(s, "to nothing", TOPIC, topic, {})
    s.until(lambda: _value(s, TOPIC, topic, "cleanup.policy") == "delete", "the reset")
    _describe(s, "default again", _resource(TOPIC, topic, keys), version=4, include_synonyms=True)
    twice = [{"name": "retention.ms", "value": value} for value in ("1", "2")]
    resource = {"resource_type": TOPIC, "resource_name": topic, "configs": twice}
    s.ask("a setting twice", "alter_configs", {"resources": [resource], "validate_only": True})
    s.ask("nothing", "alter_configs", {"resources": []})
    s.ask("null list", "alter_configs", {"resources": None})


@scenario("alter_configs", versions=[2])
def alter_configs_of_a_topic_twice(s: Session, version: int) -> None:
    resource = {"resource_type": TOPIC, "resource_name": s.create("a").name, "configs": []}
    s.ask("a topic twice", "alter_configs", {"resources": [resource, resource], "validate_only": True}, seconds=2)


@scenario("alter_configs")
def alter_configs_of_brokers(s: Session, version: int) -> None:
    keys = ["background.threads", "log.cleaner.backoff.ms"]
    _alter(s, "this broker", BROKER, BROKER_ID, {"background.threads": "11"})
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[0]) == "11", "the change")
    _describe(s, "this broker's", _resource(BROKER, BROKER_ID, keys), version=4, include_synonyms=True)
    _alter(s, "the cluster without min.insync.replicas", BROKER, "", {"log.cleaner.backoff.ms": "15001"})
    _alter(s, "the cluster", BROKER, "", {"log.cleaner.backoff.ms": "15001", "min.insync.replicas": "1"})
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[1]) == "15001", "the change")
    _describe(
        s,
        "with the cluster's",
        _resource(BROKER, BROKER_ID, keys),
        _resource(BROKER, ""),
        version=4,
        include_synonyms=True,
    )
    _alter(s, "read-only", BROKER, BROKER_ID, {"node.id": "5"})
    _alter(s, "read-only for the cluster", BROKER, "", {"log.dirs": "/x"})
    _alter(s, "this broker's setting for the cluster", BROKER, "", {"listeners": "PLAINTEXT://:1"})
    _alter(s, "bad value", BROKER, BROKER_ID, {"background.threads": "many"})
    _alter(s, "out of range", BROKER, BROKER_ID, {"background.threads": "0"})
    _alter(s, "grows too fast", BROKER, BROKER_ID, {"background.threads": "1000"})
    _alter(s, "null value", BROKER, BROKER_ID, {"background.threads": None})
    _alter(s, "another broker", BROKER, "2", {"background.threads": "5"})
    _alter(s, "not a number", BROKER, "abc", {"background.threads": "5"})
    _alter(s, "only validated", BROKER, BROKER_ID, {"background.threads": "12"}, validate_only=True)
    _alter(s, "logger", LOGGER, BROKER_ID, {"kafka": "INFO"})
    for kind in (UNKNOWN, 3, 99):
        _alter(s, f"type {kind}", kind, "x", {"a": "b"})
    _alter(s, "unknown setting", BROKER, BROKER_ID, {"no.such.setting": "1"})
    _alter(s, "this broker back", BROKER, BROKER_ID, {})
    _alter(s, "the cluster back", BROKER, "", {"min.insync.replicas": "1"})
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[0]) == "10", "the reset")
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[1]) == "15000", "the reset")
    _describe(s, "default again", _resource(BROKER, BROKER_ID, keys), version=4, include_synonyms=True)
    _drop_cluster_setting(s, "min.insync.replicas")


def _drop_cluster_setting(s: Session, key: str) -> None:
    """Where the broker allows it; Apache Kafka insists on min.insync.replicas."""
    change = {"name": key, "config_operation": DELETE, "value": None}
    resource = {"resource_type": BROKER, "resource_name": "", "configs": [change]}
    s.send("incremental_alter_configs", {"resources": [resource]})


def _change(s: Session, step: str, kind: int, name: str, *changes: tuple[str, int, str | None], **more: Any) -> None:
    wanted = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": wanted}
    s.ask(step, "incremental_alter_configs", {"resources": [resource], **more})


def _becomes(s: Session, topic: str, key: str, value: str) -> Callable[[], bool]:
    return lambda: _value(s, TOPIC, topic, key) == value


@scenario("incremental_alter_configs")
def incremental_configs_of_topics(s: Session, version: int) -> None:
    topic = s.create("a", configs={"retention.ms": "1000"}).name
    keys = ["retention.ms", "segment.ms", "cleanup.policy", "max.message.bytes"]
    _change(s, "set two", TOPIC, topic, ("retention.ms", SET, "2000"), ("segment.ms", SET, "7000"))
    s.until(_becomes(s, topic, "segment.ms", "7000"), "the change")
    _describe(s, "two are set", _resource(TOPIC, topic, keys), version=4, include_synonyms=True)
    _change(s, "delete one", TOPIC, topic, ("segment.ms", DELETE, None))
    s.until(_becomes(s, topic, "segment.ms", "604800000"), "the change")
    _change(s, "append", TOPIC, topic, ("cleanup.policy", APPEND, "compact"))
    s.until(_becomes(s, topic, "cleanup.policy", "delete,compact"), "the change")
    _change(s, "append what is there", TOPIC, topic, ("cleanup.policy", APPEND, "compact"))
    _change(s, "subtract", TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))
    s.until(_becomes(s, topic, "cleanup.policy", "compact"), "the change")
    _change(s, "subtract what is not there", TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))
    _describe(s, "after lists", _resource(TOPIC, topic, keys), version=4, include_synonyms=True)
    _change(s, "append to a number", TOPIC, topic, ("retention.ms", APPEND, "1"))
    _change(s, "subtract from a number", TOPIC, topic, ("retention.ms", SUBTRACT, "1"))
    _change(s, "append a bad member", TOPIC, topic, ("cleanup.policy", APPEND, "x"))
    _change(s, "operation 9", TOPIC, topic, ("retention.ms", 9, "1"))
    _change(s, "operation -1", TOPIC, topic, ("retention.ms", -1, "1"))
    _change(s, "set to null", TOPIC, topic, ("retention.ms", SET, None))
    _change(s, "delete with a value", TOPIC, topic, ("max.message.bytes", DELETE, "5"))
    _change(s, "delete what is not set", TOPIC, topic, ("max.message.bytes", DELETE, None))
    _change(s, "delete an unknown setting", TOPIC, topic, ("no.such.setting", DELETE, None))
    _change(s, "set an unknown setting", TOPIC, topic, ("no.such.setting", SET, "1"))
    _change(s, "a setting twice", TOPIC, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    _change(s, "one bad of two", TOPIC, topic, ("retention.ms", SET, "9000"), ("segment.ms", SET, "x"))
    _change(s, "empty setting", TOPIC, topic, ("", SET, "1"))
    _change(s, "no change", TOPIC, topic)
    _change(s, "only validated", TOPIC, topic, ("retention.ms", SET, "8000"), validate_only=True)
    _change(s, "only validated, bad", TOPIC, topic, ("retention.ms", SET, "x"), validate_only=True)
    _change(s, "unknown topic", TOPIC, s.topic_name("missing"), ("retention.ms", SET, "1"))
    _change(s, "illegal name", TOPIC, "a b", ("retention.ms", SET, "1"))
    _change(s, "empty name", TOPIC, "", ("retention.ms", SET, "1"))
    for key, value in BAD_TOPIC_CONFIGS:
        _change(s, f"{key} is {value or 'empty'}", TOPIC, topic, (key, SET, value))
    one = {"resource_type": TOPIC, "resource_name": topic, "configs": []}
    s.ask("a topic twice", "incremental_alter_configs", {"resources": [one, one]})
    s.ask("nothing", "incremental_alter_configs", {"resources": []})
    s.ask("null list", "incremental_alter_configs", {"resources": None})


@scenario("incremental_alter_configs")
def incremental_configs_of_brokers(s: Session, version: int) -> None:
    keys = ["background.threads", "log.cleaner.backoff.ms"]
    _change(s, "this broker", BROKER, BROKER_ID, ("background.threads", SET, "11"))
    _change(s, "the cluster", BROKER, "", ("background.threads", SET, "12"), ("log.cleaner.backoff.ms", SET, "15001"))
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[1]) == "15001", "the change")
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[0]) == "11", "the change")
    _describe(
        s, "both", _resource(BROKER, BROKER_ID, keys), _resource(BROKER, "", keys), version=4, include_synonyms=True
    )
    _change(s, "read-only", BROKER, BROKER_ID, ("node.id", SET, "5"))
    _change(s, "read-only for the cluster", BROKER, "", ("log.dirs", SET, "/x"))
    _change(s, "this broker's setting for the cluster", BROKER, "", ("listeners", SET, "PLAINTEXT://:1"))
    _change(s, "the cluster's setting for this broker", BROKER, BROKER_ID, ("min.insync.replicas", SET, "1"))
    _change(s, "unknown setting", BROKER, BROKER_ID, ("no.such.setting", SET, "1"))
    _change(s, "unknown setting for the cluster", BROKER, "", ("no.such.setting", SET, "1"))
    _change(s, "bad value", BROKER, BROKER_ID, ("background.threads", SET, "many"))
    _change(s, "bad value for the cluster", BROKER, "", ("log.retention.ms", SET, "many"))
    _change(s, "out of range", BROKER, BROKER_ID, ("background.threads", SET, "0"))
    _change(s, "grows too fast", BROKER, BROKER_ID, ("background.threads", SET, "1000"))
    _change(s, "another broker", BROKER, "2", ("background.threads", SET, "5"))
    _change(s, "not a number", BROKER, "abc", ("background.threads", SET, "5"))
    _change(s, "append to a number", BROKER, BROKER_ID, ("background.threads", APPEND, "5"))
    _change(s, "only validated", BROKER, BROKER_ID, ("background.threads", SET, "13"), validate_only=True)
    _change(s, "unknown logger", LOGGER, BROKER_ID, ("no.such.logger", SET, "INFO"))
    _change(s, "unknown level", LOGGER, BROKER_ID, ("root", SET, "LOUD"))
    _change(s, "logger of another broker", LOGGER, "2", ("root", SET, "INFO"))
    for kind in (UNKNOWN, 3, 99):
        _change(s, f"type {kind}", kind, "x", ("a", SET, "b"))
    delete = [(key, DELETE, None) for key in (*keys, "no.such.setting")]
    _change(s, "this broker back", BROKER, BROKER_ID, *delete)
    _change(s, "the cluster back", BROKER, "", *delete)
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[0]) == "10", "the reset")
    s.until(lambda: _value(s, BROKER, BROKER_ID, keys[1]) == "15000", "the reset")


@scenario("list_config_resources")
def list_config_resources(s: Session, version: int) -> None:
    s.create("a", configs={"retention.ms": "1000"})
    s.create("b")
    for label, kinds in (
        ("client metrics", [CLIENT_METRICS]), ("all by default", []), ("topics", [TOPIC]), ("brokers", [BROKER]),
        ("loggers", [LOGGER]), ("topics and brokers", [TOPIC, BROKER]), ("topics twice", [TOPIC, TOPIC]),
        ("unknown type", [UNKNOWN]), ("type 99", [99]), ("type 99 and topics", [TOPIC, 99]), ("type -1", [-1]),
    ):  # fmt: skip
        s.ask(label, "list_config_resources", {"resource_types": kinds}, only_own=True)
