"""Waiting requests are told in order, once, and leave nothing behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.replication.waiting import FetchWaits, OffsetWaits


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=40))
def test_a_wait_is_told_once_when_its_offset_is_reached(steps: list[tuple[int, int]]) -> None:
    waits = OffsetWaits()
    told: list[int] = []
    pending: list[tuple[int, int]] = []
    for number, (wanted, mark) in enumerate(steps):
        waits.add(wanted, lambda number=number: told.append(number))  # type: ignore[misc]
        pending.append((wanted, number))
        for reached in waits.reached(mark):
            reached()
        expected = [number for offset, number in sorted(pending, key=lambda one: one[0]) if offset <= mark]
        assert told == expected
        pending = [one for one in pending if one[0] > mark]
        told.clear()
        assert len(waits) == len(pending)


def test_taking_all_empties_the_list() -> None:
    waits = OffsetWaits()
    waits.add(5, lambda: None)
    assert len(waits.take_all()) == 1
    assert not waits


class Wait:
    def __init__(self, waits: FetchWaits) -> None:
        self.waits, self.woken = waits, 0

    def wake(self) -> None:
        self.woken += 1
        self.waits.discard(self)


def test_a_fetch_may_leave_while_it_is_woken() -> None:
    waits = FetchWaits()
    fetches = [Wait(waits) for _ in range(3)]
    for fetch in fetches:
        waits.add(fetch)
    waits.discard(fetches[1])
    waits.wake_all()
    assert [fetch.woken for fetch in fetches] == [1, 0, 1]
    assert not waits
