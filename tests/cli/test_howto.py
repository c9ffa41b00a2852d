"""The commands of these pages run as they are printed, in their order, and print what the pages show."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.command import run
from tests.support.process import free_port
from tests.support.raw import answers
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
WRITTEN_ADDRESS = "localhost:9092"
# Ids are random, and time passes; the page shows dots.
RANDOM_ID = re.compile(r"(?<=id )(?:\S{22}|\.+)|^(?:\d\d:\d\d:\d\d|\.{8})", re.MULTILINE)
# It would write into the shell's own files; these would run on.
NOT_RUN = ("moldau --install-completion", "moldau broker")


def steps(page: Path, but: tuple[str, ...] = NOT_RUN) -> Iterator[tuple[str, str]]:
    """Each command with what the page says it prints."""
    for block in BLOCK.findall(page.read_text().replace("\\\n", "")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            if not command.startswith(but):
                yield command, shown


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with Broker(tmp_path / "broker") as broker:
        yield {
            "MOLDAU_BOOTSTRAP_SERVERS": broker.address,
            "MOLDAU_CONFIG": str(tmp_path / "profiles.toml"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }


@pytest.mark.parametrize(
    ("page", "before"),
    [
        ("howto/command-line.md", None),
        ("howto/configure.md", "moldau topic create orders"),
        ("howto/operations.md", None),
        ("guarantees.md", "moldau topic create orders"),
    ],
)
def test_the_page_is_true(
    page: str, before: str | None, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if before is not None:
        outcome(before, environment)
    for command, shown in steps(DOCS / page):
        printed = outcome(command.replace(WRITTEN_ADDRESS, environment["MOLDAU_BOOTSTRAP_SERVERS"]), environment)
        if shown:
            assert RANDOM_ID.sub("…", printed) == RANDOM_ID.sub("…", shown), command


def test_tls_in_ten_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SX-02: the page that tells what is encrypted, who logs in and who may do what."""
    monkeypatch.chdir(tmp_path)
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    places = {WRITTEN_ADDRESS: f"localhost:{free_port()}", "localhost:9093": f"localhost:{free_port()}"}
    with ExitStack() as running:
        for command, shown in steps(DOCS / "howto/security.md", but=NOT_RUN[:1]):
            for written, real in places.items():
                command = command.replace(written, real)
            if command.endswith("&"):
                words = shlex.split(command.removesuffix("&"))
                broker = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.DEVNULL)
                running.callback(broker.wait)
                running.callback(broker.kill)
                wait_until(lambda: answers(places[WRITTEN_ADDRESS]), "the broker answers", 120)
            else:
                assert outcome(command, environment) == shown, command
        nameless = ("--bootstrap-server", places["localhost:9093"], "--config", "security.protocol=SSL")
        assert run("topic", "list", *nameless, "--config", "ssl.truststore.location=tls/ca.pem").code != 0


def outcome(command: str, environment: dict[str, str]) -> str:
    """What a command prints; only a line that needs a shell gets one."""
    if not command.startswith("moldau") or "|" in command:
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=60, env=os.environ | environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
    line, _, target = command.partition(" > ")
    ran = run(*shlex.split(line)[1:], environment=environment)
    assert ran.code == 0, (command, ran)
    if target:
        Path(target).write_text(ran.out)
        return ran.err
    return ran.out + ran.err
