"""Who waits until a decided transaction is complete: woken by the event, since a timer would be late each time.

Transactions are named by their transactional id where their coordinator is, and by their producer's where only their
markers come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable


class Endings:
    def __init__(self) -> None:
        self._waiting: dict[Hashable, list[asyncio.Future[None]]] = {}

    async def wait(self, name: Hashable, seconds: float) -> None:
        """Returns when it is told, or when so long has passed. Who calls this in the same turn of the loop in which it
        has seen the transaction incomplete misses nothing.
        """
        told = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(told)
        await asyncio.wait((told,), timeout=seconds)
        if not told.done():
            self._forget(name, told)

    def tell(self, name: Hashable) -> None:
        for told in self._waiting.pop(name, ()):
            if not told.done():
                told.set_result(None)

    def _forget(self, name: Hashable, told: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(name, [])
        if told in waiting:
            waiting.remove(told)
        if not waiting:
            self._waiting.pop(name, None)
