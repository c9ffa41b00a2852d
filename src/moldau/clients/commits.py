"""Commits in the background: one after the other, so that a later one is never overwritten by an earlier one.

A commit that fails for a passing reason is tried again only while no newer one is waiting: the newer one says it all.
What became of each is told to its callback in the consumer's own thread, at its next poll, commit or close."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from moldau.clients.errors import KafkaFailure
from moldau.clients.records import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
CommitCallback = Callable[[Offsets, KafkaFailure | None], None]
ATTEMPTS: Final = 10
PAUSE_SECONDS: Final = 0.1
Pause = Callable[[float], object]

log = logging.getLogger(__name__)


class Wanted(NamedTuple):
    number: int
    offsets: Offsets
    callback: CommitCallback | None


class Committer:
    def __init__(
        self,
        commit: Callable[[Offsets], None],
        pause: Pause | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`commit` blocks, and raises a KafkaFailure."""
        self._commit = commit
        self._pause = pause or threading.Event().wait
        self._monotonic = monotonic
        self._wanted: queue.SimpleQueue[Wanted | None] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[tuple[Wanted, KafkaFailure | None]] = queue.SimpleQueue()
        self._issued = 0
        self._thread: threading.Thread | None = None

    def submit(self, offsets: Offsets, callback: CommitCallback | None) -> None:
        self._issued += 1
        self._wanted.put(Wanted(self._issued, offsets, callback))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="commits", daemon=True)
            self._thread.start()

    def commit(self, offsets: Offsets, seconds: float) -> None:
        """At once, in this thread, when those before it have ended; tried again for so long where that may help."""
        deadline = self._monotonic() + seconds
        while True:
            try:
                self._commit(offsets)
            except KafkaFailure as error:
                if not error.retriable or self._monotonic() > deadline:
                    raise
                self._pause(PAUSE_SECONDS)
            else:
                return

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None:
            self._told.put((wanted, self._try(wanted)))

    def _try(self, wanted: Wanted) -> KafkaFailure | None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._commit(wanted.offsets)
            except KafkaFailure as error:
                is_newest = wanted.number == self._issued
                if not (error.retriable and is_newest) or attempt == ATTEMPTS:
                    return error
                self._pause(PAUSE_SECONDS)
            else:
                return None
        raise AssertionError("the last attempt returns")

    def tell(self) -> None:
        """Calls the callbacks of what has ended."""
        while not self._told.empty():
            wanted, error = self._told.get()
            if wanted.callback is None:
                if error is not None:
                    log.warning("%s", error)
                continue
            wanted.callback(wanted.offsets, error)

    def settle(self) -> None:
        """Waits until all that was submitted has ended, and tells it."""
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join()
            self._thread = None
        self.tell()
