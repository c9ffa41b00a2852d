"""A segment's aborted transactions, in Kafka's .txnindex format. Entries of 34 bytes, big-endian:

int16  version = 0
int64  producer id
int64  offset of the transaction's first record in this partition
int64  offset of its abort marker, which lies in this segment
int64  last stable offset when the marker was written

The file exists only if there is an entry.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct
from typing import NamedTuple

from moldau.storage.files import FileSystem, read_file, remove_if_exists, write_file, write_fully

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndex:
    """Kept in memory once looked at: aborted transactions are few."""

    __slots__ = ("_entries", "_files", "_written", "path")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path
        self._entries: list[AbortedTxn] | None = None
        self._written = 0

    @property
    def entries(self) -> list[AbortedTxn]:
        if self._entries is None:
            try:
                data = read_file(self._files, self.path)
            except FileNotFoundError:
                data = b""
            whole = data[: len(data) - len(data) % _ENTRY.size]
            self._entries = [AbortedTxn(*fields[1:]) for fields in _ENTRY.iter_unpack(whole)]
            self._written = len(self._entries)
        return self._entries

    def append(self, aborted: AbortedTxn) -> None:
        self.entries.append(aborted)

    def overlapping(self, start: int, end: int) -> tuple[list[AbortedTxn], bool]:
        """Aborted transactions with records in [start, end); and whether later segments can hold no more of them."""
        found: list[AbortedTxn] = []
        entries = self.entries
        first = bisect_left(entries, start, key=lambda entry: entry.last_offset)
        for position in range(first, len(entries)):
            aborted = entries[position]
            if aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return found, True
        return found, False

    def is_sane(self, base_offset: int) -> bool:
        return all(entry.last_offset >= base_offset for entry in self.entries)

    def truncate_to(self, offset: int) -> None:
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries):
            self._entries = kept
            if self._written > len(kept):
                self._rewrite(kept)

    def begin(self) -> None:
        """Become an empty index where none has been: it gets a file with its first entry."""
        self._entries = []

    def reset(self) -> None:
        self._entries = []
        self._rewrite([])

    def persist(self) -> None:
        if self._entries is not None and self._written < len(self._entries):
            fd = self._files.open(self.path, create=True)
            try:
                fresh = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self._entries[self._written :])
                write_fully(self._files, fd, fresh, self._written * _ENTRY.size)
            finally:
                self._files.close(fd)
            self._written = len(self._entries)

    def _rewrite(self, entries: list[AbortedTxn]) -> None:
        self._written = len(entries)
        if entries:
            write_file(self._files, self.path, b"".join(_ENTRY.pack(_VERSION, *e) for e in entries), sync=False)
        else:
            remove_if_exists(self._files, self.path)
