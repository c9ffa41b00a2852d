"""`--zookeeper host:port/chroot` of the books, through a real ZooKeeper where brokers are registered as Kafka did."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kafka_tools.player import our_tool
from tests.cli.test_acls import OPERATIONS, RULES, SETTINGS, TOPIC, USERS
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.zookeeper import connected, zookeeper

CHROOTS = {"none": "", "kafka": "/kafka"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def register(server: str, path: str, broker: str) -> None:
    """As Kafka 1.0 to 3.9 did: one entry for each broker, here with a listener before the plain one."""
    host, _, port = broker.rpartition(":")
    entry = {
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL"},
        "endpoints": ["SSL://127.0.0.1:1", f"PLAINTEXT://{broker}"],
        "jmx_port": -1,
        "features": {},
        "host": host,
        "timestamp": "1700000000000",
        "port": int(port),
        "version": 5,
    }
    with connected(server) as client:
        client.create(f"{path}/brokers/ids/0", json.dumps(entry).encode(), ephemeral=False, makepath=True)


@pytest.mark.parametrize("chroot", CHROOTS.values(), ids=CHROOTS)
def test_topics_of_the_brokers_that_are_registered(
    server: str, address: str, name: str, chroot: str, tmp_path: Path
) -> None:
    register(server, chroot, address)
    where = ["--zookeeper", server + chroot]
    created = our_tool("kafka-topics", ["--create", *where, "--topic", name, "--partitions", "2"], "", tmp_path)
    assert (created.code, created.err) == (0, "")
    listed = our_tool("kafka-topics", ["--list", *where], "", tmp_path)
    assert name in listed.out.splitlines()
    assert (listed.code, listed.err) == (0, "")


def test_records_of_the_brokers_that_are_registered(server: str, address: str, name: str, tmp_path: Path) -> None:
    register(server, "/records", address)
    produced = our_tool(
        "kafka-console-producer", ["--bootstrap-server", address, "--topic", name], "one\ntwo\n", tmp_path
    )
    assert produced.code == 0
    asked = ["--zookeeper", f"{server}/records", "--topic", name, "--from-beginning", "--max-messages", "2"]
    consumed = our_tool("kafka-console-consumer", asked, "", tmp_path)
    assert consumed.out.splitlines() == ["one", "two"]


def test_a_zookeeper_without_brokers(
    server: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVERS", address)
    with connected(server) as client:
        client.create("/empty", makepath=True)
    for path, problem in (("/empty", "no broker is registered in it"), ("/missing", "No chroot path exists")):
        listed = our_tool("kafka-topics", ["--list", "--zookeeper", server + path], "", tmp_path)
        assert listed.code == 0
        assert f"going to {address}" in listed.err
        assert problem in listed.err


def test_a_zookeeper_that_is_not_there(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_BOOTSTRAP_SERVERS", address)
    listed = our_tool("kafka-topics", ["--list", "--zookeeper", f"127.0.0.1:{free_port()}"], "", tmp_path)
    assert listed.code == 0
    assert f"going to {address}" in listed.err
    assert "Traceback" not in listed.err


def test_access_rules_as_the_book_prints_it(server: str, tmp_path: Path) -> None:
    """SX-20: the ZooKeeper among the properties of the authorizer leads to the brokers."""
    with Broker(tmp_path / "broker", SETTINGS) as broker:
        register(server, "/rules", broker.address)
        where = ["--authorizer-properties", f"zookeeper.connect={server}/rules"]
        added = our_tool(
            "kafka-acls", [*where, "--add", *USERS, *OPERATIONS, "--topic", "clueful_secrets"], "", tmp_path
        )
        assert (added.code, added.err) == (0, "")
        listed = our_tool("kafka-acls", ["--bootstrap-server", broker.address, "--list"], "", tmp_path)
        assert sorted(listed.out.splitlines()) == sorted(
            [f"Current ACLs for resource {TOPIC}:", *RULES.splitlines(), ""]
        )
        removed = [*where, "--remove", "--force", *USERS, *OPERATIONS, "--topic", "clueful_secrets"]
        assert our_tool("kafka-acls", removed, "", tmp_path).code == 0
        assert our_tool("kafka-acls", [*where, "--list"], "", tmp_path).out == ""
