"""Bringing logs to disk without blocking: segments that were completed, and what `flush.ms` asks for."""

from __future__ import annotations

import asyncio

from moldau.storage.errors import LogIOError
from moldau.storage.log import PartitionLog
from moldau.storage.log_table import LogTable
from moldau.storage.means import LOGS_PER_BREATH, Means
from moldau.types.ids import TopicPartition


class Flushes:
    def __init__(self, table: LogTable, means: Means) -> None:
        self._table = table
        self._means = means
        self._rolled: dict[TopicPartition, PartitionLog] = {}

    def note_rolled(self, partition_log: PartitionLog) -> None:
        """A segment was completed: `flush_rolled` brings it to disk."""
        self._rolled[partition_log.topic_partition] = partition_log

    async def flush_rolled(self) -> None:
        rolled, self._rolled = self._rolled, {}
        for partition_log in rolled.values():
            await self.flush(partition_log, partition_log.segments.active.base_offset)

    async def flush_due(self, now_ms: int) -> int:
        """Flushes logs whose `flush.ms` is over. Returns their number."""
        flushed = 0
        for count, partition_log in enumerate(list(self._table.with_copies())):
            if count % LOGS_PER_BREATH == LOGS_PER_BREATH - 1:
                await asyncio.sleep(0)
            unflushed = partition_log.log_end_offset > partition_log.recovery_point
            if unflushed and now_ms - partition_log.last_flush_ms >= partition_log.config.flush_ms:
                await self.flush(partition_log)
                flushed += 1
        return flushed

    async def flush(self, partition_log: PartitionLog, up_to: int | None = None) -> None:
        """Brings a log to disk up to an offset. A failure takes its directory offline."""
        directory = self._table.directory_of(partition_log)
        if directory.offline or partition_log.failed:
            return
        try:
            work = partition_log.flush_work(up_to)
            await self._means.run_blocking(work)
            partition_log.flushed(work.up_to)
        except (OSError, LogIOError) as error:
            self._means.log_failed(partition_log, error)
