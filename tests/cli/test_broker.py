"""`moldau broker start --port --data`, `broker status` and `broker stop` with real processes.

Other brokers may run on this machine: everything here is asked of the one with a data folder of the test's own.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import run
from tests.support.waiting import wait_until


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        "moldau",
        "broker",
        "start",
        "--port",
        "0",
        "--data",
        str(data),
        "--log-folder",
        str(data.parent / "logs"),
    ]
    with (tmp_path / "output").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        wait_until(lambda: bool(ours(data) and ours(data)[0]["ports"]), "the broker listens")
        yield process
        if process.poll() is None:
            process.terminate()


def ours(data: Path) -> list[dict[str, Any]]:
    shown = run("broker", "status", "-o", "json")
    return [row for row in shown.document if str(data) in row["data"]] if shown.code == 0 else []


def test_a_broker_is_seen_and_stopped(broker: subprocess.Popen[bytes], data: Path) -> None:
    (seen,) = ours(data)
    assert (seen["pid"], seen["node_id"]) == (broker.pid, 1)
    (port,) = seen["ports"]
    assert run("cluster", "health", "-b", f"localhost:{port}").code == 0
    assert str(data) in run("broker", "status").out
    refused = run("broker", "stop", "--data", data, "--node-id", 77)
    assert refused.code == 4 and "no such broker runs here" in refused.complaint and str(data) in refused.complaint
    done = run("broker", "stop", "--data", data)
    assert (done.code, done.out) == (
        0,
        f"stopped broker 1 on port {port}, pid {broker.pid}, data in {data}\n",
    )
    assert broker.wait(0) == 0
    assert ours(data) == []
    assert "stopped" in (data.parent / "logs" / "server.log").read_text()
    told = (data.parent / "output").read_text()
    assert "INFO" not in told
    assert re.search(
        rf"^moldau broker 1 ready at PLAINTEXT://localhost:{port} in [\d.]+ s, data in {data}$", told, re.MULTILINE
    )


def test_a_broker_that_does_not_end_in_time_is_told(broker: subprocess.Popen[bytes], data: Path) -> None:
    broker.send_signal(signal.SIGSTOP)
    refused = run("broker", "stop", "--data", data, "--timeout", "0s")
    assert refused.code == 1 and "still runs" in refused.complaint
    broker.send_signal(signal.SIGCONT)
    assert broker.wait(60) == 0


def test_shortcuts_do_not_contradict_settings(data: Path) -> None:
    refused = run("broker", "start", "--port", 9999, "--set", "listeners=PLAINTEXT://localhost:9998")
    assert (refused.code, refused.err) == (2, "--port and --set listeners= say the same: leave one out\n")
    refused = run("broker", "start", "--data", data, "--set", "log.dir=/elsewhere")
    assert (refused.code, refused.err) == (2, "--data and --set log.dir= say the same: leave one out\n")
    refused = run("broker", "start", "--port", 70000)
    assert refused.code == 2 and "--port 70000" in refused.err


@pytest.mark.parametrize(
    "setting", ["ssl.engine.factory.class=com.example.Factory", "principal.builder.class=com.example.Builder"]
)
def test_a_broker_without_the_protection_that_is_asked_for_does_not_start(data: Path, setting: str) -> None:
    name, _, value = setting.partition("=")
    refused = run("broker", "start", "--port", 0, "--data", data, "--set", setting)
    told = f"Invalid value {value} for configuration {name}: not supported yet"
    assert (refused.code, refused.out) == (2, "") and refused.err.startswith(told)
    assert not data.exists()
