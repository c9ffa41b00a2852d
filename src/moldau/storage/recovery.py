"""Opening a log: what a crash left behind is cleared away, what is damaged is cut or refused, what is missing rebuilt.

After a clean shutdown nothing is read but the end of the active segment. Otherwise every segment from the recovery
point on is read and checked: its indexes, the leader epochs and the producers' state are made anew from its batches.
The first batch there that is not whole ends the log if it lies at or above the recovery point (it was never promised to
survive); below it the disk has lost what it had confirmed, and the partition must not be served: CorruptLogError.

Blocks; meant for a thread when the log is large.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from moldau.config.topic import TopicConfig
from moldau.kernels import BatchStatus, check_run
from moldau.storage.batch_info import BatchInfo
from moldau.storage.epochs import LeaderEpochCache, load_epochs
from moldau.storage.errors import CorruptLogError
from moldau.storage.files import FileSystem, read_fully, remove_if_exists
from moldau.storage.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, TIME_ENTRY
from moldau.storage.interrupted import clear_interrupted_work
from moldau.storage.layout import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    offset_name,
    offset_of,
    offsets_with_suffix,
)
from moldau.storage.producer_replay import checked_batches, rebuild_producers, replay_batch
from moldau.storage.producer_snapshots import SnapshotFiles
from moldau.storage.producer_state import ProducerStates
from moldau.storage.salvage import count_valid_batches
from moldau.storage.segment import Segment
from moldau.storage.segment_list import SegmentList
from moldau.types.ids import NO_EPOCH, TopicPartition

Progress: TypeAlias = Callable[[int, int], None]
"""Told (bytes checked, bytes to check) after each segment."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where recovery ended a log, and what that cost."""

    path: str
    position: int
    offset: int
    reason: str
    bytes_lost: int
    valid_batches_lost: int

    def __str__(self) -> str:
        return (
            f"{self.path}: cut at byte {self.position} (offset {self.offset}): {self.reason}; "
            f"{self.bytes_lost} bytes dropped, among them {self.valid_batches_lost} valid batches"
        )


@dataclass(slots=True)
class RecoveryReport:
    segments_checked: int = 0
    bytes_checked: int = 0
    indexes_rebuilt: list[str] = field(default_factory=list)
    cut: Cut | None = None


class LoadedLog(NamedTuple):
    segments: Sequence[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epochs: LeaderEpochCache
    producers: ProducerStates
    snapshots: SnapshotFiles
    unsynced: list[str]
    report: RecoveryReport


class _BadBatchError(Exception):
    def __init__(self, position: int, next_offset: int, reason: str, limit: int = 0) -> None:
        super().__init__(reason)
        self.limit = limit
        self.position = position
        self.next_offset = next_offset
        self.reason = reason


class LogLoader:
    def __init__(
        self,
        files: FileSystem,
        folder: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        log_start_offset: int,
        recovery_point: int,
        clean_shutdown: bool,
        cleaned_offset: int = 0,
        now_ms: int,
        producer_expiry_ms: int,
        progress: Progress | None,
    ) -> None:
        self._files = files
        self._folder = folder
        self._config = config
        self._log_start = log_start_offset
        self._recovery_point = recovery_point
        self._clean = clean_shutdown
        self._cleaned_offset = cleaned_offset
        self._now_ms = now_ms
        self._progress = progress
        self._report = RecoveryReport()
        self._epochs = load_epochs(files, folder)
        self._producers = ProducerStates(topic_partition, producer_expiry_ms)
        self._segments: list[Segment] = []
        self._unsynced: list[str] = []

    def load(self) -> LoadedLog:
        try:
            return self._load()
        except BaseException:
            for segment in self._segments:
                segment.close()
            raise

    def _load(self) -> LoadedLog:
        names = clear_interrupted_work(self._files, self._folder)
        self._open_segments(names)
        snapshots = SnapshotFiles(self._files, self._folder, names)
        if not self._clean:
            self._check_unflushed(snapshots)
        self._rebuild_missing_indexes(names)
        end_offset = self._find_end()
        start_offset = max(self._log_start, self._segments[0].base_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(start_offset)
        self._load_producers(snapshots, start_offset, end_offset)
        for segment in self._segments:
            segment.file.rest()  # a broker has many logs, and most of them idle
        return LoadedLog(
            self._segments,
            start_offset,
            end_offset,
            end_offset if self._clean else min(self._recovery_point, end_offset),
            self._epochs,
            self._producers,
            snapshots,
            self._unsynced,
            self._report,
        )

    def _open_segments(self, names: Sequence[str]) -> None:
        present = set(names)
        for name in names:
            base = offset_of(name)
            if base is not None and name.endswith(INDEX_SUFFIXES) and offset_name(base, LOG_SUFFIX) not in present:
                remove_if_exists(self._files, f"{self._folder}/{name}")
        for base in offsets_with_suffix(list(names), LOG_SUFFIX):
            size = self._files.status(f"{self._folder}/{offset_name(base, LOG_SUFFIX)}").size
            self._segments.append(Segment(self._files, self._folder, base, size=size, created_ms=self._now_ms))

    # -- after a crash ------------------------------------------------------------------------------------------------

    def _check_unflushed(self, snapshots: SnapshotFiles) -> None:
        first = self._first_unflushed()
        unflushed = self._segments[first:]
        if not unflushed:
            return
        total = sum(segment.size for segment in unflushed)
        base = unflushed[0].base_offset
        snapshots.remove_outside(self._log_start, base)
        snapshots.load_latest(self._producers, self._log_start, self._now_ms)
        if first:
            rebuild_producers(self._files, SegmentList(self._segments[:first]), self._producers, self._log_start, base)
        next_offset = base
        for index, segment in enumerate(unflushed, first):
            try:
                if index > first:
                    self._check_gap(segment, next_offset)
                    self._unsynced += self._segments[index - 1].seal()
                next_offset = self._recover(segment, snapshots)
            except _BadBatchError as bad:
                self._cut(index, segment, bad)
                break
            self._report.segments_checked += 1
            self._report.bytes_checked += segment.size
            if self._progress is not None:
                self._progress(self._report.bytes_checked, total)

    def _first_unflushed(self) -> int:
        """Index of the segment that holds the recovery point: everything before it is known to be on disk."""
        below = sum(1 for segment in self._segments if segment.base_offset <= self._recovery_point)
        return max(0, below - 1)

    def _check_gap(self, segment: Segment, next_offset: int) -> None:
        """The end of a segment may be lost while the next one survived. Compaction leaves gaps of its own, which stay
        when the topic is compacted no longer."""
        gap = segment.base_offset != next_offset and segment.base_offset > self._log_start
        if gap and not self._config.compacted and segment.base_offset > self._cleaned_offset:
            reason = f"offsets {next_offset} to {segment.base_offset - 1} before this segment are missing"
            raise _BadBatchError(0, next_offset, reason)

    def _recover(self, segment: Segment, snapshots: SnapshotFiles) -> int:
        """Check every batch of a segment and make everything anew that is derived from them."""
        self._producers.end_offset = max(self._producers.end_offset, segment.base_offset)
        if segment.base_offset > self._log_start and (path := snapshots.take(self._producers)) is not None:
            self._unsynced.append(path)
        return self._rebuild(segment, self._producers)

    def _rebuild(self, segment: Segment, producers: ProducerStates | None) -> int:
        limit, segment.size = segment.size, 0
        txn_index = segment.txn_index.entries if producers is None else []
        segment.reset_indexes()
        for aborted in txn_index:
            segment.txn_index.append(aborted)
        next_offset, epoch = segment.base_offset, NO_EPOCH
        interval = self._config.index_interval_bytes

        def take_plain(data: memoryview, at: int, end: int) -> int:
            """Small batches that concern nobody but the index, and that not yet."""
            nonlocal next_offset
            room = interval - segment.bytes_since_index
            if not segment.size or room < 0:
                return at
            end_of_run, after, max_timestamp, max_offset = check_run(data, at, end, next_offset, epoch, room)
            if end_of_run == at or after - segment.base_offset > MAX_RELATIVE_OFFSET:
                return at
            segment.account_many(end_of_run - at, max_timestamp, max_offset)
            next_offset = after
            return end_of_run

        for position, info, batch in checked_batches(self._files, segment, 0, limit, take_plain):
            reason = self._defect(info, segment, next_offset)
            if reason is not None:
                if self._config.preallocate and self._only_zeros(segment, position, limit):
                    self._files.truncate(segment.file.fileno, position)
                    break
                raise _BadBatchError(position, next_offset, reason, limit)
            epoch = info.leader_epoch
            if producers is not None:
                if epoch > self._epochs.latest:
                    self._epochs.assign(epoch, info.base_offset)
                replay_batch(producers, segment, info, batch, index=True)
            next_offset = info.base_offset + info.last_offset_delta + 1
            segment.account(next_offset - 1, info.size, info.max_timestamp, interval)
        if producers is not None:
            producers.end_offset = max(producers.end_offset, next_offset)
        return next_offset

    @staticmethod
    def _defect(info: BatchInfo, segment: Segment, next_offset: int) -> str | None:
        if info.status != BatchStatus.OK:
            return f"not a valid record batch ({BatchStatus(info.status).name})"
        if info.base_offset < next_offset or info.last_offset_delta < 0:
            return f"offset {info.base_offset} where {next_offset} or more is expected"
        if info.base_offset + info.last_offset_delta - segment.base_offset > MAX_RELATIVE_OFFSET:
            return f"offset {info.base_offset} is too far from the segment's first"
        return None

    def _only_zeros(self, segment: Segment, position: int, limit: int) -> bool:
        while position < limit:
            data = read_fully(self._files, segment.file.fileno, min(1 << 20, limit - position), position)
            if not data or data.count(0) != len(data):
                return False
            position += len(data)
        return True

    def _cut(self, index: int, segment: Segment, bad: _BadBatchError) -> None:
        path = segment.file.path
        if bad.next_offset < self._recovery_point:
            raise CorruptLogError(path, bad.position, f"{bad.reason}, below the recovery point {self._recovery_point}")
        dropped = self._segments[index + 1 :]
        limit = max(bad.limit, segment.size)
        valid = count_valid_batches(self._files, segment.file.fileno, bad.position, limit, bad.next_offset)
        for later in dropped:
            valid += count_valid_batches(self._files, later.file.fileno, 0, later.size, later.base_offset)
        lost = limit - bad.position + sum(later.size for later in dropped)
        self._report.cut = Cut(path, bad.position, bad.next_offset, bad.reason, lost, valid)
        if bad.position or not index:
            self._files.truncate(segment.file.fileno, bad.position)
            segment.size = bad.position
            self._segments = self._segments[: index + 1]
        else:
            dropped = self._segments[index:]
            self._segments = self._segments[:index]
        for later in dropped:
            later.close()
            later.unlink()

    # -- always -------------------------------------------------------------------------------------------------------

    def _rebuild_missing_indexes(self, names: Sequence[str]) -> None:
        """Sealed segments that nothing else has looked at: their index files must be there and whole."""
        sealed = self._segments[:-1] if self._clean else self._segments[: self._first_unflushed()]
        present = set(names) if sealed else set()
        for segment in sealed:
            if not self._has_indexes(segment, present):
                try:
                    self._rebuild(segment, None)
                except _BadBatchError as bad:
                    raise CorruptLogError(segment.file.path, bad.position, bad.reason) from bad
                self._unsynced += segment.seal()
                self._report.indexes_rebuilt.append(segment.offset_index.path)

    def _has_indexes(self, segment: Segment, names: Collection[str]) -> bool:
        for suffix, entry in ((OFFSET_INDEX_SUFFIX, OFFSET_ENTRY), (TIME_INDEX_SUFFIX, TIME_ENTRY)):
            name = offset_name(segment.base_offset, suffix)
            if name not in names or self._files.status(f"{self._folder}/{name}").size % entry.size:
                return False
        return True

    def _find_end(self) -> int:
        """Make the last segment ready for appends; the offset after its last batch."""
        if self._segments:
            end_offset = self._end_of(self._segments[-1])
            if end_offset >= self._log_start:
                return end_offset
            # The files that held the log's start are gone; there is nothing left to serve.
            for segment in self._segments:
                segment.close()
                segment.unlink()
            self._epochs.clear()
            self._producers.clear(self._log_start)
        preallocate = self._config.segment_bytes if self._config.preallocate else 0
        self._segments = [
            Segment.create(self._files, self._folder, self._log_start, created_ms=self._now_ms, preallocate=preallocate)
        ]
        return self._log_start

    def _end_of(self, active: Segment) -> int:
        if active.ready:
            return active.next_offset()
        if active.load_indexes():
            try:
                return active.next_offset()
            except CorruptLogError:
                pass  # the index may have led to a wrong place
        self._report.indexes_rebuilt.append(active.offset_index.path)
        try:
            return self._rebuild(active, None)
        except _BadBatchError as bad:
            raise CorruptLogError(active.file.path, bad.position, bad.reason) from bad

    def _load_producers(self, snapshots: SnapshotFiles, start_offset: int, end_offset: int) -> None:
        snapshots.remove_strays([segment.base_offset for segment in self._segments])
        if self._clean:
            snapshots.remove_outside(start_offset, end_offset)
            snapshots.load_latest(self._producers, start_offset, self._now_ms)
            rebuild_producers(self._files, SegmentList(self._segments), self._producers, start_offset, end_offset)
        self._producers.end_offset = end_offset
