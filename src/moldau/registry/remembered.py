"""What took long to find out, kept for the next time that it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

V = TypeVar("V")
ENTRY_BYTES: Final = 300
"""What an entry takes beside its result."""


class Remembered(Generic[V]):
    """The newest results, at most `most_bytes` of them. Any thread may ask; two that ask for the same at once both find
    it out."""

    def __init__(self, most_bytes: int, size_of: Callable[[V], int]) -> None:
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._found: dict[Hashable, tuple[V, int]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable, find: Callable[[], V]) -> V:
        with self._lock:
            if key in self._found:
                return self._found[key][0]
        found = find()
        with self._lock:
            self._keep(key, found)
        return found

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def _keep(self, key: Hashable, found: V) -> None:
        size = ENTRY_BYTES + self._size_of(found)
        self._bytes += size - self._found.pop(key, (None, 0))[1]
        self._found[key] = (found, size)
        while self._bytes > self._most_bytes:
            self._bytes -= self._found.pop(next(iter(self._found)))[1]
