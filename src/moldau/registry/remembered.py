"""What took long to find out, kept for the next time that it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Remembered(Generic[V]):
    """The newest results, at most `most`. Any thread may ask; two that ask for the same at once both find it out."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[Hashable, V] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, find: Callable[[], V]) -> V:
        with self._lock:
            if key in self._found:
                return self._found[key]
        found = find()
        with self._lock:
            self._found[key] = found
            if len(self._found) > self._most:
                del self._found[next(iter(self._found))]
        return found
