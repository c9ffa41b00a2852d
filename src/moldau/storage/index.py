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

from moldau.storage.files import FileSystem, read_file, write_fully
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

    def create(self) -> None:
        self._files.close(self._files.open(self.path, create=True))

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

    def begin(self) -> None:
        """Become an empty index where none has been."""
        self._offsets = array("i")
        self._file.create()

    def reset(self) -> None:
        """Become an empty index in memory, and on disk."""
        self._offsets = array("i")
        self._positions = array("i")
        self._written = 0
        self._file.truncate(0)

    def is_sane(self, log_size: int) -> bool:
        """Whether the last of the loaded entries can belong to a log of this size."""
        offsets, positions = self._loaded(), self._positions
        if len(offsets) > 1 and not (offsets[-2] < offsets[-1] and positions[-2] < positions[-1]):
            return False
        return not offsets or (offsets[-1] >= 0 and 0 <= positions[-1] < log_size)

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
    """In memory the entries stay packed: they are many, and seldom looked up."""

    __slots__ = ("_base_offset", "_file", "_packed", "_written")

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        self._file = _EntryFile(files, path, TIME_ENTRY.size)
        self._base_offset = base_offset
        self._packed: bytearray | None = None
        self._written = 0

    @property
    def path(self) -> str:
        return self._file.path

    @path.setter
    def path(self, path: str) -> None:
        self._file.path = path

    def load(self) -> None:
        self._packed = bytearray(self._file.read_all())
        self._written = self.entries

    def begin(self) -> None:
        self._packed = bytearray()
        self._file.create()

    def reset(self) -> None:
        self._packed = bytearray()
        self._written = 0
        self._file.truncate(0)

    def is_sane(self) -> bool:
        """Whether the last of the loaded entries can be one."""
        count = self.entries
        if count > 1 and not self._entry(count - 2) < self._entry(count - 1):
            return False
        return not count or (self._entry(count - 1)[0] > NO_TIMESTAMP and self._entry(count - 1)[1] >= 0)

    @property
    def entries(self) -> int:
        return self._file.count() if self._packed is None else len(self._packed) // TIME_ENTRY.size

    def append_if_later(self, timestamp: int, offset: int) -> None:
        packed = self._loaded()
        count = len(packed) // TIME_ENTRY.size
        if timestamp <= (self._entry(count - 1)[0] if count else NO_TIMESTAMP):
            return
        packed += TIME_ENTRY.pack(timestamp, offset - self._base_offset)
        if count + 1 - self._written >= _LUMP:
            self.persist()

    def floor(self, timestamp: int) -> TimeEntry:
        """The last entry at or before a timestamp: all batches up to its offset are older or as old."""
        if self._packed is None:
            found = self._file.search(TIME_ENTRY, 0, timestamp, or_equal=True)
            return self._absolute(found) if found else self._none()
        slot = bisect_right(range(self.entries), timestamp, key=lambda index: self._entry(index)[0])
        return self._absolute(self._entry(slot - 1)) if slot else self._none()

    def last(self) -> TimeEntry:
        if self._packed is None:
            found = self._file.last(TIME_ENTRY)
            return self._absolute(found) if found else self._none()
        return self._absolute(self._entry(self.entries - 1)) if self._packed else self._none()

    def truncate_to(self, offset: int) -> None:
        if self._packed is None:
            self.load()
        packed, relative = self._loaded(), offset - self._base_offset
        keep = bisect_left(range(self.entries), relative, key=lambda index: self._entry(index)[1])
        del packed[keep * TIME_ENTRY.size :]
        if self._written > keep:
            self._written = keep
            self._file.truncate(keep)

    def persist(self) -> None:
        packed = self._loaded()
        if self._written < self.entries:
            self._file.write(self._written, bytes(packed[self._written * TIME_ENTRY.size :]))
            self._written = self.entries

    def seal(self) -> None:
        if self._packed is not None:
            self.persist()
            self._packed = None

    def _loaded(self) -> bytearray:
        if self._packed is None:
            raise ValueError(f"{self._file.path} is sealed")
        return self._packed

    def _entry(self, index: int) -> tuple[int, ...]:
        return TIME_ENTRY.unpack_from(self._loaded(), index * TIME_ENTRY.size)

    def _absolute(self, entry: tuple[int, ...]) -> TimeEntry:
        return TimeEntry(entry[0], self._base_offset + entry[1])

    def _none(self) -> TimeEntry:
        return TimeEntry(NO_TIMESTAMP, self._base_offset)
