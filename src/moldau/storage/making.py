"""Making the logs of new partitions: in which log directory, in lots, and found again after a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.config.topic import TopicConfig
from moldau.storage.checkpoints import PARTITION_METADATA, write_topic_id_unsynced
from moldau.storage.errors import LogIOError
from moldau.storage.folders import folder_name
from moldau.storage.loading import LogOpener
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import LogDirectory
from moldau.storage.log_table import LogTable
from moldau.storage.means import Means
from moldau.types.ids import TopicPartition

log = logging.getLogger("moldau.storage.making")

# New logs that are made in one go in a thread.
LOGS_PER_LOT = 64


@dataclass(frozen=True, slots=True)
class NewLog:
    partition: TopicPartition
    topic_id: UUID
    config: TopicConfig


class LogMaker:
    def __init__(
        self,
        table: LogTable,
        means: Means,
        opener: Callable[[], LogOpener],
        set_aside: Callable[[TopicPartition], None],
    ) -> None:
        """`set_aside` is called for a partition whose folder holds another topic's data."""
        self._table = table
        self._means = means
        self._opener = opener
        self._set_aside = set_aside
        self._preferred: dict[TopicPartition, str] = {}

    async def prepare(self, new: Iterable[NewLog]) -> None:
        """Makes the logs of new partitions without blocking the loop; `get_or_create` finds them done."""
        wanted: dict[str, list[NewLog]] = {}
        for count, each in enumerate(new, 1):
            if count % LOGS_PER_LOT == 0:
                await asyncio.sleep(0)
            if self._table.get(each.partition) is None and self._table.find_damaged(each.partition) is None:
                directory = self._choose_directory(each.partition, wanted)
                wanted.setdefault(directory.path, []).append(each)
        await asyncio.gather(*(self._create(self._table.directory_at(path), lot) for path, lot in wanted.items()))

    async def _create(self, directory: LogDirectory, wanted: Sequence[NewLog]) -> None:
        """One lot after the other: threads that make files side by side would only fight for the interpreter. The
        folders' names are on disk at the end, so that none of them can be taken for one of an earlier topic."""
        try:
            for forget in directory.forget([new.partition for new in wanted]):
                await self._means.run_blocking(forget)
            for start in range(0, len(wanted), LOGS_PER_LOT):
                lot = wanted[start : start + LOGS_PER_LOT]
                created = await self._means.run_blocking(self._creation(directory, lot))
                for new, made in zip(lot, created, strict=True):
                    if self._table.get(new.partition) is not None or directory.offline:
                        made.close(clean=False)
                    else:
                        self._table.register(directory, made, new.topic_id)
            await self._means.run_blocking(lambda: self._means.files.sync_directory(directory.path))
        except (OSError, LogIOError) as error:
            self._means.directory_failed(directory, error)

    def get_or_create(
        self, partition: TopicPartition, topic_id: UUID, config: TopicConfig, *, is_new: bool = False
    ) -> PartitionLog:
        """The log of a partition; blocks for a sync if it has to be made. Raises LogIOError where it is offline.

        A log that is not new is not made while a directory is offline: it may lie there.
        """
        found = self._table.get(partition)
        if found is not None and self._table.topic_id(partition) not in (topic_id, None):
            log.warning("%s holds data of another topic of that name and is set aside", found.folder)
            self._set_aside(partition)
            found, is_new = None, True
        damaged = self._table.find_damaged(partition)
        if damaged is not None:
            raise LogIOError(damaged.path, damaged.problem)
        if found is None:
            found = self._create_here(NewLog(partition, topic_id, config), is_new=is_new)
        elif self._table.topic_id(partition) is None:
            write_topic_id_unsynced(self._means.files, found.folder, topic_id)
            found.bring_to_disk_too([PARTITION_METADATA])
            self._table.set_topic_id(partition, topic_id)
        if found.config is not config:
            found.config = config
        return found

    def _create_here(self, new: NewLog, *, is_new: bool) -> PartitionLog:
        offline = [directory.path for directory in self._table.directories if directory.offline]
        if offline and not is_new:
            reason = f"Can not create log for {new.partition} because log directories {','.join(offline)} are offline"
            raise LogIOError(offline[0], reason)
        directory = self._choose_directory(new.partition, {})
        try:
            for forget in directory.forget([new.partition]):
                forget()
            [created] = self._creation(directory, [new])()
            self._means.files.sync_directory(directory.path)
        except (OSError, LogIOError) as error:
            self._means.directory_failed(directory, error)
            raise LogIOError(directory.path, error) from error
        self._table.register(directory, created, new.topic_id)
        return created

    def _creation(self, directory: LogDirectory, lot: Sequence[NewLog]) -> Callable[[], list[PartitionLog]]:
        opener = self._opener()

        def create(new: NewLog) -> PartitionLog:
            path = directory.join(folder_name(new.partition))
            if self._means.files.exists(path):  # an earlier attempt got this far
                write_topic_id_unsynced(self._means.files, path, new.topic_id)
                found = opener.open(directory, path, new.partition, new.config, is_new=True)
                found.bring_to_disk_too([PARTITION_METADATA])
                return found
            return opener.create(path, new.partition, new.topic_id, new.config)

        return lambda: [create(new) for new in lot]

    def _choose_directory(self, partition: TopicPartition, lots: Mapping[str, Sequence[NewLog]]) -> LogDirectory:
        """The directory the log was asked into, else the one with the fewest logs."""
        live = [directory for directory in self._table.directories if not directory.offline]
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

    def forget_preference(self, partition: TopicPartition) -> None:
        self._preferred.pop(partition, None)
