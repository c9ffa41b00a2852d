"""How much of a log would survive a power cut: its recovery point, and what is under way to move it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from moldau.storage.epochs import LeaderEpochCache
from moldau.storage.files import FileSystem, sync_file
from moldau.storage.flushing import FlushWork, PendingSync
from moldau.storage.segment_list import SegmentList


class Durability:
    __slots__ = ("_files", "_generation", "_limit", "_under_way", "last_flush_ms", "pending", "recovery_point")

    def __init__(self, files: FileSystem, recovery_point: int, unsynced: Iterable[str], now_ms: int) -> None:
        self._files = files
        self.recovery_point = recovery_point
        self.pending = PendingSync(map(os.path.basename, unsynced))
        self.last_flush_ms = now_ms
        self._generation = 0
        self._under_way: list[FlushWork] = []
        self._limit: int | None = None  # while a truncation is prepared

    @property
    def is_as_at_first(self) -> bool:
        """Nothing was cut, and nothing became pending, since the log was opened."""
        return self._generation == 0 and self.pending.is_as_at_first

    # -- flushing -----------------------------------------------------------------------------------------------------

    def work(self, folder: str, segments: SegmentList, epochs: LeaderEpochCache, up_to: int) -> FlushWork:
        unflushed = segments.starting_with(self.recovery_point) if up_to > self.recovery_point else []
        work = FlushWork(
            self._files,
            folder,
            self.pending,
            up_to=up_to,
            generation=self._generation,
            handles=[each.file.fileno for each in unflushed if each.base_offset < up_to],
            epochs=epochs.encode(),
            epochs_path=epochs.path,
            epochs_version=epochs.version,
        )
        self._under_way.append(work)
        return work

    def flushed(self, up_to: int, now_ms: int) -> bool:
        """The work for this offset has succeeded. Whether the recovery point moves there."""
        done = [work for work in self._under_way if work.done]
        self._under_way = [work for work in self._under_way if not work.done]
        for work in done:
            self.pending.settle(work.covered)
        # A truncation meanwhile has put other data where the synced data was.
        if not any(work.generation == self._generation and work.up_to == up_to for work in done):
            return False
        self.recovery_point = max(self.recovery_point, self.pending.limit(up_to))
        if self._limit is not None:
            self.recovery_point = min(self.recovery_point, self._limit)
        self.last_flush_ms = now_ms
        return True

    def segment_sealed(self, folder: str, log_end_offset: int, next_base_offset: int) -> None:
        """What sealing wrote must be on disk before the recovery point passes the segment. If it has passed all of its
        records already, that is now; otherwise it waits for a flush."""
        if self.recovery_point >= log_end_offset:
            for name in self.pending.names:
                sync_file(self._files, f"{folder}/{name}")
        else:
            self.pending.segment_sealed(next_base_offset)

    # -- truncation ---------------------------------------------------------------------------------------------------

    def prepare_truncation(self, new_end: int) -> None:
        """Below the new end, since the file's new length is not on disk yet: the next flush has something to do."""
        self._limit = max(0, new_end - 1)
        self.recovery_point = min(self.recovery_point, self._limit)

    def end_truncation(self) -> None:
        self._limit = None

    def truncated_to(self, offset: int) -> None:
        self.recovery_point = min(self.recovery_point, max(0, offset - 1))
        self._generation += 1
        self.pending.truncated_to(offset)
