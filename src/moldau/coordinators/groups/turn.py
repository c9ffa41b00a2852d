"""What one operation gathers on its way through the group: records to write, and answers to requests that waited."""

from __future__ import annotations

from typing import TypeVar

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.machine import Reply, StateRecord, Write

T = TypeVar("T")


class Turn:
    __slots__ = ("now", "now_ms", "records", "replies")

    def __init__(self, now: float, now_ms: int) -> None:
        #: Monotonic seconds.
        self.now = now
        #: Wall time.
        self.now_ms = now_ms
        self.records: list[StateRecord] = []
        self.replies: list[Reply] = []

    def answer(self, deferred: Deferred[T] | None, value: T) -> None:
        if deferred is not None:
            self.replies.append(Reply(deferred, value))

    def write(self, answer: T | Deferred[T]) -> Write[T]:
        return Write(answer, self.records, self.replies)
