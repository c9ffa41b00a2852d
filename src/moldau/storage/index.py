"""The two sparse indexes of a segment, in Kafka's format, big-endian, sorted by both columns:

offset index   int32 last offset of a batch - base offset of the segment
               int32 position in the .log file at which that batch begins
time index     int64 largest timestamp of the segment up to here
               int32 last offset of the first batch that carries it - base offset of the segment

The active segment keeps its entries in memory and appends them to the file in lumps: they are never needed from there
after a crash, since recovery builds the indexes of unflushed segments anew. A sealed segment keeps nothing in memory
and holds no file open; a look-up is a binary search with a few small reads.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import NamedTuple

from moldau.storage.files import FileSystem, read_file, remove_if_exists, write_fully
from moldau.types.ids import NO_TIMESTAMP

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")

MAX_RELATIVE_OFFSET = 2**31 - 1
_LUMP = 512  # entries kept back before a write


class IndexEntry(NamedTuple):
    offset: int
    position: int


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


class _EntryFile:
    """A file of entries of one size. Opened for the moment of its use only: a broker has ten thousands of them."""

    __slots__ = ("_entry_size", "_files", "path")

    def __init__(self, files: FileSystem, path: str, entry_size: int) -> None:
        self._files = files
        self.path = path
        self._entry_size = entry_size

    def read_all(self) -> bytes:
        try:
            data = read_file(self._files, self.path)
        except FileNotFoundError:
            return b""
        return data[: len(data) - len(data) % self._entry_size]

    def count(self) -> int:
        try:
            return self._files.status(self.path).size // self._entry_size
        except FileNotFoundError:
            return 0

    def write(self, first_entry: int, data: bytes) -> None:
        fd = self._files.open(self.path, create=True)
        try:
            write_fully(self._files, fd, data, first_entry * self._entry_size)
        finally:
            self._files.close(fd)

    def truncate(self, entries: int) -> None:
        fd = self._files.open(self.path, create=True)
        try:
            self._files.truncate(fd, entries * self._entry_size)
        finally:
            self._files.close(fd)

    def search(self, entry: Struct, column: int, target: int, *, or_equal: bool) -> tuple[int, ...] | None:
        """The last entry whose column is below (or equal to) the target."""
        try:
            fd = self._files.open(self.path)
        except FileNotFoundError:
            return None
        try:
            low, high = 0, self._files.size(fd) // entry.size
            found: tuple[int, ...] | None = None
            while low < high:
                middle = (low + high) // 2
                values = entry.unpack(self._files.pread(fd, entry.size, middle * entry.size))
                if values[column] < target or (or_equal and values[column] == target):
                    found = values
                    low = middle + 1
                else:
                    high = middle
            return found
        finally:
            self._files.close(fd)

    def last(self, entry: Struct) -> tuple[int, ...] | None:
        count = self.count()
        if not count:
            return None
        fd = self._files.open(self.path)
        try:
            return entry.unpack(self._files.pread(fd, entry.size, (count - 1) * entry.size))
        finally:
            self._files.close(fd)


class OffsetIndex:
    __slots__ = ("_base_offset", "_file", "_offsets", "_positions", "_written")

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        self._file = _EntryFile(files, path, OFFSET_ENTRY.size)
        self._base_offset = base_offset
        self._offsets: array[int] | None = None
        self._positions: array[int] = array("i")
        self._written = 0

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    @property
    def loaded(self) -> bool:
        return self._offsets is not None

    def load(self) -> None:
        """Take the file's entries into memory; from here on entries may be appended."""
        flat = array("i", self._file.read_all())
        if sys.byteorder == "little":
            flat.byteswap()
        self._offsets = flat[0::2]
        self._positions = flat[1::2]
        self._written = len(self._offsets)

    def reset(self) -> None:
        """Become an empty index in memory, and on disk."""
        self._offsets = array("i")
        self._positions = array("i")
        self._written = 0
        self._file.truncate(0)

    def is_sane(self, log_size: int) -> bool:
        """Whether loaded entries ascend and stay within the log: pages that never reached the disk read as zeros."""
        offsets, positions = self._loaded(), self._positions
        return (
            all(map(int.__lt__, offsets, offsets[1:]))
            and all(map(int.__lt__, positions, positions[1:]))
            and (not offsets or (offsets[0] >= 0 and positions[0] >= 0 and positions[-1] < log_size))
        )

    @property
    def entries(self) -> int:
        return self._file.count() if self._offsets is None else len(self._offsets)

    def append(self, offset: int, position: int) -> None:
        offsets = self._loaded()
        offsets.append(offset - self._base_offset)
        self._positions.append(position)
        if len(offsets) - self._written >= _LUMP:
            self.persist()

    def floor(self, offset: int) -> int:
        """Position of the last indexed batch that ends at or before an offset; 0 if there is none."""
        offsets = self._offsets
        relative = offset - self._base_offset
        if offsets is None:
            found = self._file.search(OFFSET_ENTRY, 0, relative, or_equal=True)
            return found[1] if found else 0
        slot = bisect_right(offsets, relative)
        return self._positions[slot - 1] if slot else 0

    def floor_position(self, position: int) -> int:
        """Position of the last indexed batch that begins at or before a position; 0 if there is none."""
        if self._offsets is None:
            found = self._file.search(OFFSET_ENTRY, 1, position, or_equal=True)
            return found[1] if found else 0
        slot = bisect_right(self._positions, position)
        return self._positions[slot - 1] if slot else 0

    def last(self) -> IndexEntry | None:
        if self._offsets is None:
            found = self._file.last(OFFSET_ENTRY)
            return IndexEntry(self._base_offset + found[0], found[1]) if found else None
        if not self._offsets:
            return None
        return IndexEntry(self._base_offset + self._offsets[-1], self._positions[-1])

    def truncate_to(self, offset: int) -> None:
        """Forget batches that end at or after an offset. Loads the index: its segment becomes the active one."""
        if self._offsets is None:
            self.load()
        offsets = self._loaded()
        keep = bisect_left(offsets, offset - self._base_offset)
        del offsets[keep:], self._positions[keep:]
        if self._written > keep:
            self._written = keep
            self._file.truncate(keep)

    def persist(self) -> None:
        """Write out what is in memory only."""
        offsets = self._loaded()
        if self._written < len(offsets):
            flat = array("i", bytes(4 * 2 * (len(offsets) - self._written)))
            flat[0::2] = offsets[self._written :]
            flat[1::2] = self._positions[self._written :]
            if sys.byteorder == "little":
                flat.byteswap()
            self._file.write(self._written, flat.tobytes())
            self._written = len(offsets)

    def seal(self) -> None:
        if self._offsets is not None:
            self.persist()
            self._offsets = None
            self._positions = array("i")

    def _loaded(self) -> array[int]:
        if self._offsets is None:
            raise ValueError(f"{self._file.path} is sealed")
        return self._offsets


class TimeIndex:
    __slots__ = ("_base_offset", "_file", "_offsets", "_timestamps", "_written")

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        self._file = _EntryFile(files, path, TIME_ENTRY.size)
        self._base_offset = base_offset
        self._timestamps: array[int] | None = None
        self._offsets: array[int] = array("i")
        self._written = 0

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    def load(self) -> None:
        entries = list(TIME_ENTRY.iter_unpack(self._file.read_all()))
        self._timestamps = array("q", [entry[0] for entry in entries])
        self._offsets = array("i", [entry[1] for entry in entries])
        self._written = len(entries)

    def reset(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self._written = 0
        self._file.truncate(0)

    def is_sane(self) -> bool:
        timestamps, offsets = self._loaded(), self._offsets
        return (
            all(map(int.__lt__, timestamps, timestamps[1:]))
            and all(map(int.__le__, offsets, offsets[1:]))
            and (not timestamps or (timestamps[0] > NO_TIMESTAMP and offsets[0] >= 0))
        )

    @property
    def entries(self) -> int:
        return self._file.count() if self._timestamps is None else len(self._timestamps)

    def append_if_later(self, timestamp: int, offset: int) -> None:
        timestamps = self._loaded()
        if timestamp <= (timestamps[-1] if timestamps else NO_TIMESTAMP):
            return
        timestamps.append(timestamp)
        self._offsets.append(offset - self._base_offset)
        if len(timestamps) - self._written >= _LUMP:
            self.persist()

    def floor(self, timestamp: int) -> TimeEntry:
        """The last entry at or before a timestamp: all batches up to its offset are older or as old."""
        timestamps = self._timestamps
        if timestamps is None:
            found = self._file.search(TIME_ENTRY, 0, timestamp, or_equal=True)
            return TimeEntry(found[0], self._base_offset + found[1]) if found else self._none()
        slot = bisect_right(timestamps, timestamp)
        return TimeEntry(timestamps[slot - 1], self._base_offset + self._offsets[slot - 1]) if slot else self._none()

    def last(self) -> TimeEntry:
        if self._timestamps is None:
            found = self._file.last(TIME_ENTRY)
            return TimeEntry(found[0], self._base_offset + found[1]) if found else self._none()
        if not self._timestamps:
            return self._none()
        return TimeEntry(self._timestamps[-1], self._base_offset + self._offsets[-1])

    def truncate_to(self, offset: int) -> None:
        if self._timestamps is None:
            self.load()
        timestamps = self._loaded()
        keep = bisect_left(self._offsets, offset - self._base_offset)
        del timestamps[keep:], self._offsets[keep:]
        if self._written > keep:
            self._written = keep
            self._file.truncate(keep)

    def persist(self) -> None:
        timestamps = self._loaded()
        if self._written < len(timestamps):
            fresh = zip(timestamps[self._written :], self._offsets[self._written :], strict=True)
            self._file.write(self._written, b"".join(TIME_ENTRY.pack(*entry) for entry in fresh))
            self._written = len(timestamps)

    def seal(self) -> None:
        if self._timestamps is not None:
            self.persist()
            self._timestamps = None
            self._offsets = array("i")

    def _loaded(self) -> array[int]:
        if self._timestamps is None:
            raise ValueError(f"{self._file.path} is sealed")
        return self._timestamps

    def _none(self) -> TimeEntry:
        return TimeEntry(NO_TIMESTAMP, self._base_offset)


def remove_index(files: FileSystem, index: OffsetIndex | TimeIndex) -> None:
    remove_if_exists(files, index.path)
