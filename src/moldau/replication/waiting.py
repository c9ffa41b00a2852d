"""Requests that wait for a partition: produces for the high watermark, fetches for bytes.

A wait is an object with `wake()`; it is told that something changed and decides itself whether it is done. Whoever
registers a wait also removes it, when it is done or its time is up: nothing is left behind in these lists.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from operator import itemgetter
from typing import Protocol


class Wait(Protocol):
    def wake(self) -> None: ...


class OffsetWaits:
    """Callbacks ordered by the offset that the high watermark must reach."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: list[tuple[int, Callable[[], None]]] = []

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, offset: int, reached: Callable[[], None]) -> None:
        insort(self._waits, (offset, reached), key=itemgetter(0))

    def reached(self, offset: int) -> list[Callable[[], None]]:
        """Takes out what waits for this offset or a lower one."""
        count = 0
        for wanted, _ in self._waits:
            if wanted > offset:
                break
            count += 1
        ready = [callback for _, callback in self._waits[:count]]
        del self._waits[:count]
        return ready

    def take_all(self) -> list[Callable[[], None]]:
        callbacks = [callback for _, callback in self._waits]
        self._waits.clear()
        return callbacks


class FetchWaits:
    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: dict[Wait, None] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, wait: Wait) -> None:
        self._waits[wait] = None

    def discard(self, wait: Wait) -> None:
        self._waits.pop(wait, None)

    def wake_all(self) -> None:
        for wait in tuple(self._waits):
            wait.wake()
