"""The commands of `docs/howto/cluster.md` run as they are printed, on a cluster that the first of them starts; and
those of its table.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster, free_ports, start_of
from moldau.cli.output import FAILED, INTERRUPTED
from tests.cli.test_howto import DOCS, outcome, steps
from tests.support.command import run

WRITTEN_PORTS = ("localhost:9092", "localhost:9095")
FOLDER = "moldau-cluster"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the commands are typed: they share one cluster."""

    folder: Path
    port: int
    environment: Mapping[str, str]

    def typed(self, command: str) -> str:
        meant = command.replace("cluster up --brokers 3", f"cluster up --brokers 3 --port {self.port}")
        for address in WRITTEN_PORTS:
            meant = meant.replace(address, f"127.0.0.1:{self.port + int(address[-1]) - 2}")
        return outcome(meant, dict(self.environment))

    def status(self) -> Mapping[str, Mapping[str, object]]:
        told: Sequence[Mapping[str, object]] = json.loads(self.typed("moldau cluster status -o json"))
        return {str(each["member"]): each for each in told}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("howto")
    (port,) = free_ports(1)
    environment = {
        "MOLDAU_BOOTSTRAP_SERVERS": f"127.0.0.1:{port}",
        "MOLDAU_CONFIG": str(folder / "profiles.toml"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    try:
        yield Place(folder, port, environment)
    finally:
        if (folder / FOLDER).exists():
            LocalCluster.open(folder / FOLDER).kill_all()


@pytest.mark.timeout(300)
def test_the_page_about_clusters_is_true(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    ran = [(command, place.typed(command)) for command, _ in steps(DOCS / "howto" / "cluster.md")]
    printed = dict(ran)
    described = [text for command, text in ran if "--describe --topic greetings" in command]
    assert "Isr: " in described[0] and len(described) == 3
    assert any("2" not in line.partition("Isr: ")[2].partition("\t")[0] for line in described[1].splitlines()[1:])
    assert any(text.startswith("Status of partition reassignment:") for text in printed.values())
    assert '"brokerid"' in printed["zookeeper-shell localhost:9095 get /controller"]


@pytest.mark.timeout(300)
def test_status_kill_and_down_do_what_the_table_says(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    place.typed("moldau cluster up --brokers 3")
    brokers = ["broker 1", "broker 2", "broker 3"]
    told = place.status()
    assert sorted(told) == [*brokers, "zookeeper 1"]
    assert all(each["state"] == "runs" and start_of(int(str(each["pid"]))) for each in told.values())
    assert [told[name]["controller"] for name in brokers].count(True) == 1
    assert all(isinstance(told[name]["leads"], int) for name in brokers)
    watched(place)

    place.typed("moldau cluster kill 1 --zookeeper")
    told = place.status()
    assert (told["zookeeper 1"]["state"], told["zookeeper 1"]["pid"]) == ("stopped", None)
    assert all(told[name]["state"] == "runs" for name in brokers)
    place.typed("moldau cluster restart 1 --zookeeper")

    pids = [int(str(each["pid"])) for each in place.status().values()]
    place.typed("moldau cluster down")
    assert not any(start_of(pid) for pid in pids)
    told = place.status()
    assert all((each["state"], each["pid"], each["leads"]) == ("stopped", None, None) for each in told.values())
    place.typed("moldau cluster down --delete")
    assert not (place.folder / FOLDER).exists()
    gone = run("cluster", "status", environment=dict(place.environment))
    assert gone.code == FAILED and "moldau cluster up" in gone.err


def watched(place: Place) -> None:
    """Tables come, one after the other, until Ctrl-C; into a pipe too, and not when a block of it is full."""
    command = [sys.executable, "-m", "moldau", "cluster", "status", "--watch"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, cwd=place.folder, stdout=subprocess.PIPE, env=buffered) as watching:
        assert watching.stdout is not None
        for _ in range(2):
            read = os.read(watching.stdout.fileno(), 2 * io.DEFAULT_BUFFER_SIZE)
            assert read.startswith(b"MEMBER") and len(read) < io.DEFAULT_BUFFER_SIZE
        watching.send_signal(signal.SIGINT)
        watching.stdout.read()
    assert watching.returncode == INTERRUPTED
