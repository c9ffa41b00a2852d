"""Files and folders that leave the disk: renamed at once, removed in threads when `file.delete.delay.ms` is over."""

from __future__ import annotations

import os
from collections.abc import Callable

from moldau.storage.deletions import Chore, Deletions
from moldau.storage.folders import Mark, marked_name
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import LogDirectory
from moldau.storage.log_table import LogTable
from moldau.storage.means import Means
from moldau.types.ids import TopicPartition


class Removal:
    def __init__(self, table: LogTable, means: Means, folder_delay_ms: Callable[[], int]) -> None:
        self._table = table
        self._means = means
        self._folder_delay_ms = folder_delay_ms
        self._deletions = Deletions(means.files)

    def schedule_files(self, partition_log: PartitionLog) -> None:
        """Of the files that the log has renamed to .deleted."""
        paths = partition_log.take_deleted()
        if paths:
            due = self._means.wall_ms() + partition_log.config.file_delete_delay_ms
            self._deletions.add_files(due, self._table.directory_of(partition_log), paths)

    def schedule_folder(self, path: str) -> None:
        due = self._means.wall_ms() + self._folder_delay_ms()
        self._deletions.add_folder(due, self._table.directory_at(os.path.dirname(path)), path)

    def rename_folder(self, path: str, partition: TopicPartition, mark: Mark) -> str | None:
        """Puts a partition's folder out of the way; None if the disk failed."""
        directory = self._table.directory_at(os.path.dirname(path))
        target = directory.join(marked_name(partition, self._means.new_uuid(), mark))
        try:
            self._means.files.rename(path, target)
        except OSError as error:
            self._means.directory_failed(directory, error)
            return None
        self._deletions.renamed(directory, partition)
        if mark is Mark.DELETE:
            self.schedule_folder(target)
        return target

    def add_chore(self, directory: LogDirectory, chore: Chore) -> None:
        """Something that blocks and can wait for the next round."""
        self._deletions.add_chore(directory, chore)

    async def run_due(self, now_ms: int) -> int:
        """Removes files and folders whose delay is over, after other small work. Returns their number."""
        for directory, chore in self._deletions.take_chores():
            await run_chore(self._means, directory, chore)
        done = 0
        for directory, count, chore in self._deletions.take_due(now_ms):
            await run_chore(self._means, directory, chore)
            done += count
        return done


def retire(retired: PartitionLog, mark: Mark, table: LogTable, removal: Removal) -> None:
    """Takes a log out of service and its folder out of the way. Who still reads from it is not disturbed."""
    retired.close(clean=False)
    table.drop(retired)
    path = removal.rename_folder(retired.folder, retired.topic_partition, mark)
    if path is not None:
        retired.moved_to(path)


async def run_chore(means: Means, directory: LogDirectory, chore: Chore) -> None:
    """What blocks on one directory's disk; a failure takes that offline."""
    if directory.offline:
        return
    try:
        await means.run_blocking(chore)
    except OSError as error:
        means.directory_failed(directory, error)
