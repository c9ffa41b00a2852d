"""Recorded answers and those of a cluster, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from tests.conformance import recording
from tests.conformance.recording import Answers

RECORDED: Final = recording.RECORDED / "three"


def recorded_versions(name: str) -> set[int]:
    steps = json.loads((RECORDED / f"{name}.json").read_text())["steps"]
    return {version for groups in steps.values() for group in groups for version in group["versions"]}


def differences(name: str, answers: Mapping[int, Answers]) -> list[str]:
    """Each once, with the versions that show it."""
    found: dict[str, list[int]] = {}
    for version in sorted(recorded_versions(name) | set(answers)):
        expected = recording.load(RECORDED, name, version)
        for difference in recording.compare(expected, answers.get(version, {})):
            found.setdefault(str(difference), []).append(version)
    return [f"v{','.join(map(str, versions))} · {text}" for text, versions in found.items()]
