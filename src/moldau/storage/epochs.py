"""Where each leader epoch of a partition began, in Kafka's `leader-epoch-checkpoint`:

0                      version
<number of entries>
<epoch> <start offset>     one line per entry, both columns ascending

The file is brought up to date with the log's recovery point, not with each append: recovery reads the epochs of
everything above that point from the batches themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from moldau.storage.files import FileSystem, read_file
from moldau.storage.layout import LEADER_EPOCH_CHECKPOINT
from moldau.types.ids import NO_EPOCH, NO_OFFSET


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochCache:
    """`version` grows with each change; 0 is what the file holds."""

    __slots__ = ("_entries", "path", "version")

    def __init__(self, folder: str, entries: list[EpochStart] | None = None) -> None:
        self.path = f"{folder}/{LEADER_EPOCH_CHECKPOINT}"
        self._entries: list[EpochStart] = []
        self.version = 0
        for entry in entries or []:
            self.assign(*entry)
        self.version = 0

    @property
    def entries(self) -> list[EpochStart]:
        return list(self._entries)

    @property
    def latest(self) -> int:
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    @property
    def latest_start(self) -> int:
        return self._entries[-1].start_offset if self._entries else NO_OFFSET

    @property
    def earliest(self) -> EpochStart | None:
        return self._entries[0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """An epoch begins. Entries that contradict it, a later epoch or a later start, give way."""
        if epoch < 0 or (self._entries and self._entries[-1].epoch == epoch):
            return
        while self._entries and (self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        self._entries.append(EpochStart(epoch, start_offset))
        self.version += 1

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochStart:
        """The largest epoch not above the asked one, and the offset at which it ended; (-1, -1) if unknown."""
        entries = self._entries
        if epoch == NO_EPOCH or not entries or epoch > entries[-1].epoch:
            return EpochStart(NO_EPOCH, NO_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochStart(epoch, log_end_offset)
        above = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        floor_epoch = entries[above - 1].epoch if above else epoch
        return EpochStart(floor_epoch, entries[above].start_offset)

    def epoch_of(self, offset: int) -> int:
        """The epoch in which an offset was written; -1 if unknown."""
        above = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[above - 1].epoch if above else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.version += 1

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended before an offset; the one in force there starts there."""
        above = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if above > 1 or (above and self._entries[0].start_offset != start_offset):
            self._entries[:above] = [EpochStart(self._entries[above - 1].epoch, start_offset)]
            self.version += 1

    def clear(self) -> None:
        self._entries.clear()
        self.version += 1

    def moved_to(self, folder: str) -> None:
        self.path = f"{folder}/{LEADER_EPOCH_CHECKPOINT}"

    def encode(self) -> bytes:
        lines = ["0", str(len(self._entries)), *(f"{epoch} {start}" for epoch, start in self._entries)]
        return "".join(line + "\n" for line in lines).encode()


def load_epochs(files: FileSystem, folder: str) -> LeaderEpochCache:
    """An unreadable file counts as none: what it said can be read from the log."""
    cache = LeaderEpochCache(folder)
    try:
        lines = read_file(files, cache.path).decode("ascii").split("\n")
        pairs = [tuple(map(int, line.split(" "))) for line in lines[2 : 2 + int(lines[1])]]
        return LeaderEpochCache(folder, [EpochStart(epoch, start) for epoch, start in pairs])
    except (FileNotFoundError, ValueError, IndexError):
        return cache
