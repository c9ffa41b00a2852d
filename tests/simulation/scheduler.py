"""Virtual time and the event loops that live in it: one loop for each process, so that a process can be killed or held
up without the others noticing.

Nothing waits: when no loop has anything to do, time jumps to the next timer or delivery. Each turn of a loop takes a
moment, so that one that spins does not stop time.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any
from zlib import crc32

TURN_SECONDS = 20e-6
WALL_MS = 1_700_000_000_000


class Stalled(AssertionError):
    """Nothing is left that could ever happen."""


class Scheduler:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now = 1000.0
        self.digest = 0
        self.turns = 0
        self.loops: list[NodeLoop] = []
        self.problems: list[str] = []
        #: Loops of processes that may fail.
        self.excused: set[str] = set()
        #: Those of processes that report errors, and go on.
        self.complaining: set[str] = set()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def note(self, *what: object) -> None:
        """Into the digest: two runs of one seed must give the same."""
        self.digest = crc32(repr((round(self.now, 6), *what)).encode(), self.digest)

    def at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (max(when, self.now), next(self._numbers), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now + seconds, call)

    def run_until(self, look: Callable[[], object], deadline: float) -> bool:
        """Whether what is looked for came in time."""
        while not look():
            if self.now >= deadline:
                return False
            self._step(deadline)
        return True

    def _step(self, deadline: float) -> None:
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        runnable, nearest = [], deadline if not self._events else min(deadline, self._events[0][0])
        for loop in self.loops:
            if loop.held:
                continue
            if loop.busy_until > self.now:
                nearest = min(nearest, loop.busy_until)
                continue
            if loop._ready:
                runnable.append(loop)
                continue
            when = loop.next_timer()
            if when is not None:
                if when <= self.now:
                    runnable.append(loop)
                elif when < nearest:
                    nearest = when
        if runnable:
            loop = runnable[0] if len(runnable) == 1 else runnable[self.rng.randrange(len(runnable))]
            loop.turn()
            if loop.turn_seconds:
                loop.busy_until = self.now + loop.turn_seconds * self.rng.random()
            self.turns += 1
            self.now += TURN_SECONDS
            return
        self.now = max(self.now, nearest)


class NodeLoop(asyncio.BaseEventLoop):
    """The loop of one process. `held`: it is stopped (SIGSTOP), and goes on later where it was. `turn_seconds`: how
    long a turn keeps it busy at most, where that is more than a moment."""

    #: asyncio's own.
    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self, scheduler: Scheduler, name: str, clock_rate: float = 1.0) -> None:
        super().__init__()
        self.name, self._clock_rate = name, clock_rate
        self.held = False
        self.turn_seconds = self.busy_until = 0.0
        self._world = scheduler
        scheduler.loops.append(self)

    def time(self) -> float:
        return self._world.now * self._clock_rate

    def next_timer(self) -> float | None:
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        return self._scheduled[0]._when / self._clock_rate if self._scheduled else None

    def turn(self) -> None:
        now = self.time()
        while self._scheduled and self._scheduled[0]._when <= now:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            self._ready.append(handle)
        self.call(self._run_ready)

    def _run_ready(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle._cancelled:
                handle._run()

    def call(self, call: Callable[[], Any]) -> Any:
        """As if this loop ran it."""
        events._set_running_loop(self)
        try:
            return call()
        finally:
            events._set_running_loop(None)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self in self._world.loops and self.name not in self._world.excused:
            self._world.problems.append(f"{self.name}: {context.get('message')}: {context.get('exception')!r}")

    def kill(self) -> None:
        self._world.loops.remove(self)

    def retire(self) -> None:
        """What its coroutines do when they are thrown away is heard by nobody."""
        if self in self._world.loops:
            self._world.loops.remove(self)
        self.is_closed = lambda: True  # type: ignore[method-assign]

    def _process_events(self, event_list: object) -> None: ...

    def _write_to_self(self) -> None: ...
