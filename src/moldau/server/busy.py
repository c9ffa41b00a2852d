"""How long a request keeps the event loop busy, for the quota on that: what it waits for does not count.

Work that is done a moment at a time is measured moment by moment, whoever runs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from time import perf_counter
from typing import Any, TypeVar

from moldau.work.slices import Work

T = TypeVar("T")

#: Tests put in one of their own.
clock = perf_counter


class Stopwatch:
    __slots__ = ("_busy_since", "busy_seconds")

    def __init__(self) -> None:
        self.busy_seconds = 0.0
        self._busy_since: float | None = None

    def begin_busy(self) -> bool:
        """False if it is measured already: then it is not for the caller to end it."""
        if self._busy_since is not None:
            return False
        self._busy_since = clock()
        return True

    def end_busy(self) -> None:
        if self._busy_since is not None:
            self.busy_seconds += clock() - self._busy_since
            self._busy_since = None

    def take_busy_seconds(self) -> float:
        """Those that were not taken yet, up to this moment."""
        if self._busy_since is not None:
            now = clock()
            self.busy_seconds += now - self._busy_since
            self._busy_since = now
        taken, self.busy_seconds = self.busy_seconds, 0.0
        return taken


def timed(watch: Stopwatch, work: Work[T]) -> Work[T]:
    try:
        while True:
            is_ours = watch.begin_busy()
            try:
                next(work)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            finally:
                if is_ours:
                    watch.end_busy()
            yield
    finally:
        work.close()


class Timed(Awaitable[T]):
    __slots__ = ("_awaited", "_watch")

    def __init__(self, watch: Stopwatch, awaited: Awaitable[T]) -> None:
        self._watch, self._awaited = watch, awaited

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaited.__await__()
        value, error = None, None
        while True:
            is_ours = self._watch.begin_busy()
            try:
                waits_for = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            finally:
                if is_ours:
                    self._watch.end_busy()
            value, error = None, None
            try:
                value = yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as thrown:
                error = thrown
