"""Something to wait for that may be given several times before anybody looks: one look is enough for all of them."""

from __future__ import annotations

import asyncio


class Nudge:
    def __init__(self) -> None:
        self._given = asyncio.Event()

    def give(self) -> None:
        self._given.set()

    def forget(self) -> None:
        """What was given so far is about to be looked at anyway."""
        self._given.clear()

    async def taken(self, within_seconds: float | None = None) -> bool:
        """Waits for the next one; False if none came in time."""
        try:
            await asyncio.wait_for(self._given.wait(), within_seconds)
        except TimeoutError:
            return False
        self._given.clear()
        return True
