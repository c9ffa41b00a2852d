"""Hands out producer ids from blocks; a block is committed to the metadata store before its first id is given away."""

from __future__ import annotations

import asyncio

from moldau.metadata.controller.producer_ids import next_block
from moldau.server.controller import Controller


class ProducerIds:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._lock = asyncio.Lock()
        self._next = self._end = 0

    async def next(self) -> int:
        async with self._lock:
            if self._next == self._end:
                block = await self._controller.decide_own(next_block)
                self._next, self._end = block.first, block.first + block.size
            self._next += 1
            return self._next - 1
