"""Long work on the loop: in slices, one at a time, and what is small at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from moldau.work import turns
from moldau.work.slices import Work, at_once, pauses
from moldau.work.turns import begin, in_turns, run


@pytest.fixture
def a_slice_ends_at_every_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(turns, "clock", lambda: float(next(seconds)))


def steps(count: int, seen: list[str], name: str = "") -> Work[int]:
    for number in range(count):
        seen.append(f"{name}{number}")
        yield
    return count


def test_small_work_needs_no_loop() -> None:
    assert begin(steps(0, [])) == 0
    assert at_once(steps(5, [])) == 5


@pytest.mark.usefixtures("a_slice_ends_at_every_yield")
def test_others_are_served_between_two_slices() -> None:
    async def main() -> None:
        seen: list[str] = []
        loop = asyncio.get_running_loop()

        def other() -> None:
            seen.append("other")
            if len(seen) < 12:
                loop.call_soon(other)

        begun = begin(steps(4, seen))
        assert seen == ["0"]
        assert isinstance(begun, Awaitable)
        loop.call_soon(other)
        assert await begun == 4
        for number in range(1, 3):
            between = seen[seen.index(str(number)) : seen.index(str(number + 1))]
            assert "other" in between

    asyncio.run(main())


@pytest.mark.usefixtures("a_slice_ends_at_every_yield")
def test_however_much_is_under_way_one_slice_passes_at_a_time() -> None:
    async def main() -> None:
        seen: list[str] = []
        loop = asyncio.get_running_loop()
        mark = loop.call_soon

        def tick() -> None:
            seen.append("|")
            nonlocal handle
            handle = mark(tick)

        handle = mark(tick)
        works = [in_turns(steps(5, seen, name)) for name in "abcd"]
        assert await asyncio.gather(*works) == [5, 5, 5, 5]
        handle.cancel()
        slices = [len(part) for part in " ".join(seen).split("|") if part.strip()]
        assert max(slices) <= len(" a0 ")
        order = [each for each in seen if each != "|"]
        assert order[:8] == ["a0", "b0", "c0", "d0", "a1", "b1", "c1", "d1"]

    asyncio.run(main())


def test_errors_come_through_and_a_cancelled_work_is_closed() -> None:
    closed = []

    def failing() -> Work[None]:
        yield
        raise ValueError("no")

    def endless() -> Work[None]:
        try:
            while True:
                yield
        finally:
            closed.append(True)

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await run(failing())
        task = asyncio.create_task(in_turns(endless()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == [True]

    asyncio.run(main())


def test_pauses_come_every_so_many_steps() -> None:
    paused = pauses(4)
    assert [next(paused) for _ in range(9)] == [False, False, False, True, False, False, False, True, False]
