"""The cleaning of one log: builds the offset map, then rewrites groups of segments into `.cleaned` files.

A job reads sealed segments only, which never change, and writes only new files, so it runs beside the log's owner, in
another process. It stops after each group until the owner has swapped that group in: the disk holds one extra group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from moldau.kernels import BatchStatus, check_batch, scan_batches
from moldau.storage.compaction.offset_map import OffsetMap
from moldau.storage.compaction.plan import SegmentShape, group_segments
from moldau.storage.compaction.rewrite import BatchFilter, LastRecord, PassRules, index_batch
from moldau.storage.compaction.transactions import CleanedTransactions
from moldau.storage.errors import CorruptLogError
from moldau.storage.files import Buffer, FileSystem, read_fully, sync_file
from moldau.storage.layout import CLEANED_SUFFIX, LOG_SUFFIX, offset_name
from moldau.storage.segment import Segment
from moldau.storage.txn_index import AbortedTxn
from moldau.wire.batch import HEADER_SIZE, parse_header
from moldau.wire.records import Batch

CHUNK_BYTES = 1 << 20

Pace = Callable[[int], None]
"""Told how many bytes were read or written; waits where that was too fast, raises where the job shall end."""


@dataclass(frozen=True, slots=True)
class CleaningJob:
    folder: str
    segments: tuple[SegmentShape, ...]
    """All below the first uncleanable offset, in order."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    aborted: tuple[AbortedTxn, ...] = ()
    last_records: tuple[tuple[int, int | None, int], ...] = ()
    """Of live producers: id, offset of the last data, epoch."""

    def to_json(self) -> dict[str, Any]:
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        values["segments"] = [[getattr(s, name) for name in SegmentShape.__slots__] for s in self.segments]
        return values

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CleaningJob:
        values = dict(values)
        values["segments"] = tuple(SegmentShape(*fields) for fields in values["segments"])
        values["aborted"] = tuple(AbortedTxn(*fields) for fields in values["aborted"])
        values["last_records"] = tuple(tuple(fields) for fields in values["last_records"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A `.cleaned` segment lies on disk, synced, and may take the place of the sources."""

    base_offset: int
    sources: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class CleaningResult:
    end_offset: int
    """Up to here the log is clean now."""
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int


def run_job(files: FileSystem, job: CleaningJob, pace: Pace) -> Iterator[CleanedGroup | CleaningResult]:
    """Gives each group as it is ready, at last the result. Blocks; raises OSError or CorruptLogError."""
    offsets = _build_map(files, job, pace)
    end_offset = offsets.latest_offset + 1
    rewritten = [segment for segment in job.segments if segment.base_offset < end_offset]
    groups = group_segments(
        rewritten,
        max_bytes=job.segment_bytes,
        max_index_bytes=job.segment_index_bytes,
        first_uncleanable_offset=job.first_uncleanable_offset,
    )
    rules = PassRules(
        job.now_ms,
        job.delete_retention_ms,
        job.first_uncleanable_offset,
        {producer_id: LastRecord(offset, epoch) for producer_id, offset, epoch in job.last_records},
    )
    start = job.segments[0].base_offset if job.segments else 0
    transactions = CleanedTransactions(job.aborted, start)
    batch_filter = BatchFilter(offsets, transactions, rules)
    bytes_read = bytes_written = 0
    for group in groups:
        size = _clean_group(files, job, group, batch_filter, transactions, pace)
        bytes_read += sum(segment.size for segment in group)
        bytes_written += size
        yield CleanedGroup(group[0].base_offset, tuple(segment.base_offset for segment in group), size)
    yield CleaningResult(
        end_offset,
        bytes_read,
        bytes_written,
        batch_filter.records_read,
        batch_filter.records_kept,
    )


def _build_map(files: FileSystem, job: CleaningJob, pace: Pace) -> OffsetMap:
    offsets = OffsetMap(job.map_bytes)
    transactions = CleanedTransactions(job.aborted, job.first_dirty_offset)
    ends = [segment.base_offset for segment in job.segments[1:]] + [job.first_uncleanable_offset]
    for segment, end in zip(job.segments, ends, strict=True):
        if end <= job.first_dirty_offset:
            continue
        for batch in _batches(files, job, segment, pace):
            if batch.header.last_offset < job.first_dirty_offset:
                continue
            if not index_batch(offsets, batch, transactions, job.first_dirty_offset):
                return offsets
        # Offsets may be missing at a segment's end, after an earlier cleaning.
        offsets.latest_offset = max(offsets.latest_offset, end - 1)
    return offsets


def _clean_group(
    files: FileSystem,
    job: CleaningJob,
    group: list[SegmentShape],
    batch_filter: BatchFilter,
    transactions: CleanedTransactions,
    pace: Pace,
) -> int:
    base_offset = group[0].base_offset
    target = Segment.create(files, job.folder, base_offset, created_ms=job.now_ms, suffix=CLEANED_SUFFIX)
    try:
        output = _Output(target, job.index_interval_bytes, pace)
        for segment in group:
            for batch in _batches(files, job, segment, pace):
                kept = batch_filter.apply(batch)
                if kept is not None:
                    output.append(kept)
        output.flush()
        for aborted in transactions.take_still_indexed():
            target.txn_index.append(aborted)
        index_paths = target.seal()
        files.fdatasync(target.file.fileno)
        for path in index_paths:
            sync_file(files, path)
        return target.size
    finally:
        target.close()


class _Output:
    """Gathers small batches into large writes."""

    def __init__(self, target: Segment, index_interval: int, pace: Pace) -> None:
        self._target = target
        self._index_interval = index_interval
        self._pace = pace
        self._waiting: list[Buffer] = []
        self._size = 0

    def append(self, batch: bytes | memoryview) -> None:
        self._waiting.append(bytes(batch))
        self._size += len(batch)
        if self._size >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        self._target.write(self._waiting, self._size)
        for batch in self._waiting:
            header = parse_header(batch)
            self._target.account(header.last_offset, header.size, header.max_timestamp, self._index_interval)
        self._pace(self._size)
        self._waiting, self._size = [], 0


def _batches(files: FileSystem, job: CleaningJob, segment: SegmentShape, pace: Pace) -> Iterator[Batch]:
    path = f"{job.folder}/{offset_name(segment.base_offset, LOG_SUFFIX)}"
    fd = files.open(path)
    try:
        position, wanted = 0, CHUNK_BYTES
        while position < segment.size:
            length = min(wanted, segment.size - position)
            data = read_fully(files, fd, length, position)
            places = scan_batches(data, 0, len(data)) if len(data) == length else []
            if not places:
                claimed = parse_header(data).size if len(data) >= HEADER_SIZE else 0
                if len(data) < length or not length < claimed <= segment.size - position:
                    raise CorruptLogError(path, position, "no whole record batch begins here")
                wanted = claimed
                continue
            view = memoryview(data)
            for _, _, at, size, _, _ in places:
                if check_batch(data, at, at + size, False)[0] != BatchStatus.OK:
                    # Rewriting would give the damage a right checksum.
                    raise CorruptLogError(path, position + at, "the checksum does not fit")
                yield Batch(parse_header(data, at), view[at : at + size])
            done = places[-1][2] + places[-1][3]
            position, wanted = position + done, CHUNK_BYTES
            pace(done)
    finally:
        files.close(fd)
