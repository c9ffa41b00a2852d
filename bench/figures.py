"""What is measured, how repetitions become one figure with its spread, and when a goal is met. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Self


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some repetitions, and the smallest and largest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        return cls(statistics.median(values), min(values), max(values))

    def over(self, other: Spread) -> Spread | None:
        """The ratio of the medians, and the furthest apart that any two repetitions are; None where it has no sense."""
        if min(other.median, other.low, other.high) <= 0:
            return None
        return Spread(self.median / other.median, self.low / other.high, self.high / other.low)


class Bound(Enum):
    AT_LEAST = "≥"
    AT_MOST = "≤"


class Verdict(Enum):
    """Whether a goal is met by the medians; doubtful where some pair of repetitions would say otherwise."""

    MET = "met"
    MET_DOUBTFULLY = "met ~"
    MISSED_DOUBTFULLY = "missed ~"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on Moldau's figure: as a ratio to the peer's, or in the figure's own unit."""

    bound: Bound
    value: float
    is_ratio: bool = True

    def judge(self, seen: Spread) -> Verdict:
        """`seen` is the ratio, or Moldau's own figure if this goal is absolute."""
        worst, best = (seen.low, seen.high) if self.bound is Bound.AT_LEAST else (seen.high, seen.low)
        if self._holds(seen.median):
            return Verdict.MET if self._holds(worst) else Verdict.MET_DOUBTFULLY
        return Verdict.MISSED_DOUBTFULLY if self._holds(best) else Verdict.MISSED

    def _holds(self, value: float) -> bool:
        return value >= self.value if self.bound is Bound.AT_LEAST else value <= self.value


def at_least(ratio: float) -> Goal:
    return Goal(Bound.AT_LEAST, ratio)


def at_most(ratio: float) -> Goal:
    return Goal(Bound.AT_MOST, ratio)


def under(value: float) -> Goal:
    return Goal(Bound.AT_MOST, value, is_ratio=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the report: a key that a scenario fills, its name and unit for people, and the goal if it has one."""

    key: str
    name: str
    unit: str
    goal: Goal | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A figure as both brokers have it. `theirs` is missing when the peer was not run."""

    figure: Figure
    ours: Spread | None
    theirs: Spread | None

    @property
    def ratio(self) -> Spread | None:
        return self.ours.over(self.theirs) if self.ours and self.theirs else None

    @property
    def verdict(self) -> Verdict | None:
        goal = self.figure.goal
        if goal is None:
            return None
        seen = self.ratio if goal.is_ratio else self.ours
        return goal.judge(seen) if seen else None
