"""`moldau config` against a real broker."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.cli.conftest import Moldau
from tests.support.admin import broker_id, create_topic
from tests.support.waiting import wait_until


def settings(moldau: Moldau, kind: str, *names: object) -> dict[str, str]:
    (found,) = moldau("config", "get", kind, *names, "-o", "json").document
    return dict(found["config"])


def test_set_get_and_unset_on_a_topic(moldau: Moldau, admin: AdminClient, name: str) -> None:
    create_topic(admin, name)
    done = moldau("config", "set", "topic", name, "retention.ms=5000", "cleanup.policy=compact")
    assert done.out.splitlines() == [
        f"topic {name}: set retention.ms=5000",
        f"topic {name}: set cleanup.policy=compact",
    ]
    assert settings(moldau, "topic", name) == {"cleanup.policy": "compact", "retention.ms": "5000"}
    assert moldau("config", "get", "topic", name).rows == [
        [name, "cleanup.policy", "compact", "topic"],
        [name, "retention.ms", "5000", "topic"],
    ]
    assert moldau("config", "get", "topic", name, "--key", "flush.messages").rows[0][3] == "default"
    assert moldau("config", "set", "topic", name, "--append", "cleanup.policy=delete").code == 0
    assert set(settings(moldau, "topic", name)["cleanup.policy"].split(",")) == {"compact", "delete"}
    assert moldau("config", "set", "topic", name, "--subtract", "cleanup.policy=compact").code == 0
    assert moldau("config", "unset", "topic", name, "retention.ms").out == f"topic {name}: unset retention.ms\n"
    assert settings(moldau, "topic", name) == {"cleanup.policy": "delete"}
    assert moldau("config", "unset", "topic", name, "--all", "--yes").code == 0
    assert settings(moldau, "topic", name) == {}


def test_what_get_prints_can_be_set_again(moldau: Moldau, admin: AdminClient, name: str, tmp_path: Path) -> None:
    create_topic(admin, name, configs={"retention.ms": 1234, "segment.ms": 60000})
    kept = tmp_path / "config.json"
    kept.write_text(moldau("config", "get", "topic", name, "-o", "json").out)
    moldau("config", "unset", "topic", name, "retention.ms", "segment.ms")
    assert settings(moldau, "topic", name) == {}
    assert moldau("config", "set", "--from-file", kept).code == 0
    assert settings(moldau, "topic", name) == {"retention.ms": "1234", "segment.ms": "60000"}


def test_a_dry_run_changes_nothing_and_still_checks(moldau: Moldau, admin: AdminClient, name: str) -> None:
    create_topic(admin, name)
    assert "would have set" in moldau("config", "set", "topic", name, "retention.ms=1", "--dry-run").out
    assert settings(moldau, "topic", name) == {}
    assert moldau("config", "set", "topic", name, "retention.ms=soon", "--dry-run").code == 1


def test_brokers_one_and_all(moldau: Moldau, admin: AdminClient) -> None:
    broker = broker_id(admin)
    assert moldau("config", "set", "broker", broker, "log.cleaner.threads=2").code == 0
    wait_until(lambda: settings(moldau, "broker", broker).get("log.cleaner.threads") == "2", "set on the broker")
    assert moldau("config", "unset", "broker", broker, "log.cleaner.threads").code == 0
    assert moldau("config", "set", "brokers", "log.retention.ms=987654321").code == 0
    wait_until(lambda: settings(moldau, "brokers").get("log.retention.ms") == "987654321", "set on all")
    assert moldau("config", "unset", "brokers", "log.retention.ms").code == 0
    wait_until(lambda: "log.retention.ms" not in settings(moldau, "brokers"), "unset on all")


def test_groups_loggers_and_client_metrics(moldau: Moldau, admin: AdminClient, name: str) -> None:
    assert moldau("config", "set", "group", name, "consumer.session.timeout.ms=50000").code == 0
    wait_until(lambda: settings(moldau, "group", name) == {"consumer.session.timeout.ms": "50000"}, "set on the group")
    assert name in moldau("config", "get", "group").out
    assert moldau("config", "unset", "group", name, "consumer.session.timeout.ms").code == 0
    broker = broker_id(admin)
    levels = settings(moldau, "logger", broker)
    root = next(key for key in levels if key.lower() == "root")
    assert moldau("config", "set", "logger", broker, f"{root}={levels[root]}").code == 0
    assert moldau("config", "set", "client-metrics", name, "interval.ms=60000").code == 0
    wait_until(lambda: settings(moldau, "client-metrics", name) == {"interval.ms": "60000"}, "set on the metrics")
    assert moldau("config", "unset", "client-metrics", name, "interval.ms").code == 0


def test_what_cannot_be_set(moldau: Moldau, admin: AdminClient, name: str, tmp_path: Path) -> None:
    create_topic(admin, name)
    refused = moldau("config", "set", "topic", name, "retention.mss=1")
    assert refused.code == 1 and "retention.mss" in refused.complaint
    assert moldau("config", "set", "topic", name, "retention.ms").code == 2
    assert moldau("config", "set", "topic", name).code == 2
    assert moldau("config", "set").code == 2
    assert moldau("config", "set", "topik", name, "a=b").code == 2
    assert moldau("config", "unset", "topic", name).code == 2
    refused = moldau("config", "unset", "topic", name, "retention.mss")
    assert refused.code == 4 and "did you mean 'retention.ms'?" in refused.complaint
    refused = moldau("config", "get", "broker", "99")
    assert refused.code == 4 and "there is no broker '99'" in refused.complaint
    assert moldau("config", "set", "topic", f"{name}x", "retention.ms=1").code == 4
    file = tmp_path / "config.json"
    for content, said in [
        ("{", "is not JSON"),
        ("[]", "empty list"),
        ('[{"type": "topic"}]', "'name' is missing"),
        ('[{"type": "tropic", "name": "x"}]', "'tropic' is no type"),
        ('[{"type": "topic", "name": "x", "confg": {}}]', "did you mean 'config'?"),
        (json.dumps([{"type": "topic", "name": name, "config": {"retention.ms": [1]}}]), "must be a text"),
    ]:
        file.write_text(content)
        refused = moldau("config", "set", "--from-file", file)
        assert refused.code == 2 and said in refused.complaint
