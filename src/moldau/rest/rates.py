"""How many permits a second there are: whoever takes more than are left waits, or is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from moldau.config.definition import ConfigError

BURST_SECONDS: Final = 1.0


class Rate:
    """Permits come in evenly; a second's worth is kept."""

    def __init__(self, per_second: float, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._monotonic = monotonic
        self._left = per_second * BURST_SECONDS
        self._at = monotonic()

    def take(self, permits: float, patience_seconds: float = 0.0) -> float | None:
        """How long to wait before going on; None: too long, and nothing is taken. What costs nothing is always let
        through, whatever others owe."""
        if not permits:
            return 0.0
        now = self._monotonic()
        self._left = min(self._per_second * BURST_SECONDS, self._left + (now - self._at) * self._per_second)
        self._at = now
        # What is larger than a second's worth has to be let through once: it never will be there as a whole.
        missing = min(permits, self._per_second * BURST_SECONDS) - self._left
        wait = max(0.0, missing / self._per_second)
        if wait > patience_seconds:
            return None
        self._left -= permits
        return wait


def read_costs(entries: Sequence[str]) -> list[tuple[str, int]]:
    """`api.v3.clusters.*=1`: the most exact one wins."""
    found = []
    for entry in entries:
        name, equals, cost = entry.partition("=")
        if not equals or not cost.strip().isdigit():
            raise ConfigError("rate.limit.costs", entry, 'such as "api.v3.clusters.*=1,api.v3.brokers.list=2"')
        found.append((name.strip(), int(cost)))
    return sorted(found, key=lambda each: -len(each[0]))


def cost_of(name: str, costs: Sequence[tuple[str, int]], default: int) -> int:
    return next((cost for pattern, cost in costs if fnmatchcase(name, pattern)), default)
