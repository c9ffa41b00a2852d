"""Opening every log of a log directory at start: in threads, with what is foreign or damaged set aside."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from moldau.config.topic import TopicConfig
from moldau.storage.checkpoints import PARTITION_METADATA, CorruptFileError, read_topic_id, write_topic_id_unsynced
from moldau.storage.errors import CorruptLogError, LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.folders import Folder, Mark, marked_name
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import Damaged, LogDirectory
from moldau.storage.opening import create_log, open_log
from moldau.types.ids import TopicPartition

log = logging.getLogger("moldau.storage.loading")

T = TypeVar("T")

# Opened one after the other in a thread: most logs are small, and handing each over would cost more than opening it.
FOLDERS_PER_LOT = 32


@dataclass(frozen=True, slots=True)
class LoadProgress:
    directory: str
    logs_loaded: int
    logs: int
    partition: TopicPartition
    bytes_checked: int
    """Of this partition, while its recovery runs."""
    bytes_to_check: int


@dataclass(frozen=True, slots=True)
class LoadRules:
    topic_config: Callable[[str], TopicConfig]
    is_known: Callable[[TopicPartition, UUID | None], bool]
    """Whether the cluster has this partition of this topic (None: a folder that does not tell its topic's id)."""
    on_progress: Callable[[LoadProgress], None]
    """Also called from other threads."""
    removes_strays: bool = False
    """What is set aside leaves the disk later. Only where the metadata are elsewhere and read to their end: what lies
    on the same disk may have lost a topic together with it."""


@dataclass(slots=True)
class LoadedDirectory:
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    futures: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, UUID | None] = field(default_factory=dict)
    damaged: dict[TopicPartition, Damaged] = field(default_factory=dict)
    doomed: list[str] = field(default_factory=list)
    """Folders that leave the disk after a while: deletions that were interrupted, and strays."""


@dataclass(frozen=True, slots=True)
class LogOpener:
    """How this broker opens a log; all of it blocks."""

    files: FileSystem
    wall_ms: Callable[[], int]
    new_uuid: Callable[[], UUID]
    jitter: Callable[[int], int]
    producer_expiry_ms: int

    def open(
        self,
        directory: LogDirectory,
        path: str,
        partition: TopicPartition,
        config: TopicConfig,
        *,
        is_new: bool = False,
        is_future: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> PartitionLog:
        starts, points = directory.log_start_offsets.on_disk, directory.recovery_points.on_disk
        if is_new or is_future:  # the checkpoints speak of the log in service
            starts = points = {}
        return open_log(
            self.files,
            path,
            partition,
            config,
            log_start_offset=starts.get(partition, 0),
            recovery_point=points.get(partition, 0),
            clean_shutdown=directory.was_clean and not is_new,
            cleaned_offset=0 if is_new or is_future else directory.cleaned_offsets.on_disk.get(partition, 0),
            wall_ms=self.wall_ms,
            producer_expiry_ms=self.producer_expiry_ms,
            jitter=self.jitter,
            progress=progress,
        )

    def create(self, path: str, partition: TopicPartition, topic_id: UUID, config: TopicConfig) -> PartitionLog:
        """A new log, of which nothing is known to be on disk: the first flush brings it there, its topic's id too."""
        self.files.make_directory(path)
        write_topic_id_unsynced(self.files, path, topic_id)
        return create_log(
            self.files,
            path,
            partition,
            config,
            unsynced=[PARTITION_METADATA],
            wall_ms=self.wall_ms,
            producer_expiry_ms=self.producer_expiry_ms,
            jitter=self.jitter,
        )


async def in_lanes(items: Iterable[T], action: Callable[[T], Awaitable[None]], lanes: int) -> None:
    """Does something with each item, a few at a time. Raises the first error when none is in the works any more."""
    waiting = iter(items)

    async def lane() -> None:
        for item in waiting:
            await action(item)

    ended = await asyncio.gather(*(lane() for _ in range(lanes)), return_exceptions=True)
    for error in ended:
        if error is not None:
            raise error


class DirectoryLoader:
    def __init__(
        self,
        directory: LogDirectory,
        opener: LogOpener,
        rules: LoadRules,
        run_blocking: Callable[[Callable[[], None]], Awaitable[None]],
        threads: int,
    ) -> None:
        self._directory = directory
        self._opener = opener
        self._rules = rules
        self._run_blocking = run_blocking
        self._threads = threads
        self._found = LoadedDirectory()
        self._loaded = 0
        self._total = 0

    async def load(self, folders: list[Folder]) -> LoadedDirectory:
        """Raises OSError or LogIOError if the disk fails; a log that is only damaged does not stop the others."""
        self._total = len(folders)
        if folders and not self._directory.was_clean:
            log.info("recovering %d logs in %s, which was not left in good order", len(folders), self._directory.path)

        async def load_lot(lot: Sequence[Folder]) -> None:
            await self._run_blocking(lambda: self._load_lot(lot))

        lots = [folders[start : start + FOLDERS_PER_LOT] for start in range(0, len(folders), FOLDERS_PER_LOT)]
        await in_lanes(lots, load_lot, self._threads)
        return self._found

    def _load_lot(self, lot: Sequence[Folder]) -> None:
        for folder in lot:
            self._load_one(folder)
            self._loaded += 1
            self._report(folder.partition, 0, 0)

    def _load_one(self, folder: Folder) -> None:
        path, partition = self._directory.join(folder.name), folder.partition
        try:
            if folder.mark is Mark.DELETE:
                self._found.doomed.append(path)
            elif folder.mark is Mark.STRAY:
                self._judge_stray(partition, path, self._topic_id(partition, path))
            else:
                self._open(folder, path)
        except (CorruptLogError, CorruptFileError) as error:
            log.error(
                "%s stays offline: %s; `moldau log repair %s` cuts it there, with the broker stopped",
                partition,
                error,
                path,
            )
            self._found.damaged[partition] = Damaged(path, str(error))

    def _open(self, folder: Folder, path: str) -> None:
        partition = folder.partition
        topic_id = self._topic_id(partition, path)
        if not self._rules.is_known(partition, topic_id):
            self._judge_stray(partition, self._set_aside(partition, path), topic_id)
            return
        opened = self._opener.open(
            self._directory,
            path,
            partition,
            self._rules.topic_config(partition.topic),
            is_future=folder.mark is Mark.FUTURE,
            progress=lambda done, total: self._report(partition, done, total),
        )
        if opened.recovery.cut is not None:
            log.warning("%s", opened.recovery.cut)
        if folder.mark is Mark.FUTURE:
            self._found.futures[partition] = opened
        else:
            self._found.logs[partition] = opened
            self._found.topic_ids[partition] = topic_id

    def _topic_id(self, partition: TopicPartition, path: str) -> UUID | None:
        try:
            return read_topic_id(self._opener.files, path)
        except CorruptFileError as error:
            if self._directory.recovery_points.on_disk.get(partition, 0):
                raise
            # Power went before the log's first flush: that is what would have brought the id to disk.
            log.warning("%s; its topic is taken to be the one of that name", error)
            return None

    def _judge_stray(self, partition: TopicPartition, path: str, topic_id: UUID | None) -> None:
        """It goes if the cluster says that it is not ours; not if nobody can say whose it is."""
        if self._rules.removes_strays and topic_id is not None and not self._rules.is_known(partition, topic_id):
            log.warning("%s is of no partition that this broker has; its deletion is planned", path)
            self._found.doomed.append(path)
        else:
            log.warning("%s is a stray partition; remove it if nobody misses its data", path)

    def _set_aside(self, partition: TopicPartition, path: str) -> str:
        target = self._directory.join(marked_name(partition, self._opener.new_uuid(), Mark.STRAY))
        log.warning("%s belongs to no topic of this cluster and is set aside as %s", path, target)
        try:
            self._opener.files.rename(path, target)
            self._opener.files.sync_directory(self._directory.path)
        except OSError as error:
            raise LogIOError(path, error) from error
        return target

    def _report(self, partition: TopicPartition, checked: int, to_check: int) -> None:
        self._rules.on_progress(
            LoadProgress(self._directory.path, self._loaded, self._total, partition, checked, to_check)
        )
