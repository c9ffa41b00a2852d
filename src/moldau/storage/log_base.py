"""What all parts of a partition's log share: its state, its settings, and the way it gets a new segment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeAlias

from moldau.config.topic import TopicConfig
from moldau.storage.epochs import LeaderEpochCache
from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem, WritableBuffer, sync_file, write_file
from moldau.storage.flushing import FlushWork, PendingSync
from moldau.storage.index import OFFSET_ENTRY, TIME_ENTRY
from moldau.storage.producer_snapshots import SnapshotFiles
from moldau.storage.producer_state import ProducerChange, ProducerStates
from moldau.storage.segment import Segment
from moldau.storage.segment_list import SegmentList
from moldau.types.ids import NO_TIMESTAMP, TopicPartition

# batch, size, base offset, last offset, max timestamp, change of its producer's state
Staged: TypeAlias = tuple[WritableBuffer, int, int, int, int, ProducerChange | None]

_ASK_THE_CLOCK = NO_TIMESTAMP - 1  # below every timestamp


class LogBase:
    __slots__ = (
        "_config",
        "_deleted",
        "_failed",
        "_files",
        "_flush_messages",
        "_flushing",
        "_generation",
        "_has_epoch_file",
        "_index_interval",
        "_index_limit",
        "_is_whole_on_disk",
        "_jitter",
        "_opened_end",
        "_pending",
        "_read_ends",
        "_recently_read",
        "_recovery_limit",
        "_roll_after",
        "_segment_bytes",
        "_snapshots",
        "_staged",
        "_staged_bytes",
        "_staged_epoch",
        "_staged_epochs",
        "_staged_max_offset",
        "_staged_max_timestamp",
        "_staged_producers",
        "_wall_ms",
        "directory",
        "last_flush_ms",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "segments",
        "staged_end_offset",
        "topic_partition",
    )

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        segments: Iterable[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        leader_epochs: LeaderEpochCache,
        producers: ProducerStates,
        snapshots: SnapshotFiles,
        unsynced: list[str],
        is_whole_on_disk: bool,
        wall_ms: Callable[[], int],
        jitter: Callable[[int], int],
    ) -> None:
        """For `recovery`, which finds all this on disk. `is_whole_on_disk`: a start would find the same again."""
        self._files = files
        self.directory = directory
        self.topic_partition = topic_partition
        self.segments = SegmentList(segments)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.leader_epochs = leader_epochs
        self.producers = producers
        self._snapshots = snapshots
        self._wall_ms = wall_ms
        self._jitter = jitter
        self.last_flush_ms = wall_ms()
        self._failed: str | None = None
        self._is_whole_on_disk = is_whole_on_disk
        self._opened_end = log_end_offset
        self._read_ends: dict[int, tuple[Segment, int]] = {}
        self._recently_read: list[Segment] = []
        self._deleted: list[str] = []
        self._pending = PendingSync(map(os.path.basename, unsynced))
        self._generation = 0
        self._recovery_limit: int | None = None  # while a truncation is prepared
        self._has_epoch_file = files.exists(leader_epochs.path)
        self._flushing: list[FlushWork] = []
        self._staged: list[Staged] = []
        self._staged_epochs: list[tuple[int, int]] = []
        self._staged_epoch = leader_epochs.latest
        self._forget_staged()
        self.config = config

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self._segment_bytes = config.segment_bytes
        self._index_interval = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._index_limit = min(
            config.segment_index_bytes // OFFSET_ENTRY.size, config.segment_index_bytes // TIME_ENTRY.size - 1
        )
        self._roll_after = _ASK_THE_CLOCK  # until the next commit has looked closer

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def failed(self) -> bool:
        """An I/O error has hit this log: it takes no more batches."""
        return self._failed is not None

    @property
    def is_untouched(self) -> bool:
        """Nothing has happened to the log since it was opened that a start would not find on disk."""
        return (
            self._is_whole_on_disk
            and self._generation == 0
            and self.log_end_offset == self._opened_end
            and self._pending.is_as_at_first
            and self._has_only_empty_new_epochs
        )

    @property
    def _has_only_empty_new_epochs(self) -> bool:
        """The term of a leader that wrote nothing: the next one begins at the same offset and takes its place."""
        epochs = self.leader_epochs
        return epochs.version == 0 or (epochs.version == 1 and epochs.latest_start == self.log_end_offset)

    def bring_to_disk_too(self, names: Iterable[str]) -> None:
        """Files were written beside the records: the next flush takes care of them."""
        self._pending.add_files(names)
        self._pending.folder_changed()

    def roll(self) -> Segment:
        """Begin a new segment at the end of the log."""
        if self.segments.active.size:
            self._guarded(lambda: self._roll(self.log_end_offset))
        return self.segments.active

    def _roll(self, base_offset: int) -> None:
        old = self.segments.active
        if not old.size and old.base_offset == base_offset:
            return
        self._pending.add_files(map(os.path.basename, old.seal()))
        self._take_snapshot(base_offset)
        # What sealing wrote must be on disk before the recovery point passes the segment. If it has passed all of its
        # records already, that is now; otherwise it waits for a flush.
        if self.recovery_point >= self.log_end_offset:
            for name in self._pending.names:
                sync_file(self._files, f"{self.directory}/{name}")
        else:
            self._pending.segment_sealed(base_offset)
        self.segments.add(self._create_segment(base_offset))
        self._set_roll_time()

    def _create_segment(self, base_offset: int) -> Segment:
        config = self._config
        spread = min(config.segment_jitter_ms, config.segment_ms)
        self._pending.folder_changed()
        return Segment.create(
            self._files,
            self.directory,
            base_offset,
            created_ms=self._wall_ms(),
            jitter_ms=self._jitter(spread) if spread > 0 else 0,
            preallocate=config.segment_bytes if config.preallocate else 0,
        )

    def _take_snapshot(self, offset: int) -> None:
        self.producers.end_offset = offset
        if offset > self.log_start_offset:
            path = self._snapshots.take(self.producers)
            if path is not None:
                self._pending.add_files([os.path.basename(path)])

    def _show_epochs(self) -> None:
        """The first of a log's epochs is seen in its folder at once; what a flush brings to disk is what counts."""
        self._has_epoch_file = True
        write_file(self._files, self.leader_epochs.path, self.leader_epochs.encode(), sync=False)
        self._pending.folder_changed()

    def _set_roll_time(self) -> None:
        """Up to which record timestamp the active segment takes batches without a closer look."""
        active = self.segments.active
        first = active.first_timestamp if active.size else NO_TIMESTAMP
        self._roll_after = first + self._config.max_segment_ms - active.jitter_ms if first >= 0 else _ASK_THE_CLOCK

    def _forget_staged(self) -> None:
        if self._staged:
            self._staged = []
            self.producers.discard_staged()
        self._staged_bytes = 0
        self._staged_max_timestamp = NO_TIMESTAMP
        self._staged_max_offset = -1
        self._staged_producers = False
        if self._staged_epochs:
            self._staged_epochs = []
            self._staged_epoch = self.leader_epochs.latest
        self.staged_end_offset = self.log_end_offset

    def _guarded(self, action: Callable[[], object]) -> None:
        """Run something that touches the disk; an error ends this log's service."""
        try:
            action()
        except OSError as error:
            self._failed = str(error)
            raise LogIOError(error.filename or self.directory, error) from error
        except LogIOError as error:
            self._failed = str(error)
            raise
