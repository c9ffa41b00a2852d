"""Long work on the event loop, in slices, so that nobody else waits for all of it.

Such work is a generator that yields wherever it may be interrupted, every few hundred steps. It is run for a moment at
a time; between two moments the loop looks at everything else. All work of a loop takes turns: however much is under
way, one slice passes between two looks. What it reads may have changed after a yield.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Iterator
from functools import cache
from itertools import cycle
from time import perf_counter
from typing import TypeAlias, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]

SLICE_SECONDS = 0.002
STEPS_BETWEEN_YIELDS = 64

#: Tests put in one that lets a slice end at every yield.
clock = perf_counter

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()


def begin(work: Work[T]) -> T | Awaitable[T]:
    """The result, if the work ends before its first yield, else something to await: what is small needs no task."""
    try:
        next(work)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    return in_turns(work)


async def run(work: Work[T]) -> T:
    """The result; where the work is small, without waiting for a turn."""
    begun = begin(work)
    return await begun if isinstance(begun, Awaitable) else begun


async def in_turns(work: Work[T]) -> T:
    loop = asyncio.get_running_loop()
    turn = _turns.get(loop)
    if turn is None:
        turn = _turns[loop] = asyncio.Lock()
    try:
        while True:
            async with turn:
                end = clock() + SLICE_SECONDS
                try:
                    next(work)
                    while clock() < end:
                        next(work)
                except StopIteration as stop:
                    return stop.value  # type: ignore[no-any-return]
                await asyncio.sleep(0)  # within the turn: nobody else's slice follows at once
    finally:
        work.close()


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
