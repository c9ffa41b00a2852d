"""Where Moldau answers otherwise than Apache Kafka 4.3 on purpose, each with its reason. Keep it short."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.conformance.recording import Difference


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """`*` in a pattern stands for anything."""

    scenario: str
    step: str
    path: str
    reason: str

    def covers(self, scenario: str, difference: Difference) -> bool:
        pairs = ((self.scenario, scenario), (self.step, difference.step), (self.path, difference.path))
        return all(_matches(pattern, text) for pattern, text in pairs)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


KNOWN_DIFFERENCES: Final[tuple[KnownDifference, ...]] = ()


def unexplained(scenario: str, differences: Sequence[Difference]) -> list[Difference]:
    return [d for d in differences if not any(known.covers(scenario, d) for known in KNOWN_DIFFERENCES)]
