"""Where our tools print otherwise than Apache Kafka's, each with its reason. Keep it short."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    scenario: str
    command: str
    """A pattern for the command."""
    field: str
    reason: str


DIFFERENCES = (
    Difference("cluster", "kafka-features describe", "stdout", "brokers have different features"),
    Difference(
        "cluster", "kafka-metadata-quorum describe --status", "stdout", "controllers listen under different names"
    ),
    Difference(
        "measuring",
        "kafka-producer-perf-test --topic perf",
        "stderr",
        "of several missing arguments each parser names another one first",
    ),
    Difference(
        "console-refused",
        "kafka-console-producer --topic lines",
        "stderr",
        "Kafka's says only that it could not validate the bootstrap address; ours names the argument that is missing",
    ),
)


def explained(scenario: str, theirs: dict[str, Any], ours: dict[str, Any], field: str) -> bool:
    return any(
        each.scenario == scenario and each.field == field and re.fullmatch(each.command, theirs["command"])
        for each in DIFFERENCES
    )
