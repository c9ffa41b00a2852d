"""errors.retry.timeout and errors.retry.delay.max.ms: how long, and how often, a batch that failed is tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moldau.connect.configuration import WorkerDefaults, make_job
from moldau.connect.worker.runner import HEALTHY_SECONDS, Backoff, Run, Runner

CONVERTERS = dict.fromkeys(("key.converter", "value.converter"), "ByteArrayConverter")


class Told:
    def __init__(self) -> None:
        self.states: list[str] = []

    def status(self, name: str, task: int | None, state: str, trace: str | None) -> None:
        self.states.append(state)

    def __getattr__(self, name: str) -> Any:
        pytest.fail(f"{name} is not asked for here")


class Failing:
    """A task that fails again whenever it is started."""

    def __init__(self, tmp_path: Path, **settings: str) -> None:
        given = {"name": "out", "connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "t"}
        given |= {f"errors.retry.{name.replace('_', '.')}": value for name, value in settings.items()}
        self.now = 1000.0
        self.told = Told()
        self.run = Run([0])
        self._job = make_job(given, WorkerDefaults(CONVERTERS, {}, {}, {}, "g", "offsets"))
        self._runner = Runner(
            pytest.fail, WorkerDefaults(CONVERTERS, {}, {}, {}, "g", "offsets"), None, self.told, Backoff(1, 60),  # type: ignore[arg-type]
            monotonic=lambda: self.now,
        )  # fmt: skip

    def fail(self) -> float | None:
        """The pause after it."""
        self._runner._failed("out", self.run, self._job, OSError("the target is away"))
        if self.run.again_at is None:
            return None
        pause, self.now = self.run.again_at - self.now, self.run.again_at
        self.run.since = self.now
        return pause


def test_a_batch_is_tried_again_as_long_as_is_said_and_fails_then(tmp_path: Path) -> None:
    failing = Failing(tmp_path, timeout="20000", delay_max_ms="5000")
    pauses = [failing.fail() for _ in range(6)]
    assert pauses == [2, 4, 5, 5, 5, 32], "the last is the worker's own, between starts"
    assert failing.told.states == ["FAILED"]
    assert failing.now - 1000 == 21 + 32


def test_it_is_tried_for_ever(tmp_path: Path) -> None:
    failing = Failing(tmp_path, timeout="-1", delay_max_ms="60000")
    pauses = [failing.fail() for _ in range(100)]
    assert (pauses[0], max(filter(None, pauses))) == (2, 60)
    assert failing.told.states == []


def test_without_a_timeout_it_fails_at_once(tmp_path: Path) -> None:
    failing = Failing(tmp_path)
    failing.fail()
    assert failing.told.states == ["FAILED"]


def test_a_healthy_time_ends_the_count(tmp_path: Path) -> None:
    failing = Failing(tmp_path, timeout="5000", delay_max_ms="3000")
    assert [failing.fail() for _ in range(2)] == [2, 3]
    failing.now += HEALTHY_SECONDS + 1
    assert failing.fail() == 2
    assert failing.told.states == []
