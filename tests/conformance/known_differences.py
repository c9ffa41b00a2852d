"""Where Moldau answers otherwise than Apache Kafka 4.3 on purpose, each with its reason. Keep it short."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tests.conformance.messages import announced_apis
from tests.conformance.recording import Difference
from tests.conformance.scenarios.connections import APIS_SERVED


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


# What Apache Kafka serves on its broker listener and Moldau does not yet, by API key.
_NOT_SERVED: Final = tuple(api.key for api in announced_apis().values() if api.name not in APIS_SERVED)

KNOWN_DIFFERENCES: Final[tuple[KnownDifference, ...]] = tuple(
    KnownDifference("*api-versions", "*", f"api_keys[{key}]", "an API is announced when it is served")
    for key in _NOT_SERVED
)


def unexplained(scenario: str, differences: Sequence[Difference]) -> list[Difference]:
    return [d for d in differences if not any(known.covers(scenario, d) for known in KNOWN_DIFFERENCES)]
