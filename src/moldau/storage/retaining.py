"""Deletion of what time, size and log start offset have ruled out, over all logs; the rules stand in `retention`."""

from __future__ import annotations

import asyncio
import logging

from moldau.storage.compaction.cleaner import LogCleaner
from moldau.storage.errors import LogIOError
from moldau.storage.log import PartitionLog
from moldau.storage.log_table import LogTable
from moldau.storage.means import LOGS_PER_BREATH, Means
from moldau.storage.removal import Removal
from moldau.storage.retention import Deletion, RetentionPolicy, SegmentAge, plan_deletion

log = logging.getLogger("moldau.storage.retention")


class Retaining:
    def __init__(self, table: LogTable, means: Means, removal: Removal, cleaner: LogCleaner) -> None:
        self._table = table
        self._means = means
        self._removal = removal
        self._cleaner = cleaner

    async def run(self, now_ms: int) -> int:
        """Returns the number of segments that were deleted."""
        deleted = 0
        for count, partition_log in enumerate(list(self._table.in_service())):
            if count % LOGS_PER_BREATH == LOGS_PER_BREATH - 1:
                await asyncio.sleep(0)
            deleted += self._apply(partition_log, now_ms)
        return deleted

    def _apply(self, partition_log: PartitionLog, now_ms: int) -> int:
        partition = partition_log.topic_partition
        committed = self._table.high_watermark(partition)
        if committed is None or partition_log.failed or self._cleaner.is_cleaning(partition):
            return 0
        if self._table.get(partition) is not partition_log or partition_log.staged:
            return 0
        self._removal.schedule_files(partition_log)  # what DeleteRecords and truncation have left
        try:
            deletion = _plan(partition_log, committed, now_ms)
            if deletion is None or not deletion.doomed:
                return 0
            for doomed in deletion.doomed:
                log.info("deleting segment %d of %s: %s", doomed.base_offset, partition, doomed.reason.value)
            bases = {doomed.base_offset for doomed in deletion.doomed}
            partition_log.remove_segments([each for each in partition_log.segments if each.base_offset in bases])
        except (OSError, LogIOError) as error:
            self._means.log_failed(partition_log, error)
            return 0
        self._removal.schedule_files(partition_log)
        return len(deletion.doomed)


def _plan(partition_log: PartitionLog, committed: int, now_ms: int) -> Deletion | None:
    config, segments = partition_log.config, partition_log.segments
    policy = RetentionPolicy(config.deletes, config.retention_ms, config.retention_bytes)
    first = segments.first
    following = segments.after(first)
    below_start = following is not None and following.base_offset <= partition_log.log_start_offset
    expired = policy.deletes and 0 <= policy.retention_ms < now_ms - first.largest_timestamp()
    too_large = policy.deletes and 0 <= policy.retention_bytes < partition_log.size_bytes
    if not (below_start or expired or too_large):
        return None  # the usual case, without a look at the other segments
    return plan_deletion(
        [SegmentAge(each.base_offset, each.size, each.largest_timestamp()) for each in segments],
        policy,
        log_start_offset=partition_log.log_start_offset,
        log_end_offset=partition_log.log_end_offset,
        high_watermark=committed,
        now_ms=now_ms,
    )
