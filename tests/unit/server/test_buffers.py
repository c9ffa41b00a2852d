"""Buffers are reused, the budget is kept, and whoever waits for it is called."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.server.buffers import LARGEST_POOLED, POOLED_PER_CLASS, Budget, BufferPool, size_class


@given(st.integers(1, 100_000_000))
def test_a_buffer_holds_what_was_asked_and_not_much_more(size: int) -> None:
    capacity = size_class(size)
    assert capacity >= size
    assert capacity % 4096 == 0
    assert capacity <= max(2 * size, 64 * 1024)


def test_a_buffer_that_came_back_is_given_again() -> None:
    pool = BufferPool()
    first = pool.take(100_000)
    pool.give_back(first)
    assert pool.take(120_000) is first


def test_only_so_many_buffers_are_kept_and_no_huge_ones() -> None:
    pool = BufferPool()
    buffers = [pool.take(70_000) for _ in range(POOLED_PER_CLASS + 3)]
    for buffer in buffers:
        pool.give_back(buffer)
    again = [pool.take(70_000) for _ in range(POOLED_PER_CLASS + 1)]
    assert sum(one in buffers for one in again) == POOLED_PER_CLASS
    huge = pool.take(LARGEST_POOLED + 1)
    pool.give_back(huge)
    assert pool.take(LARGEST_POOLED + 1) is not huge


def test_those_who_wait_for_the_budget_are_called_in_order_while_there_is_some() -> None:
    budget = Budget(10)
    budget.take(12)
    assert budget.exhausted
    called: list[str] = []

    def first() -> None:
        called.append("first")
        budget.take(10)

    budget.when_free(first)
    budget.when_free(lambda: called.append("second"))
    budget.give_back(12)
    assert called == ["first"]
    budget.give_back(10)
    assert called == ["first", "second"]
