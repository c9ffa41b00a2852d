"""A partition's log as a list of (epoch, value), one record per offset: what replication needs of one, without files.

Epochs are kept by the real cache. What `read` gives is a slice of the list, which `append_as_follower` of another log
takes as if it were bytes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from moldau.storage.epochs import EpochStart, LeaderEpochCache
from moldau.storage.errors import OffsetOutOfRangeError, RefusedBatchError
from moldau.storage.log import LogSlice
from moldau.types.errors import ErrorCode

Entry = tuple[int, int]


class ModelLog:
    def __init__(self, min_insync_replicas: int) -> None:
        self.config = SimpleNamespace(
            min_insync_replicas=min_insync_replicas,
            unclean_leader_election_enable=False,
            leader_replication_throttled_replicas=(),
        )
        self.entries: list[Entry] = []
        self.log_start_offset = 0
        self.leader_epochs = LeaderEpochCache("/nowhere")
        self.version = 0
        self.segments = SimpleNamespace(active=SimpleNamespace(file=None, size=0))

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    def begin_epoch(self, epoch: int) -> None:
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def flush_required(self) -> bool:
        return False

    def discard_staged(self) -> None: ...

    def last_stable_offset(self, mark: int) -> int:
        return mark

    def advance_log_start(self, offset: int) -> None:
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)

    def epoch_end_offset(self, epoch: int) -> EpochStart:
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def append(self, epoch: int, value: int) -> int:
        self.leader_epochs.assign(epoch, self.log_end_offset)
        self.entries.append((epoch, value))
        self.version += 1
        return self.log_end_offset - 1

    def read(self, offset: int, max_bytes: int, max_offset: int, min_one: bool = True) -> LogSlice:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        count = max(0, min(max_bytes, max_offset - offset))
        file: Any = SimpleNamespace(acquire=lambda: None, entries=tuple(self.entries[offset : offset + count]))
        return LogSlice(file, offset, count, offset + count)

    def append_as_follower(self, sent: Any, leader_epoch: int) -> Any:
        first_offset, entries = sent
        if first_offset != self.log_end_offset or any(epoch > leader_epoch for epoch, _ in entries):
            raise RefusedBatchError(ErrorCode.UNKNOWN_SERVER_ERROR, "not what comes next")
        for epoch, value in entries:
            self.append(epoch, value)
        return SimpleNamespace(rolled=False)

    def truncate_to(self, offset: int) -> None:
        if offset < self.log_end_offset:
            del self.entries[offset:]
            self.version += 1
        self.leader_epochs.truncate_from_end(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        raise AssertionError("nobody deletes records here")
