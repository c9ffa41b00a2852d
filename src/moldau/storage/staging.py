"""Batches that have their offsets and are not written yet."""

from __future__ import annotations

from typing import TypeAlias

from moldau.storage.files import WritableBuffer
from moldau.storage.producer_state import ProducerChange
from moldau.types.ids import NO_TIMESTAMP

# batch, size, base offset, last offset, max timestamp, change of its producer's state
Staged: TypeAlias = tuple[WritableBuffer, int, int, int, int, ProducerChange | None]


class StagedBatches:
    __slots__ = (
        "batches",
        "changes_producers",
        "end_offset",
        "epoch",
        "max_timestamp",
        "max_timestamp_offset",
        "new_epochs",
        "size_bytes",
    )

    def __init__(self, end_offset: int, epoch: int) -> None:
        """`epoch`: the one that the log ends with."""
        self.new_epochs: list[tuple[int, int]] = []
        self.clear(end_offset, epoch)

    def clear(self, end_offset: int, epoch: int) -> None:
        """Nothing is staged any more: the log has this end and ends with this epoch."""
        self.batches: list[Staged] = []
        self.size_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self.changes_producers = False
        self.end_offset = end_offset
        self.epoch = epoch
        if self.new_epochs:
            self.new_epochs = []

    def add(
        self,
        batch: WritableBuffer,
        size: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        epoch: int,
        change: ProducerChange | None,
    ) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.new_epochs.append((epoch, base_offset))
        self.batches.append((batch, size, base_offset, last_offset, max_timestamp, change))
        self.size_bytes += size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if change is not None:
            self.changes_producers = True
        self.end_offset = last_offset + 1
