"""A coordinator's log in memory, whose commits come when the test says so, and may never come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from moldau.coordinators.machine import ProducerStamp, RecordContext, StateRecord
from moldau.coordinators.runtime import Appended
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.records import iter_records


class Entry(NamedTuple):
    record: StateRecord
    producer: ProducerStamp | None


class Marker(NamedTuple):
    """The end of a transaction."""

    producer: ProducerStamp
    is_commit: bool


class FakeShardLog:
    def __init__(self) -> None:
        self.committed: list[Entry | Marker] = []
        self._under_way: deque[tuple[list[Entry], Appended]] = deque()
        self.refusal: KafkaError | None = None
        """What the next appends are refused with."""

    def append(self, records: Sequence[StateRecord], producer: ProducerStamp | None, done: Appended) -> None:
        if self.refusal is not None:
            raise self.refusal
        self._under_way.append(([Entry(record, producer) for record in records], done))

    def append_packed(self, batch: bytearray, count: int, done: Appended) -> None:
        records = [StateRecord(each.key or b"", each.value) for each in iter_records(batch)]
        assert len(records) == count
        self.append(records, None, done)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def commit(self, batches: int | None = None) -> None:
        """Lets the oldest batches be committed: all, or so many."""
        for _ in range(len(self._under_way) if batches is None else batches):
            entries, done = self._under_way.popleft()
            self.committed += entries
            done(None)

    def lose(self, error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """What is under way is not written; each of them hears it, in order."""
        lost, self._under_way = self._under_way, deque()
        for _, done in lost:
            done(KafkaError(error))

    def forget(self) -> None:
        """The process dies: what is under way is gone and nobody hears of it."""
        self._under_way.clear()

    def contents(self) -> list[tuple[StateRecord, RecordContext] | Marker]:
        """What loading reads."""
        found: list[tuple[StateRecord, RecordContext] | Marker] = []
        for offset, entry in enumerate(self.committed):
            if isinstance(entry, Marker):
                found.append(entry)
            else:
                found.append((entry.record, RecordContext(offset, 0, entry.producer)))
        return found
