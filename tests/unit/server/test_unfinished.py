"""Who never says who he is costs little, and not for long."""

from __future__ import annotations

import asyncio
from typing import cast

from moldau.security.context import ANONYMOUS, ClientIdentity
from moldau.server.connection import Connection
from moldau.server.unfinished import LoginBudget, Unfinished


class Silent:
    def __init__(self) -> None:
        self.client = ClientIdentity(ANONYMOUS, "CLIENT", "10.0.0.1")
        self.aborted = asyncio.Event()
        self._is_receiving = False
        self.looked_at = 0

    @property
    def is_receiving(self) -> bool:
        self.looked_at += 1
        return self._is_receiving

    @is_receiving.setter
    def is_receiving(self, value: bool) -> None:
        self._is_receiving = value

    def abort(self) -> None:
        self.aborted.set()


def begin(unfinished: Unfinished) -> Silent:
    one = Silent()
    unfinished.began(cast(Connection, one))
    return one


def test_the_oldest_goes_when_there_are_too_many() -> None:
    async def run() -> None:
        unfinished = Unfinished("CLIENT", most=3, seconds=1000)
        first, second, third = (begin(unfinished) for _ in range(3))
        unfinished.ended(cast(Connection, first))
        fourth = begin(unfinished)
        assert not any(one.aborted.is_set() for one in (first, second, third, fourth))
        begin(unfinished)
        assert second.aborted.is_set()
        assert not any(one.aborted.is_set() for one in (first, third, fourth))
        assert len(unfinished) == 3

    asyncio.run(run())


def test_each_has_so_many_seconds() -> None:
    async def run() -> None:
        unfinished = Unfinished("CLIENT", seconds=0.05)
        first, known = begin(unfinished), begin(unfinished)
        unfinished.ended(cast(Connection, known))
        await asyncio.wait_for(first.aborted.wait(), 30)
        assert len(unfinished) == 0
        second, third = begin(unfinished), begin(unfinished)
        await asyncio.wait_for(second.aborted.wait(), 30)
        await asyncio.wait_for(third.aborted.wait(), 30)
        assert not known.aborted.is_set()

    asyncio.run(run())


def test_who_holds_the_memory_of_all_goes_when_somebody_needs_it() -> None:
    async def run() -> None:
        unfinished = Unfinished("CLIENT", seconds=1000)
        budget = LoginBudget(unfinished, limit=100)
        silent, holder, newcomer = (begin(unfinished) for _ in range(3))
        holder.is_receiving = True
        budget.take(100, holder)
        resumed: list[bool] = []
        assert budget.exhausted
        budget.when_free(lambda: resumed.append(True))
        assert holder.aborted.is_set()
        budget.give_back(100)  # by the end of its connection
        assert resumed == [True]
        assert not silent.aborted.is_set()
        assert not newcomer.aborted.is_set()
        assert len(unfinished) == 2

    asyncio.run(run())


def test_those_who_send_nothing_large_are_not_looked_through_for_one_who_does() -> None:
    """There may be thousands of them, and strangers decide how often."""

    async def run() -> None:
        unfinished = Unfinished("CLIENT", seconds=1000)
        budget = LoginBudget(unfinished, limit=300)
        silent = [begin(unfinished) for _ in range(10)]
        done, first, gone, second = (begin(unfinished) for _ in range(4))
        for one in (second, done, gone, first):
            budget.take(100, one)
            one.is_receiving = one is not done  # which has sent all by now
        unfinished.ended(cast(Connection, gone))
        unfinished.receives(cast(Connection, second))  # and has begun again
        for expected in (first, second):
            budget.when_free(lambda: None)
            assert expected.aborted.is_set()
        budget.when_free(lambda: None)
        assert not any(one.aborted.is_set() for one in (*silent, done, gone))
        assert [one.looked_at for one in (*silent, done)] == [0] * 10 + [1]
        assert len(unfinished) == 11

    asyncio.run(run())
