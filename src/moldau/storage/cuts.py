"""Cutting logs: what a crash in the middle would need to know is on disk before."""

from __future__ import annotations

from collections.abc import Callable

from moldau.storage.compaction.cleaner import LogCleaner
from moldau.storage.errors import LogIOError
from moldau.storage.log import PartitionLog
from moldau.storage.log_table import LogTable
from moldau.storage.means import Means
from moldau.types.ids import TopicPartition


class Cuts:
    def __init__(self, table: LogTable, means: Means, cleaner: LogCleaner) -> None:
        self._table = table
        self._means = means
        self._cleaner = cleaner
        self._under_way: set[TopicPartition] = set()

    async def truncate(
        self, partition_log: PartitionLog, offset: int, is_wanted: Callable[[], bool] = lambda: True
    ) -> bool:
        """Cuts a log that is not cleaned meanwhile. That what is written from there on is neither cleaned nor flushed
        is on disk before: a start after a crash looks at it. `is_wanted` is asked in the moment of the cut, since the
        partition may have got another leader until then. Returns whether the log was cut.
        """
        return await self._cut(partition_log, offset, is_wanted, lambda: partition_log.truncate_to(offset))

    async def restart_at(
        self, partition_log: PartitionLog, offset: int, is_wanted: Callable[[], bool] = lambda: True
    ) -> bool:
        """Removes all records; the log goes on at an offset. Otherwise like `truncate`."""
        return await self._cut(partition_log, -1, is_wanted, lambda: partition_log.truncate_fully_and_start_at(offset))

    async def _cut(
        self, partition_log: PartitionLog, offset: int, is_wanted: Callable[[], bool], cut: Callable[[], object]
    ) -> bool:
        partition, directory = partition_log.topic_partition, self._table.directory_of(partition_log)
        if partition in self._under_way:
            return False
        self._under_way.add(partition)
        await self._cleaner.pause(partition)
        try:
            end, start = partition_log.end_if_truncated_to(offset), partition_log.log_start_offset
            recovery_point = partition_log.prepare_truncation(offset)
            for checkpoint, limit in (
                (directory.cleaned_offsets, max(end, 0)),
                (directory.recovery_points, recovery_point),
                (directory.log_start_offsets, start if end >= start else 0),
            ):
                if checkpoint.on_disk.get(partition, 0) > limit:
                    await self._means.run_blocking(checkpoint.setter(partition, limit))
            if not is_wanted():
                return False
            cut()
            return True
        except (OSError, LogIOError) as error:
            self._means.log_failed(partition_log, error)
            raise
        finally:
            partition_log.end_truncation()
            self._cleaner.resume(partition)
            self._under_way.discard(partition)
