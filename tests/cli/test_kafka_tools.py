"""The `kafka-*` tools print what Apache Kafka's own printed for the same state, and end with the same exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kafka_tools.differences import explained
from tests.cli.kafka_tools.player import SETTINGS, Tool, kafkas_tool, our_tool, play
from tests.cli.kafka_tools.record import RECORDED
from tests.cli.kafka_tools.scenario import Scenario, all_scenarios
from tests.peers.apache_kafka import ApacheKafka
from tests.support.broker import Broker
from tests.support.process import BrokerProcess

ALL = [pytest.param(each, id=each.name) for each in all_scenarios() if each.brokers == 1]


@pytest.mark.parametrize("scenario", ALL)
def test_tools_print_what_apache_kafkas_print(scenario: Scenario, tmp_path: Path) -> None:
    assert_as_recorded(scenario, tmp_path, our_tool)


@pytest.mark.live
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", ALL)
def test_apache_kafkas_tools_print_the_same_on_our_broker(scenario: Scenario, tmp_path: Path) -> None:
    assert_as_recorded(scenario, tmp_path, kafkas_tool)


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [Broker, ApacheKafka], ids=["moldau", "apache"])
def test_both_print_the_same_of_a_broker(kind: Callable[[Path], BrokerProcess], tmp_path: Path) -> None:
    """Not recorded: brokers serve different APIs and features, and their quorums listen elsewhere."""
    commands = (
        ("kafka-broker-api-versions",),
        ("kafka-features", "describe"),
        ("kafka-metadata-quorum", "describe", "--status"),
    )
    with kind(tmp_path / "broker") as broker:
        for tool, *arguments in commands:
            asked = (tool, ["--bootstrap-server", broker.address, *arguments], "", tmp_path)
            ours, theirs = (
                (printed.code, printed.out.splitlines()) for printed in (our_tool(*asked), kafkas_tool(*asked))
            )
            assert without_movement(ours) == without_movement(theirs)


def without_movement(printed: tuple[int, list[str]]) -> tuple[int, list[str]]:
    """The metadata's log grows while nobody does anything."""
    code, lines = printed
    return code, [re.sub(r"(HighWatermark: +|Epoch: )\d+$", r"\1{n}", line) for line in lines]


def assert_as_recorded(scenario: Scenario, folder: Path, tool: Tool) -> None:
    with Broker(folder / "broker", {**SETTINGS, **scenario.settings}) as broker:
        assert_equal(scenario, play(scenario, broker, folder / "files", tool))


def assert_equal(scenario: Scenario, printed: list[dict[str, Any]]) -> None:
    expected = json.loads((RECORDED / f"{scenario.name}.json").read_text())
    differences = [
        {"command": theirs["command"], "field": field, "Apache Kafka": theirs[field], "here": ours[field]}
        for theirs, ours in zip(expected, printed, strict=True)
        for field in ("command", "exit", "stdout", "stderr")
        if theirs[field] != ours[field] and not explained(scenario.name, theirs, ours, field)
    ]
    assert not differences, json.dumps(differences, indent=1, ensure_ascii=False)


def test_every_recording_belongs_to_a_scenario() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == {scenario.name for scenario in all_scenarios()}
