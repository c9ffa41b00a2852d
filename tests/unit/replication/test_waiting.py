"""Waiting requests are told in order, once, and leave nothing behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.replication.waiting import FetchWaits, OffsetWaits
from tests.fakes.waits import OffsetProbe


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=40))
def test_a_wait_is_told_once_when_its_offset_is_reached_unless_its_time_was_up(
    steps: list[tuple[int, int, bool]],
) -> None:
    waits = OffsetWaits()
    pending: list[tuple[int, OffsetProbe]] = []
    for wanted, mark, is_impatient in steps:
        wait = OffsetProbe()
        waits.add(wanted, wait)
        if is_impatient:
            waits.discard(wanted, wait)
            waits.discard(wanted, wait)
        else:
            pending.append((wanted, wait))
        expected = [wait for offset, wait in sorted(pending, key=lambda one: one[0]) if offset <= mark]
        assert waits.take_reached(mark) == expected
        pending = [one for one in pending if one[0] > mark]
        assert len(waits) == len(pending)


def test_taking_all_empties_the_list() -> None:
    waits = OffsetWaits()
    wait = OffsetProbe()
    waits.add(5, wait)
    assert waits.take_all() == [wait]
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
