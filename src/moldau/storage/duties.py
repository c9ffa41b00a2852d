"""What has to be done with all logs from time to time. The server calls these on its timers; each returns when done and
lets the event loop breathe between logs."""

from __future__ import annotations

import asyncio
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeAlias

from moldau.config.broker import BrokerConfig
from moldau.storage.compaction.cleaner import LogCleaner
from moldau.storage.compaction.runner import JobRunner
from moldau.storage.deletions import Chore, Deletions
from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import LogDirectory, OffsetCheckpoint
from moldau.storage.retention import Deletion, RetentionPolicy, SegmentAge, plan_deletion
from moldau.types.ids import TopicPartition
from moldau.work.turns import Work, pauses, run

log = logging.getLogger("moldau.storage.duties")

RunBlocking: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
# About a millisecond of work between two looks at the rest of the broker.
LOGS_PER_BREATH = 8


class LogDuties(ABC):
    def __init__(
        self,
        files: FileSystem,
        config: BrokerConfig,
        *,
        run_blocking: RunBlocking,
        wall_ms: Callable[[], int],
        new_runner: Callable[[], JobRunner],
    ) -> None:
        self.files = files
        self.config = config
        self.run_blocking = run_blocking
        self.wall_ms = wall_ms
        self.directories: list[LogDirectory] = []
        self.high_watermark: Callable[[TopicPartition], int | None] = lambda _: None
        """Set by whoever knows it. While it is None for a partition, nothing of that is deleted or cleaned."""
        self.cleaner = LogCleaner(self, files, run_blocking, new_runner)
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self.deletions = Deletions(files)
        self._cuts: set[TopicPartition] = set()
        self._rolled: dict[TopicPartition, PartitionLog] = {}

    def reconfigure(self, config: BrokerConfig) -> Work[None]:
        """Dynamic settings have changed. What a topic inherits is set at its logs by whoever knows the topic."""
        self.config = config
        paused = pauses()
        for partition_log in list(self._all_logs()):
            if next(paused):
                yield
            partition_log.producers.expiry_ms = config.producer_id_expiration_ms

    # -- looking up ---------------------------------------------------------------------------------------------------

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(partition)

    def logs(self) -> Iterable[PartitionLog]:
        return self._logs.values()

    def directory_at(self, path: str) -> LogDirectory:
        return next(directory for directory in self.directories if directory.path == path)

    def directory_of(self, partition_log: PartitionLog) -> LogDirectory:
        return self.directory_at(os.path.dirname(partition_log.directory))

    def committed_offset(self, partition: TopicPartition) -> int | None:
        return self.high_watermark(partition)

    def checkpointed_high_watermark(self, partition: TopicPartition) -> int:
        """Where it stood when it was last written down; 0 if it never was."""
        found = self._logs.get(partition)
        return 0 if found is None else self.directory_of(found).high_watermarks.on_disk.get(partition, 0)

    def _all_logs(self) -> Iterator[PartitionLog]:
        for directory in self.directories:
            yield from list(directory.logs.values())
            yield from list(directory.futures.values())

    # -- retention ----------------------------------------------------------------------------------------------------

    async def run_retention(self, now_ms: int) -> int:
        """Deletes what time, size and log start offset have ruled out. Returns the number of segments."""
        deleted = 0
        for count, partition_log in enumerate(list(self._logs.values())):
            if count % LOGS_PER_BREATH == LOGS_PER_BREATH - 1:
                await asyncio.sleep(0)
            deleted += self._apply_retention(partition_log, now_ms)
        return deleted

    def _apply_retention(self, partition_log: PartitionLog, now_ms: int) -> int:
        partition = partition_log.topic_partition
        committed = self.high_watermark(partition)
        if committed is None or partition_log.failed or self.cleaner.is_cleaning(partition):
            return 0
        if self._logs.get(partition) is not partition_log or partition_log.staged:
            return 0
        self.schedule_deletions(partition_log)  # what DeleteRecords and truncation have left
        try:
            deletion = self._plan_deletion(partition_log, committed, now_ms)
            if deletion is None or not deletion.doomed:
                return 0
            for doomed in deletion.doomed:
                log.info("deleting segment %d of %s: %s", doomed.base_offset, partition, doomed.reason.value)
            bases = {doomed.base_offset for doomed in deletion.doomed}
            partition_log.remove_segments([each for each in partition_log.segments if each.base_offset in bases])
        except (OSError, LogIOError) as error:
            self.io_failed(partition_log, error)
            return 0
        self.schedule_deletions(partition_log)
        return len(deletion.doomed)

    def _plan_deletion(self, partition_log: PartitionLog, committed: int, now_ms: int) -> Deletion | None:
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

    # -- deletion of files --------------------------------------------------------------------------------------------

    def schedule_deletions(self, partition_log: PartitionLog) -> None:
        paths = partition_log.take_deleted()
        if paths:
            due = self.wall_ms() + partition_log.config.file_delete_delay_ms
            self.deletions.add_files(due, self.directory_of(partition_log), paths)

    def schedule_folder_deletion(self, path: str) -> None:
        due = self.wall_ms() + int(str(self.config.topic_defaults["file.delete.delay.ms"]))
        self.deletions.add_folder(due, self.directory_at(os.path.dirname(path)), path)

    async def delete_due(self, now_ms: int) -> int:
        """Removes files and folders whose delay is over, after other small work. Returns their number."""
        for directory, chore in self.deletions.take_chores():
            await self._do(directory, chore)
        done = 0
        for directory, count, chore in self.deletions.take_due(now_ms):
            await self._do(directory, chore)
            done += count
        return done

    async def _do(self, directory: LogDirectory, chore: Chore) -> None:
        if directory.offline:
            return
        try:
            await self.run_blocking(chore)
        except OSError as error:
            self.fail_directory(directory, error)

    # -- flushing -----------------------------------------------------------------------------------------------------

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
        for count, partition_log in enumerate(list(self._all_logs())):
            if count % LOGS_PER_BREATH == LOGS_PER_BREATH - 1:
                await asyncio.sleep(0)
            unflushed = partition_log.log_end_offset > partition_log.recovery_point
            if unflushed and now_ms - partition_log.last_flush_ms >= partition_log.config.flush_ms:
                await self.flush(partition_log)
                flushed += 1
        return flushed

    async def flush(self, partition_log: PartitionLog, up_to: int | None = None) -> None:
        """Brings a log to disk up to an offset, without blocking. A failure takes its directory offline."""
        directory = self.directory_of(partition_log)
        if directory.offline or partition_log.failed:
            return
        try:
            work = partition_log.flush_work(up_to)
            await self.run_blocking(work)
            partition_log.flushed(work.up_to)
        except (OSError, LogIOError) as error:
            self.io_failed(partition_log, error)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    async def checkpoint_recovery_points(self) -> None:
        await self._checkpoint(self._recovery_points)

    async def checkpoint_start_offsets(self) -> None:
        await self._checkpoint(self._start_offsets)

    async def checkpoint_high_watermarks(self) -> None:
        await self._checkpoint(self._high_watermarks)

    async def checkpoint_writers(self, directory: LogDirectory) -> list[Chore]:
        return [
            await run(self._recovery_points(directory)),
            await run(self._start_offsets(directory)),
            await run(self._high_watermarks(directory)),
        ]

    async def _checkpoint(self, writer_of: Callable[[LogDirectory], Work[Chore]]) -> None:
        for directory in self.directories:
            if not directory.offline:
                await self._do(directory, await run(writer_of(directory)))

    def _recovery_points(self, directory: LogDirectory) -> Work[Chore]:
        checkpoint = directory.recovery_points
        number, points = checkpoint.draw(), _of_damaged(directory, checkpoint)
        paused = pauses()
        for each in list(directory.logs.values()):
            points[each.topic_partition] = each.recovery_point
            if next(paused):
                yield
        return checkpoint.writer(points, number)

    def _start_offsets(self, directory: LogDirectory) -> Work[Chore]:
        """Only where the log begins within a segment: elsewhere the segment's name says it."""
        checkpoint = directory.log_start_offsets
        number, starts = checkpoint.draw(), _of_damaged(directory, checkpoint)
        paused = pauses()
        for each in list(directory.logs.values()):
            if each.log_start_offset > each.segments.first.base_offset:
                starts[each.topic_partition] = each.log_start_offset
            if next(paused):
                yield
        return checkpoint.writer(starts, number)

    def _high_watermarks(self, directory: LogDirectory) -> Work[Chore]:
        """A partition that nobody asked for yet keeps the mark of the last run."""
        checkpoint = directory.high_watermarks
        number, marks = checkpoint.draw(), _of_damaged(directory, checkpoint)
        paused = pauses()
        for partition in list(directory.logs):
            mark = self.high_watermark(partition)
            if mark is None:
                mark = checkpoint.on_disk.get(partition)
            if mark is not None:
                marks[partition] = mark
            if next(paused):
                yield
        return checkpoint.writer(marks, number)

    # -- the rest -----------------------------------------------------------------------------------------------------

    async def clean_due(self, now_ms: int) -> int:
        """Compacts what is due. Returns the number of logs; a call while another one runs does nothing."""
        return await self.cleaner.clean_due(now_ms)

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
        partition, directory = partition_log.topic_partition, self.directory_of(partition_log)
        if partition in self._cuts:
            return False
        self._cuts.add(partition)
        await self.cleaner.pause(partition)
        try:
            end, start = partition_log.end_if_truncated_to(offset), partition_log.log_start_offset
            recovery_point = partition_log.prepare_truncation(offset)
            for checkpoint, limit in (
                (directory.cleaned_offsets, max(end, 0)),
                (directory.recovery_points, recovery_point),
                (directory.log_start_offsets, start if end >= start else 0),
            ):
                if checkpoint.on_disk.get(partition, 0) > limit:
                    await self.run_blocking(checkpoint.setter(partition, limit))
            if not is_wanted():
                return False
            cut()
            return True
        except (OSError, LogIOError) as error:
            self.io_failed(partition_log, error)
            raise
        finally:
            partition_log.end_truncation()
            self.cleaner.resume(partition)
            self._cuts.discard(partition)

    async def expire_producers(self, now_ms: int) -> None:
        for count, partition_log in enumerate(list(self._all_logs())):
            if count % LOGS_PER_BREATH == LOGS_PER_BREATH - 1:
                await asyncio.sleep(0)
            partition_log.producers.remove_expired(now_ms)

    # -- for the manager ----------------------------------------------------------------------------------------------

    @abstractmethod
    def io_failed(self, partition_log: PartitionLog, error: Exception) -> None: ...

    @abstractmethod
    def fail_directory(self, directory: LogDirectory, error: Exception) -> None: ...


def _of_damaged(directory: LogDirectory, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
    """What is known of logs that are out of service must be known when somebody has repaired them."""
    on_disk = checkpoint.on_disk
    return {partition: on_disk[partition] for partition in directory.damaged if partition in on_disk}
