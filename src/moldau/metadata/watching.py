"""Those who want to be told: of changes below a prefix, or of anything else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from moldau.metadata.store import Changes, Unwatch, Watcher, is_within

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class Listeners(Generic[T]):
    """Calls everyone who listens; one that fails harms nobody else."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._listeners: dict[object, Callable[[T], None]] = {}

    def add(self, listener: Callable[[T], None]) -> Unwatch:
        key = object()
        self._listeners[key] = listener

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    def tell(self, news: T) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener(news)
            except Exception:
                LOG.exception("a watcher of %s failed", self._what)


class PrefixWatchers:
    """Tells of the changes at or below a prefix; of "/" also where a commit changed nothing."""

    def __init__(self) -> None:
        self._listeners: Listeners[Changes] = Listeners("metadata")

    def watch(self, prefix: str, watcher: Watcher) -> Unwatch:
        if prefix == "/":
            return self._listeners.add(watcher)

        def within(changes: Changes) -> None:
            seen = tuple(change for change in changes.changes if is_within(change.path, prefix))
            if seen:
                watcher(Changes(changes.revision, seen))

        return self._listeners.add(within)

    def tell(self, changes: Changes) -> None:
        self._listeners.tell(changes)
