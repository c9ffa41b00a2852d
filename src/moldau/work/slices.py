"""Long work in slices, so that nobody else waits for all of it.

Such work is a generator that yields wherever it may be interrupted, every few hundred steps. Who runs it, and what
happens in between, it does not know (`turns` does it on an event loop); what it reads may have changed after a yield.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cache
from itertools import cycle
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]

STEPS_BETWEEN_YIELDS = 64


def pauses(steps: int = STEPS_BETWEEN_YIELDS) -> Iterator[bool]:
    """Whether to yield now, asked once for each step: `if next(paused): yield`."""
    return cycle(_pattern(steps))


@cache
def _pattern(steps: int) -> tuple[bool, ...]:
    return (False,) * (steps - 1) + (True,)


def at_once(work: Work[T]) -> T:
    """For those who have no loop, or need not care."""
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
