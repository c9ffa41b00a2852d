"""The same commands against Apache Kafka, with and without a login."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.traffic import commit, open_transaction, produce
from tests.peers.apache_kafka import ApacheKafka
from tests.support.admin import admin_client, create_topic
from tests.support.command import Ran, run
from tests.support.process import free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("apache-commands")]

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}"{};'


class WithLogin(ApacheKafka):
    """Beside its open listener one that asks for a user and a password."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, port=free_port())
        self.guarded = f"127.0.0.1:{free_port()}"
        listeners = f"PLAINTEXT://127.0.0.1:{self._port},SASL://{self.guarded}"
        self.settings |= {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": LOGIN.format("admin", "admin", ' user_me="secret"'),
        }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WithLogin]:
    process = WithLogin(tmp_path_factory.mktemp("apache"))
    with process:
        yield process


def test_topics_groups_settings_and_transactions(kafka: WithLogin) -> None:
    def moldau(*arguments: object, stdin: str = "") -> Ran:
        return run(*arguments, stdin=stdin, environment={"MOLDAU_BOOTSTRAP_SERVERS": kafka.address})

    assert moldau("topic", "create", "orders", "--partitions", 2, "--set", "retention.ms=60000").code == 0
    wait_until(lambda: ["orders", "2", "1"] in moldau("topic", "list").rows, "the topic is listed")
    produce(kafka.address, "orders", ["a", "b", "c"])
    commit(kafka.address, "billing", {("orders", 0): 1})
    printed = moldau("topic", "describe", "orders", "-o", "json")
    copy = printed.out.replace('"orders"', '"copy"')
    assert moldau("topic", "create", "--from-file", "-", stdin=copy).code == 0
    (described,) = printed.document
    assert described["layout"][0]["end_offset"] == 3 and described["config"] == {"retention.ms": "60000"}

    (group,) = moldau("group", "describe", "billing", "-o", "json").document
    assert (group["state"], group["total_lag"]) == ("Empty", 2)
    assert moldau("group", "reset", "billing", "--to-latest", "--execute").code == 0
    back = moldau("group", "reset", "billing", "--from-file", "-", "--execute", "-o", "json", stdin=json.dumps(group))
    assert back.document[0]["offsets"][0]["offset"] == 1
    assert moldau("group", "delete", "billing", "--topic", "orders", "--yes").code == 0

    assert moldau("topic", "truncate", "orders", "--yes").err == "3 offsets were deleted\n"
    assert moldau("config", "set", "topic", "orders", "cleanup.policy=compact").code == 0
    wait_until(lambda: "compact" in moldau("config", "get", "topic", "orders").out, "the setting is shown")
    assert moldau("config", "get", "brokers").code == 0
    assert moldau("config", "get", "logger", "1").code == 0
    assert moldau("cluster", "health").out.startswith("healthy: 1 broker,")
    assert moldau("cluster", "describe", "-o", "json").document["features"]["metadata.version"] >= 1

    with open_transaction(kafka.address, "transfer", "orders", ["x"]):
        (found,) = moldau("txn", "describe", "transfer", "-o", "json").document
        assert (found["state"], found["partitions"]) == ("Ongoing", [["orders", 0]])
        assert moldau("txn", "list", "--hanging", "--older-than", "0s").err == "no transaction hangs\n"
        assert moldau("txn", "abort", "transfer", "--yes").code == 0
    assert moldau("topic", "delete", "orders", "copy", "--yes").code == 0


def test_a_profile_with_a_login(kafka: WithLogin, tmp_path: Path) -> None:
    def moldau(*arguments: object) -> Ran:
        return run(*arguments, environment={"MOLDAU_CONFIG": str(tmp_path / "profiles.toml")})

    create_topic(admin_client(kafka.address), "guarded")
    common = (f"bootstrap.servers={kafka.guarded}", "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN")
    for profile, password in (("right", "secret"), ("wrong", "guess")):
        login = LOGIN.format("me", password, "")
        assert moldau("profile", "set", profile, *common, f"sasl.jaas.config={login}").code == 0
    assert moldau("topic", "describe", "guarded", "-p", "right").code == 0
    assert moldau("txn", "list", "-p", "right").code == 0
    for command in (["topic", "list"], ["txn", "list"]):
        refused = moldau(*command, "-p", "wrong")
        assert refused.code == 3
        assert "authentication" in refused.complaint.lower()
