"""Duties that recur: retention, flushing, checkpoints, cleaning, expiry, idle connections. One timer each; a duty
that still runs is not started again, and one that fails is logged and tried again at its next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger("moldau.server.timers")

Duty = Callable[[], Awaitable[object] | None]


class Timers:
    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._passing: set[asyncio.Task[None]] = set()

    def every(
        self, seconds: float | Callable[[], float], name: str, duty: Duty, first_after: float | None = None
    ) -> None:
        """`seconds` may be asked for anew before each pause, where a setting can change."""
        pause = seconds if callable(seconds) else lambda: seconds
        first = pause() if first_after is None else first_after
        self._tasks.append(asyncio.get_running_loop().create_task(self._repeat(pause, first, name, duty), name=name))

    def once(self, name: str, duty: Callable[[], Awaitable[object]]) -> None:
        """Starts something now that need not be waited for."""

        async def run() -> None:
            try:
                await duty()
            except Exception:
                log.exception("%s failed", name)

        task = asyncio.get_running_loop().create_task(run(), name=name)
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _repeat(self, pause: Callable[[], float], first_after: float, name: str, duty: Duty) -> None:
        await asyncio.sleep(first_after)
        while True:
            try:
                running = duty()
                if running is not None:
                    await running
            except Exception:
                log.exception("%s failed; it is tried again in %g s", name, pause())
            await asyncio.sleep(pause())
