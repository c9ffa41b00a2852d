"""One segment of a partition: its .log file, the indexes beside it, and what must be known to append and to roll."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from moldau.kernels import scan_batches, seek_batch
from moldau.storage.errors import CorruptLogError, LogIOError
from moldau.storage.files import MAX_BUFFERS_PER_WRITE, Buffer, FileSystem, remove_if_exists
from moldau.storage.index import OffsetIndex, TimeIndex
from moldau.storage.layout import (
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from moldau.storage.segment_file import SegmentFile
from moldau.storage.txn_index import TxnIndex
from moldau.types.ids import NO_TIMESTAMP
from moldau.wire.batch import HEADER_SIZE

# A look-up reads on from an index entry, and entries are 4 KB apart by default.
_LOOKUP_BYTES = 8192
# A scan mostly ends near the index entry where it began; one that does not is long.
_FIRST_SCAN_BYTES = 1 << 15
_SCAN_BYTES = 1 << 20

# Segments that stay small get no room ahead; those that grow get a quarter of what they have, within limits.
_RESERVE_FROM_BYTES = 4 << 20
_RESERVE_LEAST_BYTES = 1 << 20
_RESERVE_MOST_BYTES = 16 << 20

_UNKNOWN = -2  # a timestamp that has to be read from disk first


class Segment:
    __slots__ = (
        "_files",
        "_first_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_reserved_to",
        "_reserves",
        "_stem",
        "_suffix",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "file",
        "index_entries",
        "jitter_ms",
        "offset_index",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        base_offset: int,
        *,
        size: int,
        created_ms: int,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self._files = files
        self._stem = f"{folder}/{offset_name(base_offset, '')}"
        self._suffix = suffix
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.bytes_since_index = 0
        self.index_entries = 0
        self.file = SegmentFile(files, self.path(LOG_SUFFIX))
        self.offset_index = OffsetIndex(files, self.path(OFFSET_INDEX_SUFFIX), base_offset)
        self.time_index = TimeIndex(files, self.path(TIME_INDEX_SUFFIX), base_offset)
        self.txn_index = TxnIndex(files, self.path(TXN_INDEX_SUFFIX))
        self._first_timestamp = _UNKNOWN
        self._max_timestamp = _UNKNOWN
        self._max_timestamp_offset = base_offset
        self._reserves = False
        self._reserved_to: float = max(size, _RESERVE_FROM_BYTES)

    @classmethod
    def create(
        cls,
        files: FileSystem,
        folder: str,
        base_offset: int,
        *,
        created_ms: int,
        jitter_ms: int = 0,
        preallocate: int = 0,
        suffix: str = "",
    ) -> Segment:
        """Make the files of a new, empty segment that is ready for appends."""
        segment = cls(files, folder, base_offset, size=0, created_ms=created_ms, jitter_ms=jitter_ms, suffix=suffix)
        segment.file.create()
        files.truncate(segment.file.fileno, 0)
        if preallocate:
            files.allocate(segment.file.fileno, preallocate)
            segment._reserved_to = inf
        segment.reset_indexes()
        return segment

    @classmethod
    def create_first(cls, files: FileSystem, folder: str, *, created_ms: int, preallocate: int = 0) -> Segment:
        """The same in a folder that was just made: nothing can be in the way there."""
        segment = cls(files, folder, 0, size=0, created_ms=created_ms)
        segment.file.create()
        if preallocate:
            files.allocate(segment.file.fileno, preallocate)
            segment._reserved_to = inf
        segment.offset_index.begin()
        segment.time_index.begin()
        segment.txn_index.begin()
        segment._max_timestamp = NO_TIMESTAMP
        return segment

    def path(self, kind: str) -> str:
        return self._stem + kind + self._suffix

    # -- appending ----------------------------------------------------------------------------------------------------

    def write(self, buffers: Sequence[Buffer], total: int) -> None:
        """Append bytes to the file, all or nothing. `size` does not move: the caller publishes with `account`."""
        files, file, position = self._files, self.file, self.size
        try:
            fd = file.fileno
            if position + total > self._reserved_to:
                self._reserve(fd, position + total)
            if len(buffers) <= MAX_BUFFERS_PER_WRITE:
                written = files.pwritev(fd, buffers, position)
            else:
                written = 0
                for first in range(0, len(buffers), MAX_BUFFERS_PER_WRITE):
                    lump = buffers[first : first + MAX_BUFFERS_PER_WRITE]
                    wanted = sum(map(len, lump))
                    done = files.pwritev(fd, lump, position + written)
                    written += done
                    if done != wanted:
                        break
        except OSError as error:
            self._undo_write(error)
        else:
            if written != total:
                self._undo_write(f"only {written} of {total} bytes were written")

    def _reserve(self, fd: int, end: int) -> None:
        """Some room in proportion to what is there: nobody knows whether the segment goes on to grow."""
        ahead = min(max(self.size // 4, _RESERVE_LEAST_BYTES), _RESERVE_MOST_BYTES)
        self._reserves = self._files.reserve(fd, self.size, end - self.size + ahead)
        self._reserved_to = end + ahead if self._reserves else inf

    def _undo_write(self, reason: object) -> None:
        try:
            self._files.truncate(self.file.fileno, self.size)
        except OSError as error:
            reason = f"{reason}; and cutting the file back failed: {error}"
        raise LogIOError(self.file.path, reason) from (reason if isinstance(reason, OSError) else None)

    def account(self, last_offset: int, size: int, max_timestamp: int, index_interval: int) -> None:
        """Take note of one batch that has been written at the end of the file."""
        position = self.size
        if not position:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self.bytes_since_index > index_interval:
            self.offset_index.append(last_offset, position)
            self.time_index.append_if_later(self._max_timestamp, self._max_timestamp_offset)
            self.bytes_since_index = 0
            self.index_entries += 1
        self.bytes_since_index += size
        self.size = position + size

    def account_many(self, size: int, max_timestamp: int, max_timestamp_offset: int) -> None:
        """Like `account` for a group of batches too small for an index entry, in a segment that is not empty."""
        if max_timestamp > self.max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = max_timestamp_offset
        self.bytes_since_index += size
        self.size += size

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp of any batch, -1 if none has one."""
        if self._max_timestamp == _UNKNOWN:
            self._max_timestamp, self._max_timestamp_offset = self.time_index.last()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """Last offset of the first batch with the largest timestamp."""
        return self._max_timestamp_offset if self.max_timestamp != NO_TIMESTAMP else self.base_offset

    @property
    def first_timestamp(self) -> int:
        """Timestamp of the first batch, from which the segment's age is counted; -1 if there is none."""
        if self._first_timestamp == _UNKNOWN:
            self._first_timestamp = NO_TIMESTAMP
            if self.size >= HEADER_SIZE:
                head = self._files.pread(self.file.fileno, HEADER_SIZE, 0)
                self._first_timestamp = int.from_bytes(head[35:43], "big", signed=True)
        return self._first_timestamp

    def largest_timestamp(self) -> int:
        """What retention goes by: the newest record, or the file's time where records carry none."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._files.status(self.file.path).modified_ms

    # -- finding ------------------------------------------------------------------------------------------------------

    def locate(self, offset: int, start: int = 0) -> int:
        """Position of the first batch that ends at or after an offset, looking from a known batch position; or -1."""
        position = max(self.offset_index.floor(offset), start)
        limit, fd, pread = self.size, self.file.fileno, self._files.pread
        while position < limit:
            data = pread(fd, min(_LOOKUP_BYTES, limit - position), position)
            found, hop = seek_batch(data, 0, len(data), offset)
            if found:
                return position + hop
            if not hop:
                raise CorruptLogError(self.file.path, position, "no record batch begins here")
            position += hop
        return -1

    def last_boundary(self, start: int, limit: int) -> tuple[int, int]:
        """The end of the last batch that fits between two positions, and the offset that follows it.

        `start` begins a batch. If not even the first batch fits, (start, its base offset) is the answer.
        """
        position = max(self.offset_index.floor_position(limit), start)
        next_offset = -1
        fd, pread = self.file.fileno, self._files.pread
        while position + HEADER_SIZE <= limit:
            data = pread(fd, min(_LOOKUP_BYTES, limit - position), position)
            whole = scan_batches(data, 0, len(data))
            if whole:
                _, last_offset, at, size, _, _ = whole[-1]
                next_offset = last_offset + 1
                position += at + size
                continue
            size = 12 + int.from_bytes(data[8:12], "big", signed=True)
            if size < HEADER_SIZE:
                raise CorruptLogError(self.file.path, position, "no record batch begins here")
            if position + size > limit:
                break
            base_offset = int.from_bytes(data[0:8], "big", signed=True)
            next_offset = base_offset + int.from_bytes(data[23:27], "big", signed=True) + 1
            position += size
        if next_offset < 0:
            next_offset = self.base_offset_at(position)
        return position, next_offset

    def base_offset_at(self, position: int) -> int:
        return int.from_bytes(self._files.pread(self.file.fileno, 8, position), "big", signed=True)

    def batch_size(self, position: int) -> int:
        return 12 + int.from_bytes(self._files.pread(self.file.fileno, 4, position + 8), "big", signed=True)

    def headers(self, position: int = 0) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Header hop over whole batches: (base offset, last offset, position, size, max timestamp, leader epoch)."""
        limit, fd, wanted = self.size, self.file.fileno, _FIRST_SCAN_BYTES
        while position < limit:
            data = self._files.pread(fd, min(wanted, limit - position), position)
            wanted = _SCAN_BYTES
            whole = scan_batches(data, 0, len(data))
            if not whole and limit - position > len(data) >= HEADER_SIZE:
                size = 12 + int.from_bytes(data[8:12], "big", signed=True)
                data = self._files.pread(fd, min(max(size, 0), limit - position), position)
                whole = scan_batches(data, 0, len(data))
            if not whole:
                raise CorruptLogError(self.file.path, position, "no whole record batch begins here")
            for base_offset, last_offset, at, size, max_timestamp, epoch in whole:
                yield base_offset, last_offset, position + at, size, max_timestamp, epoch
            position += whole[-1][2] + whole[-1][3]

    def next_offset(self) -> int:
        """The offset after the last batch, found from the last index entry on."""
        last = self.offset_index.last()
        found = self.base_offset
        for _, last_offset, _, _, _, _ in self.headers(last.position if last else 0):
            found = last_offset + 1
        return found

    # -- life ---------------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the indexes are in memory, as appends need them."""
        return self.offset_index.loaded

    def load_indexes(self) -> bool:
        """Take the indexes into memory for appending; False if they cannot belong to this file."""
        self.offset_index.load()
        self.time_index.load()
        self.index_entries = self.offset_index.entries
        last = self.offset_index.last()
        self.bytes_since_index = self.size - (last.position if last else 0)
        return (
            self.offset_index.is_sane(max(self.size, 1))
            and self.time_index.is_sane()
            and self.txn_index.is_sane(self.base_offset)
        )

    def reset_indexes(self) -> None:
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self.bytes_since_index = 0
        self.index_entries = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset

    def truncate(self, position: int, offset: int) -> None:
        """Cut the file at a batch boundary; no batch at or after an offset remains."""
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.index_entries = self.offset_index.entries
        self._files.truncate(self.file.fileno, position)
        self._reserved_to = max(position, _RESERVE_FROM_BYTES)
        self.size = position
        self.bytes_since_index = 0
        if not position:
            self._first_timestamp = _UNKNOWN
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last()
        tail = self.offset_index.floor(self._max_timestamp_offset)
        for _, last_offset, _, _, max_timestamp, _ in self.headers(tail):
            if max_timestamp > self._max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset

    def persist_indexes(self) -> None:
        """Complete the index files, as Kafka leaves them: the last time entry is the segment's largest timestamp."""
        self.time_index.append_if_later(self.max_timestamp, self.max_timestamp_offset)
        self.offset_index.persist()
        self.time_index.persist()
        self.txn_index.persist()

    def seal(self) -> list[str]:
        """No more appends: complete the indexes and let go of their memory. Returns the files that need a sync."""
        self.max_timestamp  # noqa: B018  remembered before the index leaves memory
        self.persist_indexes()
        self.offset_index.seal()
        self.time_index.seal()
        paths = [self.offset_index.path, self.time_index.path]
        is_longer = self._files.size(self.file.fileno) != self.size
        if is_longer or self._reserves:  # space that was allocated ahead
            self._files.truncate(self.file.fileno, self.size)
            self._reserves = False
        if is_longer:
            paths.append(self.file.path)
        if self.txn_index.entries:
            paths.append(self.txn_index.path)
        return paths

    def change_suffix(self, suffix: str) -> None:
        """Rename all files, the .log first: it decides what a start after a crash makes of the others."""
        old = {kind: self.path(kind) for kind in (LOG_SUFFIX, *INDEX_SUFFIXES)}
        self._suffix = suffix
        for kind, path in old.items():
            if self._files.exists(path):
                self._files.rename(path, self.path(kind))
        self._name_parts()

    def moved_to(self, folder: str) -> None:
        """The partition's folder has been renamed."""
        self._stem = f"{folder}/{offset_name(self.base_offset, '')}"
        self._name_parts()

    def _name_parts(self) -> None:
        self.file.path = self.path(LOG_SUFFIX)
        self.offset_index.path = self.path(OFFSET_INDEX_SUFFIX)
        self.time_index.path = self.path(TIME_INDEX_SUFFIX)
        self.txn_index.path = self.path(TXN_INDEX_SUFFIX)

    def paths(self) -> list[str]:
        return [self.path(kind) for kind in (LOG_SUFFIX, *INDEX_SUFFIXES)]

    def close(self) -> None:
        self.file.close()

    def unlink(self) -> None:
        for path in self.paths():
            remove_if_exists(self._files, path)
