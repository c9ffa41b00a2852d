"""zookeeper-server-start, zookeeper-server-stop, zookeeper-shell and `moldau zookeeper`, with a real server."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.broker import local_brokers
from moldau.cli.kafka.entry import run
from moldau.cli.zookeeper import process as zookeeper_process
from moldau.cli.zookeeper.process import MAIN_CLASS, mode_of
from tests.support.command import run as run_moldau
from tests.support.process import die_with_parent, free_port
from tests.support.waiting import wait_until

START_SECONDS = 120.0

pytestmark = pytest.mark.xdist_group("zookeeper-tools")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Port and process of a server that was started as the books print it."""
    folder = tmp_path_factory.mktemp("zookeeper")
    port = free_port()
    (folder / "config").mkdir()
    (folder / "config" / "zookeeper.properties").write_text(
        f"# the directory where the snapshot is stored.\ndataDir={folder}/data\nclientPort={port}\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n"
    )
    start = "import sys; from moldau.cli.kafka.entry import run; sys.exit(run(sys.argv[1], sys.argv[2:]))"
    with subprocess.Popen(
        [sys.executable, "-c", start, "zookeeper-server-start.sh", "config/zookeeper.properties"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
    ) as process:
        try:
            wait_until(lambda: mode_of("127.0.0.1", port) is not None, "ZooKeeper", START_SECONDS)
            yield port, process.pid
        finally:
            process.terminate()


def shell(capsys: pytest.CaptureFixture[str], port: int, *words: str, chroot: str = "") -> tuple[int, list[str], str]:
    code = run("zookeeper-shell.sh", [f"localhost:{port}{chroot}", *words])
    printed = capsys.readouterr()
    first, *lines = printed.out.splitlines()
    assert first == f"Connecting to localhost:{port}{chroot}"
    return code, lines, printed.err


def test_the_shell_as_the_books_use_it(server: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    port, _ = server
    assert shell(capsys, port, "create", "/brokers", "x") == (0, ["Created /brokers"], "")
    assert shell(capsys, port, "create", "/brokers/topics") == (0, ["Created /brokers/topics"], "")
    for topic in ("helloworld", "__consumer_offsets"):
        shell(capsys, port, "create", f"/brokers/topics/{topic}", "{}")
    assert shell(capsys, port, "ls", "/brokers/topics") == (0, ["[__consumer_offsets, helloworld]"], "")
    assert shell(capsys, port, "ls", "-R", "/topics", chroot="/brokers")[1] == [
        "/topics", "/topics/__consumer_offsets", "/topics/helloworld",
    ]  # fmt: skip
    assert shell(capsys, port, "get", "/brokers/topics/helloworld") == (0, ["{}"], "")
    assert shell(capsys, port, "get", "/brokers/topics")[1] == ["null"]
    assert shell(capsys, port, "set", "-v", "0", "/brokers", "y") == (0, [], "")
    assert shell(capsys, port, "set", "-v", "0", "/brokers", "z") == (1, [], "version No is not valid : /brokers\n")
    stat = shell(capsys, port, "stat", "/brokers")[1]
    assert {"dataVersion = 1", "cversion = 1", "ephemeralOwner = 0x0", "dataLength = 1", "numChildren = 1"} <= set(stat)
    assert shell(capsys, port, "delete", "/brokers") == (1, [], "Node not empty: /brokers\n")
    assert shell(capsys, port, "deleteall", "/brokers") == (0, [], "")
    assert shell(capsys, port, "get", "/brokers") == (1, [], "Node does not exist: /brokers\n")
    assert shell(capsys, port, "create", "-s", "/n")[1][0].startswith("Created /n00000")


def test_the_shell_reads_lines(
    server: tuple[int, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, _ = server
    lines = "create /lines 'two words'\nget /lines\nnonsense\nls lines\nls\n\"\ndelete /lines\nquit\nget /zookeeper\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    code, out, err = shell(capsys, port)
    assert (code, out) == (0, ["Created /lines", "two words"])
    assert err.splitlines() == [
        "Command not found: Command not found nonsense",
        "Path must start with / character: lines",
        "ls [-s] [-R] path",
        "No closing quotation",
    ]


def test_the_shell_without_a_server(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.cli.kafka.zookeeper_shell.ANSWER_SECONDS", 0.5)
    port = free_port()
    code, _, err = shell(capsys, port, "ls", "/")
    assert (code, err) == (1, f"ZooKeeper did not answer within 0.5 s at localhost:{port}\n")
    assert run("zookeeper-shell", []) == 1
    assert capsys.readouterr().err.startswith("USAGE: zookeeper-shell")


def test_status(server: tuple[int, int]) -> None:
    port, _ = server
    nobody = free_port()
    asked = run_moldau("zookeeper", "status", f"127.0.0.1:{port},127.0.0.1:{nobody}")
    assert asked.code == 0
    assert [line.split() for line in asked.out.splitlines()[1:]] == [
        [f"127.0.0.1:{port}", "standalone"], [f"127.0.0.1:{nobody}", "not", "serving"],
    ]  # fmt: skip
    assert run_moldau("zookeeper", "status", f"127.0.0.1:{nobody}").code == 3
    assert run_moldau("zookeeper", "status", "h:x").code == 2


def test_what_is_missing_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = "zookeeper-server-start"
    assert run(start, [str(tmp_path / "none.properties")]) == 1
    assert "no such file" in capsys.readouterr().err
    file = tmp_path / "zookeeper.properties"
    file.write_text("clientPort=2181\n")
    assert run(start, [str(file)]) == 1
    assert "dataDir is not set" in capsys.readouterr().err
    file.write_text(f"dataDir={tmp_path}/data\nserver.1=a:2888:3888\nserver.2=b:2888:3888\n")
    assert run(start, [str(file)]) == 1
    assert "myid is missing" in capsys.readouterr().err
    file.write_text(f"dataDir={tmp_path}/data\n")
    with monkeypatch.context() as without_java:
        without_java.setattr("moldau.spark.java._candidates", lambda environment: iter(()))
        assert run(start, [str(file)]) == 1
        assert capsys.readouterr().err.startswith("ZooKeeper needs Java 17 or newer")
    with monkeypatch.context() as without_pyspark:
        without_pyspark.setitem(sys.modules, "pyspark", None)
        assert run(start, [str(file)]) == 1
        assert "pip install 'moldau[spark]'" in capsys.readouterr().err
    assert run_moldau("zookeeper", "start", "--data", tmp_path, "--server", "1=a:1:2").code == 2
    assert run_moldau("zookeeper", "start", "--data", tmp_path, "--id", "1", "--server", "a:1:2").code == 2


def test_settings_of_a_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, command: started.append(command))
    servers = ["--server", "1=a:2888:3888", "--server", "2=b:2888:3888", "--server", "3=c:2888:3888"]
    run_moldau("zookeeper", "start", "--data", tmp_path, "--port", "2182", "--id", "2", *servers)
    assert (tmp_path / "myid").read_text() == "2\n"
    ((*_, main_class, file),) = started
    settings = dict(line.split("=", 1) for line in Path(file).read_text().splitlines())
    assert main_class == MAIN_CLASS
    assert settings.items() >= {"clientPort": "2182", "server.3": "c:2888:3888", "tickTime": "500"}.items()
    assert settings.items() >= {"dataDir": str(tmp_path)}.items()


def test_stop(server: tuple[int, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Last in this file: it stops the server of the others. Servers of other tests are left alone."""
    port, pid = server
    found = list(local_brokers.own_processes())
    assert pid in [number for number, command in found if zookeeper_process.MAIN_CLASS in command]
    monkeypatch.setattr(local_brokers, "own_processes", lambda: (each for each in found if each[0] == pid))
    assert run("zookeeper-server-stop.sh", []) == 0
    wait_until(lambda: mode_of("127.0.0.1", port) is None, "the end of ZooKeeper", START_SECONDS)
    monkeypatch.setattr(local_brokers, "own_processes", lambda: iter(()))
    assert run("zookeeper-server-stop", []) == 1
    assert capsys.readouterr().out == "No zookeeper server to stop\n"
