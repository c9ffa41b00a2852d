"""Measures how late the event loop is, and how much of the time it has nothing to do: what a handler that computes too
long does to everybody else, and how near the broker is to what it can do.

Apache Kafka has pools of threads for the network and for requests and tells of each how idle it is. Here one thread
does both: it is told under both names, as the share of the last moments in which it used no processor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from moldau.metrics import Metrics

PERIOD_SECONDS = 0.5
WEIGHT = 0.1
"""Of the last period, in a mean that forgets: what was five seconds ago counts a third of what is."""


class LoopLag:
    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics, busy_seconds: Callable[[], float]) -> None:
        """`busy_seconds` is asked on the loop: how long its thread has used a processor."""
        self._loop = loop
        self._busy_seconds = busy_seconds
        self.histogram = metrics.histogram("moldau.server", "EventLoop", "LagMs")
        self.idle_share = 1.0
        for group, kind, name in (
            ("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent"),
            ("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent"),
        ):
            metrics.gauge(lambda: self.idle_share, group, kind, name)
        self._due = 0.0
        self._looked_at = self._busy_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._looked_at, self._busy_at = self._loop.time(), self._busy_seconds()
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._due = self._loop.time() + PERIOD_SECONDS
        self._timer = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        now, busy = self._loop.time(), self._busy_seconds()
        self.histogram.record(max(0.0, now - self._due) * 1000)
        share = 1 - (busy - self._busy_at) / (now - self._looked_at)
        self.idle_share += WEIGHT * (min(max(share, 0.0), 1.0) - self.idle_share)
        self._looked_at, self._busy_at = now, busy
        self._wait()
