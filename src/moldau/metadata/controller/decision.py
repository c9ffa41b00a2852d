"""What a rule decides: operations for the metadata store, and the answer that holds once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Operation
from moldau.work.turns import Work

T_co = TypeVar("T_co", covariant=True)

MAX_RECORDS_PER_REQUEST = 10_000
"""How many entries one request may change; Apache Kafka's limit."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[T_co]):
    operations: Sequence[Operation]
    answer: T_co


Rule: TypeAlias = Callable[[ClusterImage], Decision[T_co] | Work[Decision[T_co]]]
"""Decides on the image that it is given; one that may have to do with thousands of partitions does so in turns."""


class Rng(Protocol):
    """The part of random.Random that the rules use."""

    def randrange(self, stop: int, /) -> int: ...


Permission: TypeAlias = Callable[[str], bool]
"""Whether the client may do what is asked to the topic of this name."""


def everyone(_topic: str) -> bool:
    return True
