"""Timers of the coordinators on the event loop, which expire nobody unheard.

After a stall (a stopped process, a slow machine) the loop runs timers before it looks at its sockets: a heartbeat
that arrived in time would be overtaken by its own expiry. So a timer that fires much too late steps back once, to let
what was received be handled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

log = logging.getLogger("moldau.server.coordination")

LATE_SECONDS = 0.1
SECOND_CHANCE_SECONDS = 0.2


class LoopTimers:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handles: dict[object, asyncio.TimerHandle] = {}

    def set(self, name: object, deadline: float, operation: Callable[[float], Any]) -> None:
        self.cancel(name)
        self._handles[name] = self._loop.call_at(deadline, self._fire, name, deadline, operation)

    def cancel(self, name: object) -> None:
        handle = self._handles.pop(name, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, name: object, deadline: float, operation: Callable[[float], Any]) -> None:
        now = self._loop.time()
        if now - deadline > LATE_SECONDS:
            again = now + SECOND_CHANCE_SECONDS
            self._handles[name] = self._loop.call_at(again, self._fire, name, again, operation)
            return
        self._handles.pop(name, None)
        try:
            operation(now)
        except Exception:
            log.exception("a coordinator's timer failed")
