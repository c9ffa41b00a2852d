"""The logs of a broker by partition: which there are, how one is made, how one goes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.storage.checkpoints import PARTITION_METADATA, read_topic_id, write_topic_id_unsynced
from moldau.storage.compaction.runner import JobRunner
from moldau.storage.duties import LogDuties, RunBlocking
from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.folders import Mark, folder_name, marked_name
from moldau.storage.loading import LogOpener
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import Damaged, LogDirectory
from moldau.types.ids import TopicPartition

log = logging.getLogger("moldau.storage.registry")

# New logs that are made in one go in a thread.
LOGS_PER_LOT = 64


@dataclass(frozen=True, slots=True)
class NewLog:
    partition: TopicPartition
    topic_id: UUID
    config: TopicConfig


class LogRegistry(LogDuties):
    def __init__(
        self,
        files: FileSystem,
        config: BrokerConfig,
        *,
        run_blocking: RunBlocking,
        wall_ms: Callable[[], int],
        new_uuid: Callable[[], UUID],
        jitter: Callable[[int], int],
        new_runner: Callable[[], JobRunner],
    ) -> None:
        super().__init__(files, config, run_blocking=run_blocking, wall_ms=wall_ms, new_runner=new_runner)
        self.new_uuid = new_uuid
        self._jitter = jitter
        self._topic_ids: dict[TopicPartition, UUID | None] = {}
        self._preferred: dict[TopicPartition, str] = {}

    def opener(self) -> LogOpener:
        return LogOpener(self.files, self.wall_ms, self.new_uuid, self._jitter, self.config.producer_id_expiration_ms)

    def damage_of(self, partition: TopicPartition) -> str | None:
        """Why the partition's log could not be opened at start."""
        damaged = self._find_damaged(partition)
        return None if damaged is None else damaged.problem

    def _find_damaged(self, partition: TopicPartition) -> Damaged | None:
        return next((each.damaged[partition] for each in self.directories if partition in each.damaged), None)

    def topic_id(self, partition: TopicPartition) -> UUID | None:
        return self._topic_ids.get(partition)

    def read_topic_id(self, found: PartitionLog) -> UUID | None:
        return read_topic_id(self.files, found.directory)

    async def prepare(self, new: Iterable[NewLog]) -> None:
        """Makes the logs of new partitions without blocking the loop; `get_or_create` finds them done."""
        wanted: dict[str, list[NewLog]] = {}
        for count, each in enumerate(new, 1):
            if count % LOGS_PER_LOT == 0:
                await asyncio.sleep(0)
            if each.partition not in self._logs and self._find_damaged(each.partition) is None:
                directory = self._choose_directory(each.partition, wanted)
                wanted.setdefault(directory.path, []).append(each)
        await asyncio.gather(*(self._create(self.directory_at(path), lot) for path, lot in wanted.items()))

    async def _create(self, directory: LogDirectory, wanted: Sequence[NewLog]) -> None:
        """One lot after the other: threads that make files side by side would only fight for the interpreter. The
        folders' names are on disk at the end, so that none of them can be taken for one of an earlier topic."""
        try:
            for forget in directory.forget([new.partition for new in wanted]):
                await self.run_blocking(forget)
            for start in range(0, len(wanted), LOGS_PER_LOT):
                lot = wanted[start : start + LOGS_PER_LOT]
                created = await self.run_blocking(self._creation(directory, lot))
                for new, made in zip(lot, created, strict=True):
                    if new.partition in self._logs or directory.offline:
                        made.close(clean=False)
                    else:
                        self.register(directory, made, new.topic_id)
            await self.run_blocking(lambda: self.files.sync_directory(directory.path))
        except (OSError, LogIOError) as error:
            self.fail_directory(directory, error)

    def get_or_create(
        self, partition: TopicPartition, topic_id: UUID, config: TopicConfig, *, is_new: bool = False
    ) -> PartitionLog:
        """The log of a partition; blocks for a sync if it has to be made. Raises LogIOError where it is offline.

        A log that is not new is not made while a directory is offline: it may lie there.
        """
        found = self._logs.get(partition)
        if found is not None and self._topic_ids.get(partition) not in (topic_id, None):
            log.warning("%s holds data of another topic of that name and is set aside", found.directory)
            self.delete(partition, Mark.STRAY)
            found, is_new = None, True
        damaged = self._find_damaged(partition)
        if damaged is not None:
            raise LogIOError(damaged.path, damaged.problem)
        if found is None:
            found = self._create_here(NewLog(partition, topic_id, config), is_new=is_new)
        elif self._topic_ids.get(partition) is None:
            write_topic_id_unsynced(self.files, found.directory, topic_id)
            found.bring_to_disk_too([PARTITION_METADATA])
            self._topic_ids[partition] = topic_id
        if found.config is not config:
            found.config = config
        return found

    def _create_here(self, new: NewLog, *, is_new: bool) -> PartitionLog:
        offline = [directory.path for directory in self.directories if directory.offline]
        if offline and not is_new:
            reason = f"Can not create log for {new.partition} because log directories {','.join(offline)} are offline"
            raise LogIOError(offline[0], reason)
        directory = self._choose_directory(new.partition, {})
        try:
            for forget in directory.forget([new.partition]):
                forget()
            [created] = self._creation(directory, [new])()
            self.files.sync_directory(directory.path)
        except (OSError, LogIOError) as error:
            self.fail_directory(directory, error)
            raise LogIOError(directory.path, error) from error
        self.register(directory, created, new.topic_id)
        return created

    def _creation(self, directory: LogDirectory, lot: Sequence[NewLog]) -> Callable[[], list[PartitionLog]]:
        opener = self.opener()

        def create(new: NewLog) -> PartitionLog:
            path = directory.join(folder_name(new.partition))
            if self.files.exists(path):  # an earlier attempt got this far
                write_topic_id_unsynced(self.files, path, new.topic_id)
                found = opener.open(directory, path, new.partition, new.config, is_new=True)
                found.bring_to_disk_too([PARTITION_METADATA])
                return found
            return opener.create(path, new.partition, new.topic_id, new.config)

        return lambda: [create(new) for new in lot]

    def _choose_directory(self, partition: TopicPartition, lots: Mapping[str, Sequence[NewLog]]) -> LogDirectory:
        """The directory the log was asked into, else the one with the fewest logs."""
        live = [directory for directory in self.directories if not directory.offline]
        if not live:
            raise LogIOError(folder_name(partition), "no log directory is online")
        preferred = self._preferred.pop(partition, None)
        wanted = [directory for directory in live if directory.path == preferred]
        if wanted:
            return wanted[0]
        return min(live, key=lambda each: len(each.logs) + len(each.futures) + len(lots.get(each.path, ())))

    def prefer_directory(self, partition: TopicPartition, path: str) -> None:
        """Where the log of this partition shall be made when it comes."""
        self._preferred[partition] = path

    def register(self, directory: LogDirectory, registered: PartitionLog, topic_id: UUID | None) -> None:
        partition = registered.topic_partition
        self._logs[partition] = directory.logs[partition] = registered
        self._topic_ids[partition] = topic_id

    def delete(self, partition: TopicPartition, mark: Mark = Mark.DELETE) -> None:
        """Takes a log out of service at once; its files leave the disk after `file.delete.delay.ms`."""
        self.cleaner.cancel(partition)
        self._preferred.pop(partition, None)
        self._topic_ids.pop(partition, None)
        gone = self._logs.pop(partition, None)
        if gone is not None:
            self.retire(gone, mark)
        for directory in self.directories:
            damaged = directory.damaged.pop(partition, None)
            if damaged is not None:
                self.rename_folder(damaged.path, partition, mark)

    def retire(self, retired: PartitionLog, mark: Mark) -> None:
        """Takes a log out of service and its folder out of the way. Who still reads from it is not disturbed."""
        partition = retired.topic_partition
        retired.close(clean=False)
        self.directory_of(retired).logs.pop(partition, None)
        if self._logs.get(partition) is retired:
            del self._logs[partition]
        path = self.rename_folder(retired.directory, partition, mark)
        if path is not None:
            retired.moved_to(path)

    def rename_folder(self, path: str, partition: TopicPartition, mark: Mark) -> str | None:
        directory = self.directory_at(os.path.dirname(path))
        target = directory.join(marked_name(partition, self.new_uuid(), mark))
        try:
            self.files.rename(path, target)
        except OSError as error:
            self.fail_directory(directory, error)
            return None
        self.deletions.renamed(directory, partition)
        if mark is Mark.DELETE:
            self.schedule_folder_deletion(target)
        return target
