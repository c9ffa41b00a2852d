"""What a rule decides: operations for the metadata store, and the answer that holds once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Operation, Put
from moldau.work.slices import Work, at_once, pauses

T_co = TypeVar("T_co", covariant=True)

MAX_RECORDS_PER_REQUEST = 10_000
"""How many entries one request may change; Apache Kafka's limit."""


PARTITIONS_PER_COMMIT = 2_000
PART_BYTES = 900_000
"""How many entries, and how many bytes of them, one commit should have: what a store must take at once, and how long
the most urgent of them wait for the others."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[T_co]):
    """`operations` are in an order in which every beginning is right alone, so that they may be committed in several
    parts; `whole` forbids that."""

    operations: Sequence[Operation]
    answer: T_co
    whole: bool = False

    @property
    def parts(self) -> list[Sequence[Operation]]:
        """The commits to make, one after the other; none where there is nothing to do."""
        return at_once(self.parting())

    def parting(self) -> Work[list[Sequence[Operation]]]:
        """`parts`, in turns."""
        if self.whole or not self.operations:
            return [self.operations] if self.operations else []
        return (yield from _cut(self.operations))


def _cut(operations: Sequence[Operation]) -> Work[list[Sequence[Operation]]]:
    paused = pauses()
    parts = []
    begin = size = 0
    for position, operation in enumerate(operations):
        if next(paused):
            yield
        bytes_of_it = len(operation.path) + (len(operation.value) if isinstance(operation, Put) else 0)
        if position > begin and (position - begin == PARTITIONS_PER_COMMIT or size + bytes_of_it > PART_BYTES):
            parts.append(operations[begin:position])
            begin, size = position, 0
        size += bytes_of_it
    parts.append(operations[begin:])
    return parts


Rule: TypeAlias = Callable[[ClusterImage], Decision[T_co] | Work[Decision[T_co]]]
"""Decides on the image that it is given; one that may have to do with thousands of partitions does so in turns."""


class Rng(Protocol):
    """The part of random.Random that the rules use."""

    def randrange(self, stop: int, /) -> int: ...


Permission: TypeAlias = Callable[[str], bool]
"""Whether the client may do what is asked to the topic of this name."""


Charge: TypeAlias = Callable[[int], None]
"""Counts partitions that a client is about to have made or deleted. Raises THROTTLING_QUOTA_EXCEEDED."""


def free_of_charge(_partitions: int) -> None:
    pass


def everyone(_topic: str) -> bool:
    return True
