"""Requests that wait for a partition: produces for an offset to be reached, fetches for bytes.

A wait belongs to a term of the leader: what ends the term ends the wait, with Kafka's code. Whoever registers a wait
also removes it, when it is done or its time is up: nothing is left behind in these lists.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import itemgetter
from typing import Protocol

from moldau.types.errors import ErrorCode


class Append(Protocol):
    """A batch on its way into the log. Exactly one of the two is called, once."""

    def written(self) -> None: ...

    def failed(self, code: ErrorCode) -> None: ...


class OffsetWait(Protocol):
    """Waits for an offset that all must have reached. What is called ends it, unless it says otherwise."""

    def reached(self) -> None: ...

    def ended(self, code: ErrorCode) -> None:
        """It will not be reached, as far as anybody here can tell."""
        ...

    def starved(self) -> bool:
        """Fewer replicas are in sync than the topic asks for. True if that ends the wait."""
        ...


class FetchWait(Protocol):
    """Told that something has changed; decides itself whether it is done."""

    def wake(self) -> None: ...


class OffsetWaits:
    """Ordered by the offset that must be reached."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: list[tuple[int, OffsetWait]] = []

    def __len__(self) -> int:
        return len(self._waits)

    def add(self, offset: int, wait: OffsetWait) -> None:
        insort(self._waits, (offset, wait), key=itemgetter(0))

    def discard(self, offset: int, wait: OffsetWait) -> None:
        """Its time is up."""
        waits = self._waits
        for position in range(bisect_left(waits, offset, key=itemgetter(0)), len(waits)):
            found, other = waits[position]
            if found != offset:
                return
            if other is wait:
                del waits[position]
                return

    def take_reached(self, offset: int) -> list[OffsetWait]:
        """Takes out what waits for this offset or a lower one."""
        count = bisect_right(self._waits, offset, key=itemgetter(0))
        taken = [wait for _, wait in self._waits[:count]]
        del self._waits[:count]
        return taken

    def take_all(self) -> list[OffsetWait]:
        taken = [wait for _, wait in self._waits]
        self._waits.clear()
        return taken

    def starve(self) -> None:
        for offset, wait in tuple(self._waits):
            if wait.starved():
                self.discard(offset, wait)


class FetchWaits:
    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: dict[FetchWait, None] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def __iter__(self) -> Iterator[FetchWait]:
        return iter(tuple(self._waits))

    def add(self, wait: FetchWait) -> None:
        self._waits[wait] = None

    def discard(self, wait: FetchWait) -> None:
        self._waits.pop(wait, None)

    def wake_all(self) -> None:
        for wait in tuple(self._waits):
            wait.wake()
