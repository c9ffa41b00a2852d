"""Who waits until a decided transaction is complete: woken by the event, since a timer would be late each time."""

from __future__ import annotations

import asyncio


class Endings:
    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def wait(self, transactional_id: str, seconds: float) -> None:
        """Returns when it is told, or when so long has passed. Who calls this in the same turn of the loop in which it
        has seen the transaction incomplete misses nothing.
        """
        told = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(transactional_id, []).append(told)
        await asyncio.wait((told,), timeout=seconds)
        if not told.done():
            self._forget(transactional_id, told)

    def is_awaited(self, transactional_id: str) -> bool:
        return transactional_id in self._waiting

    def tell(self, transactional_id: str) -> None:
        for told in self._waiting.pop(transactional_id, ()):
            if not told.done():
                told.set_result(None)

    def _forget(self, transactional_id: str, told: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(transactional_id, [])
        if told in waiting:
            waiting.remove(told)
        if not waiting:
            self._waiting.pop(transactional_id, None)
