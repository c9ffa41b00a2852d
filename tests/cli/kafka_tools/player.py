"""Plays a scenario with Apache Kafka's tools or with ours."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from moldau.cli.kafka.catalogue import TOOLS
from moldau.cli.kafka.entry import run
from tests.cli.kafka_tools.normalise import normalised
from tests.cli.kafka_tools.scenario import Place, Scenario, Step
from tests.support.process import BrokerProcess

SECONDS = 120.0
# kafka-dump-log reads files, and the rest take the cluster otherwise.
WITHOUT_SERVERS = ("kafka-dump-log", "kafka-server-start", "kafka-server-stop", "kafka-run-class")
# These set handlers for signals, which a test's process keeps for itself.
IN_A_PROCESS = ("kafka-verifiable-producer", "kafka-verifiable-consumer")

SETTINGS = {"node.id": 1, "group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 4}


class Printed(NamedTuple):
    code: int
    out: str
    err: str


Tool = Callable[[str, list[str], str, Path], Printed]


def our_tool(name: str, arguments: list[str], stdin: str, folder: Path) -> Printed:
    """In this process, which spares the start of another."""
    if name in IN_A_PROCESS:
        return in_a_process([sys.executable, "-m", "moldau.cli.kafka.entry", name, *arguments], stdin, folder)
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")),
        mock.patch.dict(os.environ, {"MOLDAU_CONFIG": str(folder / "profiles.toml")}),
    ):
        code = run(name, arguments)
        out.flush()
    printed = out.buffer
    assert isinstance(printed, io.BytesIO)
    return Printed(code, printed.getvalue().decode(), err.getvalue())


def kafkas_tool(name: str, arguments: list[str], stdin: str, folder: Path) -> Printed:
    from tests.peers.apache_kafka import tool_command

    return in_a_process(tool_command(TOOLS[name].java_class, arguments), stdin, folder)


def in_a_process(command: list[str], stdin: str, folder: Path) -> Printed:
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder
    )
    return Printed(done.returncode, done.stdout, done.stderr)


def play(scenario: Scenario, broker: BrokerProcess, files: Path, tool: Tool) -> list[dict[str, Any]]:
    return play_at(scenario, Place(broker.address, broker.data, files), tool)


def play_at(scenario: Scenario, place: Place, tool: Tool) -> list[dict[str, Any]]:
    place.files.mkdir(parents=True, exist_ok=True)
    for name, text in scenario.files.items():
        (place.files / name).write_text(text)
    with scenario.held(place) if scenario.held else nullcontext():
        return [take(step, place, tool) for step in scenario.steps]


def take(step: Step, place: Place, tool: Tool) -> dict[str, Any]:
    filled = step.arguments.replace("{servers}", place.address)
    filled = filled.replace("{data}", str(place.data)).replace("{files}", str(place.files))
    arguments = shlex.split(filled)
    if step.servers and step.tool not in WITHOUT_SERVERS:
        arguments = ["--bootstrap-server", place.address, *arguments]
    printed = tool(step.tool, arguments, step.stdin, place.files)
    return normalised(step, place, *printed)
