"""Reading from a log: where batches lie, by offset and by time. Data itself is left to the reader of the slice."""

from __future__ import annotations

from typing import NamedTuple

from moldau.kernels import check_batch, decode_records, seek_timestamp
from moldau.storage.epochs import EpochStart
from moldau.storage.errors import CorruptLogError, LogIOError, OffsetOutOfRangeError
from moldau.storage.files import read_fully
from moldau.storage.log_base import LogBase
from moldau.storage.segment import Segment
from moldau.storage.segment_file import SegmentFile
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
    segment_base: int


class FoundOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class LogReads(LogBase):
    __slots__ = ()

    def read(self, offset: int, max_bytes: int, max_offset: int, min_one: bool = True) -> LogSlice:
        """Whole batches from the one that contains an offset on, of one segment, none at or above `max_offset`.

        The first batch may be larger than `max_bytes` if `min_one` is set. The slice is empty if there is nothing.
        """
        end_offset = self.log_end_offset
        if offset < self.log_start_offset or offset > end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, end_offset)
        if offset >= max_offset or offset == end_offset:
            return self._empty(offset)
        try:
            known = self._read_ends.get(offset)
            if known is None:
                segment, position = self._locate(offset)
            else:
                segment, position = known
                if position >= segment.size:
                    segment, position = self._skip_to_data(segment, position)
            if max_offset >= end_offset and segment is self.segments.active:
                limit, next_offset = segment.size, end_offset
            else:
                limit, next_offset = self._limit(segment, position, max_offset)
            if limit - position > max_bytes:
                limit, next_offset = segment.last_boundary(position, position + max_bytes)
                if limit == position and min_one:
                    size = segment.batch_size(position)
                    limit, next_offset = segment.last_boundary(position, position + size)
        except OSError as error:
            raise LogIOError(self.directory, error) from error
        if limit <= position:
            return self._empty(offset)
        self._remember(next_offset, segment, limit)
        if segment is not self.segments.active:
            self._note_read(segment)
        return LogSlice(segment.file, position, limit - position, next_offset, segment.base_offset)

    def _empty(self, offset: int) -> LogSlice:
        active = self.segments.active
        return LogSlice(active.file, active.size, 0, offset, active.base_offset)

    def _locate(self, offset: int) -> tuple[Segment, int]:
        segment = self.segments.at(offset)
        position = segment.locate(offset)
        return self._skip_to_data(segment, segment.size if position < 0 else position)

    def _skip_to_data(self, segment: Segment, position: int) -> tuple[Segment, int]:
        """From the end of a segment to the start of the next one that holds anything."""
        while position >= segment.size:
            following = self.segments.after(segment)
            if following is None:
                break
            segment, position = following, 0
        return segment, position

    def _limit(self, segment: Segment, position: int, max_offset: int) -> tuple[int, int]:
        """Where reading this segment must end, and the offset that follows."""
        following = self.segments.after(segment)
        if following is None or max_offset < following.base_offset:
            known = self._read_ends.get(max_offset)
            if known is not None and known[0] is segment:
                return known[1], max_offset
            limit = segment.locate(max_offset, position)
            if limit >= 0:
                return limit, max_offset
        return segment.size, self.log_end_offset if following is None else following.base_offset

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        ends = self._read_ends
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

    def offset_for_timestamp(self, timestamp: int) -> FoundOffset | None:
        """The first record, in the order of offsets, that is as young as a timestamp or younger."""
        try:
            for segment in self.segments.starting_with(self.log_start_offset):
                if segment.max_timestamp >= timestamp:
                    found = self._find_timestamp(segment, timestamp)
                    if found is not None:
                        return found
        except OSError as error:
            raise LogIOError(self.directory, error) from error
        return None

    def _find_timestamp(self, segment: Segment, timestamp: int) -> FoundOffset | None:
        if segment is not self.segments.active:
            self._note_read(segment)
        start = self.log_start_offset
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
        try:
            return self._find_max_timestamp()
        except OSError as error:
            raise LogIOError(self.directory, error) from error

    def _find_max_timestamp(self) -> FoundOffset | None:
        segment = max(self.segments, key=lambda each: each.max_timestamp)
        timestamp = segment.max_timestamp
        if timestamp == NO_TIMESTAMP:
            return None
        position = segment.offset_index.floor(segment.max_timestamp_offset)
        for _, _, at, size, max_timestamp, _ in segment.headers(position):
            if max_timestamp == timestamp:
                return self._first_in_batch(segment, at, size, timestamp, 0)
        return None

    # -- epochs and transactions --------------------------------------------------------------------------------------

    def epoch_end_offset(self, epoch: int) -> EpochStart:
        """The largest epoch not above the asked one and the offset at which it ended; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        first = self.producers.first_unstable_offset()
        return None if first is None else max(first, self.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, and known to be so by all replicas in sync."""
        self.producers.high_watermark_moved(high_watermark)
        first = self.first_unstable_offset
        return high_watermark if first is None else min(first, high_watermark)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTxn]:
        """Aborted transactions with records between two offsets (the second excluded)."""
        found: list[AbortedTxn] = []
        for segment in self.segments.starting_with(start):
            aborted, complete = segment.txn_index.overlapping(start, end)
            found += aborted
            if complete:
                break
        return found
