"""Runs the work that `slices` describes on the event loop, a moment at a time; between two moments the loop looks at
everything else. All work of a loop takes turns: however much is under way, one slice passes between two looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

from moldau.work.slices import Work

T = TypeVar("T")

SLICE_SECONDS = 0.002

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
