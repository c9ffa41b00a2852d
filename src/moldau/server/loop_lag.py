"""Measures how late the event loop is: what a handler that computes too long does to everybody else."""

from __future__ import annotations

import asyncio

from moldau.metrics import Metrics

PERIOD_SECONDS = 0.5


class LoopLag:
    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics) -> None:
        self._loop = loop
        self.histogram = metrics.histogram("moldau.server", "EventLoop", "LagMs")
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._due = self._loop.time() + PERIOD_SECONDS
        self._timer = self._loop.call_at(self._due, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self.histogram.record(max(0.0, self._loop.time() - self._due) * 1000)
        self.start()
