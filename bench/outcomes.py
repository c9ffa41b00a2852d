"""What came of a case: the repetitions of both sides, ours first, and the rows of the report made of them. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from bench.figures import Figure, Row, Spread

Values = Mapping[str, float]


class Side(Protocol):
    """One of the two that are compared; its value is its name for programs."""

    @property
    def value(self) -> str: ...

    @property
    def column(self) -> str:
        """Its heading in the report."""


class Measured(Protocol):
    """What the report needs to know of a case."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def figures(self) -> Sequence[Figure]: ...


C = TypeVar("C", bound=Measured)


@dataclass(slots=True)
class Outcome(Generic[C]):
    """The repetitions of one case by side; `failure` says why there are fewer than wanted."""

    case: C
    sides: Sequence[Side]
    repetitions: dict[Side, list[Values]] = field(default_factory=lambda: defaultdict(list))
    failure: str = ""

    def spread(self, side: Side, key: str) -> Spread | None:
        values = [each[key] for each in self.repetitions.get(side, []) if key in each]
        return Spread.of(values) if values else None

    def rows(self) -> list[Row]:
        ours, theirs = self.sides
        return [
            Row(figure, self.spread(ours, figure.key), self.spread(theirs, figure.key)) for figure in self.case.figures
        ]


AnyOutcome = Outcome[Any]
