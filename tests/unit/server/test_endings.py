"""Waiting for the end of a transaction: woken by the news, or after a while."""

from __future__ import annotations

import asyncio

from moldau.server.coordination.endings import Endings

LONG = 600.0


def test_all_who_wait_for_it_are_woken() -> None:
    async def scenario() -> None:
        endings = Endings()
        mine = [asyncio.ensure_future(endings.wait("a", LONG)) for _ in range(2)]
        other = asyncio.ensure_future(endings.wait("b", LONG))
        await asyncio.sleep(0)
        endings.tell("a")
        await asyncio.gather(*mine)
        assert not other.done()
        endings.tell("b")
        await other

    asyncio.run(scenario())


def test_who_has_waited_long_enough_goes_on_and_is_forgotten() -> None:
    async def scenario() -> None:
        endings = Endings()
        patient = asyncio.ensure_future(endings.wait("a", LONG))
        await endings.wait("a", 0)
        endings.tell("a")
        await patient
        await endings.wait("a", 0)
        endings.tell("a")
        assert not endings._waiting

    asyncio.run(scenario())
