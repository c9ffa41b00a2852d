"""What counts as the time that a request takes: its steps, not what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from moldau.server import busy
from moldau.server.busy import Stopwatch, Timed, timed
from moldau.work.slices import Work
from moldau.work.turns import begin, run
from tests.support.loops import on_loop


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(busy, "clock", made)
    return made


def slices(clock: Clock, *seconds: float) -> Work[str]:
    for each in seconds:
        clock.now += each
        yield
    return "done"


@on_loop
async def test_the_steps_of_a_coroutine_count_and_not_what_it_waits_for(clock: Clock) -> None:
    needed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def handle() -> str:
        clock.now += 1
        found = await needed
        clock.now += 2
        return found + await run(slices(clock, 4, 8))

    watch = Stopwatch()
    task = asyncio.ensure_future(Timed(watch, handle()))
    await asyncio.sleep(0)
    clock.now += 1000
    needed.set_result("all ")
    assert await task == "all done"
    assert watch.take_busy_seconds() == 15
    assert watch.take_busy_seconds() == 0


@on_loop
async def test_errors_go_in_and_out(clock: Clock) -> None:
    async def fail() -> None:
        clock.now += 1
        await asyncio.sleep(0)
        raise ValueError("no")

    watch = Stopwatch()
    with pytest.raises(ValueError, match="no"):
        await Timed(watch, fail())
    cleaned = []

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            clock.now += 2
            cleaned.append(True)

    task = asyncio.ensure_future(Timed(watch, wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned
    assert watch.take_busy_seconds() == 3


@on_loop
async def test_slices_count_whoever_is_served_in_between(clock: Clock) -> None:
    watch = Stopwatch()
    begun = begin(timed(watch, slices(clock, 1, 2, 4)))
    clock.now += 1000
    assert isinstance(begun, Awaitable)
    assert await begun == "done"
    assert watch.take_busy_seconds() == 7


def test_what_is_measured_from_outside_is_not_counted_twice(clock: Clock) -> None:
    watch = Stopwatch()
    assert watch.begin_busy()
    work = timed(watch, slices(clock, 1, 2))
    next(work)
    clock.now += 4
    assert watch.take_busy_seconds() == 5, "up to this moment"
    watch.end_busy()
    next(work)
    assert watch.take_busy_seconds() == 2
