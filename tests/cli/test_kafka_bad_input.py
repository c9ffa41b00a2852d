"""What is wrong is said in one line with an exit code, whichever of the `kafka-*` tools is asked; never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kafka_tools.player import Printed, our_tool

ON_A_CLUSTER = {
    "kafka-topics": "--list",
    "kafka-console-producer": "--topic a",
    "kafka-console-consumer": "--topic a",
    "kafka-consumer-groups": "--list",
    "kafka-configs": "--describe --topic a",
    "kafka-leader-election": "--election-type preferred --all-topic-partitions",
    "kafka-delete-records": "--offset-json-file delete.json",
    "kafka-get-offsets": "--topic a",
    "kafka-log-dirs": "--describe",
    "kafka-transactions": "list",
    "kafka-broker-api-versions": "",
    "kafka-producer-perf-test": "--topic a --num-records 1 --record-size 1 --throughput -1",
    "kafka-consumer-perf-test": "--topic a --num-records 1",
    "kafka-e2e-latency": "--topic a --num-records 1 --producer-acks 1 --record-size 1",
    "kafka-verifiable-producer": "--topic a --max-messages 1",
    "kafka-verifiable-consumer": "--topic a --group-id g",
}
TAKE_A_FILE = sorted(set(ON_A_CLUSTER) - {"kafka-delete-records"})


def asked(tool: str, folder: Path, servers: str, *more: str) -> Printed:
    (folder / "delete.json").write_text('{"partitions": []}')
    given = [str(folder / "delete.json") if word == "delete.json" else word for word in ON_A_CLUSTER[tool].split()]
    first = [*more, "--bootstrap-server", servers]
    return our_tool(tool, [*first, *given] if tool == "kafka-transactions" else [*given, *first], "", folder)


@pytest.mark.parametrize("tool", ON_A_CLUSTER)
def test_a_broker_that_is_not_there(tool: str, tmp_path: Path) -> None:
    servers = "127.0.0.1:1"
    printed = asked(tool, tmp_path, servers)
    assert printed.code == 1
    complaint = (printed.err or printed.out).strip().splitlines()[-1]
    assert f"no broker answers at {servers}" in complaint
    assert "Connection refused" in complaint
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("tool", TAKE_A_FILE)
def test_a_properties_file_that_is_not_there(tool: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.properties")
    printed = asked(tool, tmp_path, "127.0.0.1:1", "--command-config", missing)
    assert printed.code == 1
    assert f"cannot read {missing}: No such file or directory" in printed.err + printed.out
    assert "Traceback" not in printed.err


def test_a_properties_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "broken.properties"
    path.write_text("key=\\u12")
    printed = asked("kafka-topics", tmp_path, "127.0.0.1:1", "--command-config", str(path))
    assert printed.code == 1
    assert "is not a properties file" in printed.out


def test_a_trust_store_that_is_none(address: str, tmp_path: Path) -> None:
    path, store = tmp_path / "ssl.properties", tmp_path / "trust.jks"
    store.write_bytes(b"no store")
    path.write_text(f"security.protocol=SSL\nssl.truststore.location={store}\n")
    printed = asked("kafka-console-consumer", tmp_path, address, "--consumer.config", str(path))
    assert printed.code == 1
    assert f"ssl.truststore.location: {store}: neither PEM nor JKS" in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("tool", ON_A_CLUSTER)
def test_a_flag_that_does_not_exist(tool: str, tmp_path: Path) -> None:
    printed = asked(tool, tmp_path, "127.0.0.1:1", "--no-such-flag")
    assert printed.code == 1
    assert "no-such-flag" in printed.err
    assert "Traceback" not in printed.err


def test_a_reader_that_goes_away(address: str) -> None:
    """`kafka-configs … | head -1` ends quietly."""
    command = [sys.executable, "-m", "moldau.cli.kafka.entry", "kafka-configs", "--bootstrap-server", address]
    command += ["--describe", "--entity-type", "brokers", "--all"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()
        process.wait(60)


def test_a_consumer_ended_with_ctrl_c_says_how_much_it_read(address: str, name: str, tmp_path: Path) -> None:
    wrote = our_tool("kafka-console-producer", ["--bootstrap-server", address, "--topic", name], "a line\n", tmp_path)
    assert wrote.code == 0
    command = [sys.executable, "-m", "moldau.cli.kafka.entry", "kafka-console-consumer", "--bootstrap-server", address]
    command += ["--topic", name, "--from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "a line\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "Processed a total of 1 messages\n"


def test_version_names_the_release_that_is_followed() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "moldau.cli.kafka.entry", "kafka-topics.sh", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"MOLDAU_CONFIG": os.devnull + "/none"},
    )
    assert done.stdout.startswith("4.3.0 (Moldau ")
