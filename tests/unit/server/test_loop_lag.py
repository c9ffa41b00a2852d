"""How late the loop is and how idle its thread, by clocks that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from moldau.metrics import Histogram, Metrics
from moldau.server.loop_lag import PERIOD_SECONDS, LoopLag


class Clocks:
    """Stands for the loop as well."""

    def __init__(self) -> None:
        self.now = 100.0
        self.busy = 0.0
        self._tick: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def call_at(self, _when: float, tick: Callable[[], None]) -> None:
        self._tick = tick

    def pass_by(self, seconds: float, busy: float) -> None:
        self.now += seconds
        self.busy += busy
        self._tick()


def told(metrics: Metrics) -> dict[str, Any]:
    return {name.name: value for name, value in metrics.snapshot()}


def test_a_thread_that_works_half_of_the_time_is_half_idle() -> None:
    clocks, metrics = Clocks(), Metrics()
    LoopLag(cast(Any, clocks), metrics, lambda: clocks.busy).start()
    assert told(metrics)["RequestHandlerAvgIdlePercent"] == 1
    for _ in range(100):
        clocks.pass_by(PERIOD_SECONDS, PERIOD_SECONDS / 2)
    found = told(metrics)
    assert found["RequestHandlerAvgIdlePercent"] == found["NetworkProcessorAvgIdlePercent"] == pytest.approx(0.5, 0.01)
    for _ in range(100):
        clocks.pass_by(PERIOD_SECONDS, PERIOD_SECONDS)
    assert 0 <= told(metrics)["RequestHandlerAvgIdlePercent"] < 0.01


def test_what_comes_late_is_recorded() -> None:
    clocks, metrics = Clocks(), Metrics()
    LoopLag(cast(Any, clocks), metrics, lambda: clocks.busy).start()
    clocks.pass_by(PERIOD_SECONDS, 0)
    clocks.pass_by(PERIOD_SECONDS + 2, 2)
    lag = told(metrics)["LagMs"]
    assert isinstance(lag, Histogram)
    assert (lag.count, round(lag.largest)) == (2, 2000)
