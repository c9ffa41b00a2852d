"""What is remembered of clients, as many as may be: the one that was asked about longest ago makes room."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    def __init__(self, most: int, make: Callable[[K], V], forgotten: Callable[[K, V], None]) -> None:
        self._most = most
        self._make = make
        self._forgotten = forgotten
        self._known: dict[K, V] = {}

    def of(self, key: K) -> V:
        known = self._known
        found = known.pop(key, None)
        if found is None:
            if len(known) >= self._most:
                oldest = next(iter(known))
                self._forgotten(oldest, known.pop(oldest))
            found = self._make(key)
        known[key] = found
        return found

    def __len__(self) -> int:
        return len(self._known)
