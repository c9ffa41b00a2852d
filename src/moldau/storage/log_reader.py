"""Reading from a log: where batches lie, by offset and by time. Data itself is left to the reader of the slice."""

from __future__ import annotations

from typing import NamedTuple

from moldau.kernels import check_batch, decode_records, seek_timestamp
from moldau.storage.errors import CorruptLogError, OffsetOutOfRangeError
from moldau.storage.files import FileSystem, read_fully
from moldau.storage.segment import Segment
from moldau.storage.segment_file import SegmentFile
from moldau.storage.segment_list import SegmentList
from moldau.storage.txn_index import AbortedTxn
from moldau.types.ids import NO_TIMESTAMP
from moldau.wire.batch import CODEC_MASK, HEADER_SIZE, LOG_APPEND_TIME_BIT
from moldau.wire.compression import decompress

_READ_ENDS_REMEMBERED = 128
_OPEN_FILES_KEPT = 4
_DECOMPRESSED_LIMIT = 1 << 30  # what is in the log was checked against a stricter limit when it came


class LogSlice(NamedTuple):
    """Where whole batches lie in a file. Who keeps it beyond the moment acquires the file, and releases it."""

    file: SegmentFile
    position: int
    length: int
    next_offset: int
    """The offset after the slice, where its reader goes on."""


class FoundOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class LogReader:
    """Remembers where readers left off, and which sealed segments were read last."""

    __slots__ = ("_ends", "_files", "_recently_read", "_segments")

    def __init__(self, files: FileSystem, segments: SegmentList) -> None:
        self._files = files
        self._segments = segments
        self._ends: dict[int, tuple[Segment, int]] = {}
        self._recently_read: list[Segment] = []

    def forget(self) -> None:
        """Segments have come, gone or been cut."""
        self._ends.clear()
        self._recently_read.clear()

    def was_read_recently(self, segment: Segment) -> bool:
        return segment in self._recently_read

    def read(
        self, offset: int, max_bytes: int, max_offset: int, start_offset: int, end_offset: int, min_one: bool
    ) -> LogSlice:
        """Whole batches of a log that has this start and end; see `PartitionLog.read`."""
        if offset < start_offset or offset > end_offset:
            raise OffsetOutOfRangeError(offset, start_offset, end_offset)
        if offset >= max_offset or offset == end_offset:
            return self._empty(offset)
        known = self._ends.get(offset)
        if known is None:
            segment, position = self._locate(offset)
        else:
            segment, position = known
            if position >= segment.size:
                segment, position = self._skip_to_data(segment, position)
        if max_offset >= end_offset and segment is self._segments.active:
            limit, next_offset = segment.size, end_offset
        else:
            limit, next_offset = self._limit(segment, position, max_offset, end_offset)
        if limit - position > max_bytes:
            limit, next_offset = segment.last_boundary(position, position + max_bytes)
            if limit == position and min_one:
                size = segment.batch_size(position)
                limit, next_offset = segment.last_boundary(position, position + size)
        if limit <= position:
            return self._empty(offset)
        self._remember(next_offset, segment, limit)
        if segment is not self._segments.active:
            self._note_read(segment)
        return LogSlice(segment.file, position, limit - position, next_offset)

    def _empty(self, offset: int) -> LogSlice:
        active = self._segments.active
        return LogSlice(active.file, active.size, 0, offset)

    def _locate(self, offset: int) -> tuple[Segment, int]:
        segment = self._segments.at(offset)
        position = segment.locate(offset)
        return self._skip_to_data(segment, segment.size if position < 0 else position)

    def _skip_to_data(self, segment: Segment, position: int) -> tuple[Segment, int]:
        """From the end of a segment to the start of the next one that holds anything."""
        while position >= segment.size:
            following = self._segments.after(segment)
            if following is None:
                break
            segment, position = following, 0
        return segment, position

    def _limit(self, segment: Segment, position: int, max_offset: int, end_offset: int) -> tuple[int, int]:
        """Where reading this segment must end, and the offset that follows."""
        following = self._segments.after(segment)
        if following is None or max_offset < following.base_offset:
            known = self._ends.get(max_offset)
            if known is not None and known[0] is segment:
                return known[1], max_offset
            limit = segment.locate(max_offset, position)
            if limit >= 0:
                return limit, max_offset
        return segment.size, end_offset if following is None else following.base_offset

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        ends = self._ends
        ends[offset] = (segment, position)
        if len(ends) > _READ_ENDS_REMEMBERED:
            del ends[next(iter(ends))]

    def _note_read(self, segment: Segment) -> None:
        """Of the segments that are complete, only those that were read last keep their files open."""
        recent = self._recently_read
        if segment not in recent:
            recent.append(segment)
            if len(recent) > _OPEN_FILES_KEPT:
                recent.pop(0).file.rest()

    # -- by time ------------------------------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp: int, start_offset: int) -> FoundOffset | None:
        """The first record, in the order of offsets, that is as young as a timestamp or younger."""
        for segment in self._segments.starting_with(start_offset):
            if segment.max_timestamp >= timestamp:
                found = self._find_timestamp(segment, timestamp, start_offset)
                if found is not None:
                    return found
        return None

    def _find_timestamp(self, segment: Segment, timestamp: int, start: int) -> FoundOffset | None:
        if segment is not self._segments.active:
            self._note_read(segment)
        entry = segment.time_index.floor(timestamp - 1)
        position = segment.offset_index.floor(max(entry.offset, start))
        for _, last_offset, at, size, max_timestamp, _ in segment.headers(position):
            if max_timestamp >= timestamp and last_offset >= start:
                found = self._first_in_batch(segment, at, size, timestamp, start)
                if found is not None:
                    return found
        return None

    def _first_in_batch(
        self, segment: Segment, position: int, size: int, timestamp: int, start: int
    ) -> FoundOffset | None:
        batch = read_fully(self._files, segment.file.fileno, size, position)
        fields = check_batch(batch, 0, len(batch), False)
        if fields[0]:
            raise CorruptLogError(segment.file.path, position, "the batch does not read back")
        _, _, base_offset, epoch, attributes, _, base_timestamp, max_timestamp, _, _, _, count, _, _, _ = fields
        records = memoryview(batch)[HEADER_SIZE:]
        payload = (
            decompress(attributes & CODEC_MASK, records, _DECOMPRESSED_LIMIT) if attributes & CODEC_MASK else records
        )
        least_delta = max(0, start - base_offset)
        if attributes & LOG_APPEND_TIME_BIT:
            deltas = [record[0] for record in decode_records(payload, count) if record[0] >= least_delta]
            return FoundOffset(base_offset + deltas[0], max_timestamp, epoch) if deltas else None
        found = seek_timestamp(payload, count, base_timestamp, timestamp, least_delta)
        return None if found is None else FoundOffset(base_offset + found[0], found[1], epoch)

    def max_timestamp(self) -> FoundOffset | None:
        """The first record that carries the largest timestamp of the log."""
        segment = max(self._segments, key=lambda each: each.max_timestamp)
        timestamp = segment.max_timestamp
        if timestamp == NO_TIMESTAMP:
            return None
        position = segment.offset_index.floor(segment.max_timestamp_offset)
        for _, _, at, size, max_timestamp, _ in segment.headers(position):
            if max_timestamp == timestamp:
                return self._first_in_batch(segment, at, size, timestamp, 0)
        return None

    # -- aborted transactions ------------------------------------------------------------------------------------------

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTxn]:
        """Aborted transactions with records between two offsets (the second excluded)."""
        found: list[AbortedTxn] = []
        for segment in self._segments.starting_with(start):
            aborted, complete = segment.txn_index.overlapping(start, end)
            found += aborted
            if complete:
                break
        return found
