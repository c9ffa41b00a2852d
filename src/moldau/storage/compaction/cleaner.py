"""Picks the dirtiest log, has it cleaned by a worker process and swaps the result in. Owned by the event loop.

A log that is being cleaned keeps its segments: retention passes it over, and whoever must truncate or move it pauses
its cleaning first. A deleted log's cleaning is cancelled and leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from moldau.config.broker import BrokerConfig
from moldau.storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult
from moldau.storage.compaction.plan import Candidate, CompactionPolicy, LogState, SegmentShape, assess, choose_dirtiest
from moldau.storage.compaction.runner import (
    CleaningDiskError,
    CleaningError,
    CleaningStoppedError,
    JobRunner,
    ProcessRunner,
)
from moldau.storage.compaction.swap import announce, remove_cleaned_files, retreat
from moldau.storage.errors import LogIOError
from moldau.storage.index import OFFSET_ENTRY, TIME_ENTRY
from moldau.storage.layout import CLEANED_SUFFIX
from moldau.storage.log import PartitionLog
from moldau.storage.log_table import LogTable
from moldau.storage.means import Means
from moldau.storage.removal import Removal
from moldau.storage.segment import Segment
from moldau.types.ids import NO_OFFSET, NO_TIMESTAMP, TopicPartition

log = logging.getLogger("moldau.storage.cleaner")


@dataclass(slots=True)
class _Cleaning:
    runner: JobRunner
    _cancelled: bool = False
    swap: asyncio.Future[None] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel(self) -> None:
        self._cancelled = True

    def is_cancelled(self) -> bool:
        return self._cancelled


class LogCleaner:
    def __init__(
        self,
        table: LogTable,
        means: Means,
        removal: Removal,
        config: Callable[[], BrokerConfig],
        new_runner: Callable[[], JobRunner] = ProcessRunner,
    ) -> None:
        self._table = table
        self._means = means
        self._files = means.files
        self._run_blocking = means.run_blocking
        self._removal = removal
        self._config = config
        self._new_runner = new_runner
        self._idle: list[JobRunner] = []
        self._cleanings: dict[TopicPartition, _Cleaning] = {}
        self._paused: dict[TopicPartition, int] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._running = False
        self._closed = False
        self.uncleanable: dict[TopicPartition, str] = {}
        """Partitions whose cleaning failed, with the reason; they are left alone until the broker starts again."""
        self.max_dirty_ratio = 0.0
        self.last_result: CleaningResult | None = None

    def is_cleaning(self, partition: TopicPartition) -> bool:
        return partition in self._cleanings

    # -- cleaning -----------------------------------------------------------------------------------------------------

    async def clean_due(self, now_ms: int) -> int:
        """Cleans what is due, the dirtiest first, up to `log.cleaner.threads` at a time. Returns how many logs."""
        if self._running or self._closed or not self._config().log_cleaner_enable:
            return 0
        self._running = True
        try:
            cleaned: set[TopicPartition] = set()
            lanes = range(self._config().log_cleaner_threads)
            await asyncio.gather(*(self._clean_until_none_is_due(now_ms, cleaned) for _ in lanes))
            return len(cleaned)
        finally:
            await self._dismiss_runners()
            self._running = False

    async def _clean_until_none_is_due(self, now_ms: int, cleaned: set[TopicPartition]) -> None:
        while not self._closed:
            found = await self._choose(now_ms, cleaned)
            if found is None:
                return
            partition_log, candidate = found
            cleaned.add(candidate.partition)
            runner = self._idle.pop() if self._idle else self._new_runner()
            try:
                await self._clean(partition_log, candidate, runner, now_ms)
            finally:
                self._idle.append(runner)

    async def _choose(self, now_ms: int, done: set[TopicPartition]) -> tuple[PartitionLog, Candidate] | None:
        """Each log is cleaned once per round: one that stays due, a full map or a busy writer, lets others go first."""
        candidates: dict[TopicPartition, tuple[PartitionLog, Candidate]] = {}
        for count, partition_log in enumerate(list(self._table.in_service())):
            if count % 64 == 63:
                await asyncio.sleep(0)
            partition = partition_log.topic_partition
            if not partition_log.config.compacted or partition_log.failed or partition in self.uncleanable:
                continue
            candidate = self._assess(partition_log, now_ms)
            if candidate is not None:
                candidates[partition] = (partition_log, candidate)
        self.max_dirty_ratio = max((each.cleanable_ratio for _, each in candidates.values()), default=0.0)
        free = [
            candidate
            for partition, (_, candidate) in candidates.items()
            if partition not in done and partition not in self._cleanings and partition not in self._paused
        ]
        chosen = choose_dirtiest(free)
        return None if chosen is None else candidates[chosen.partition]

    def _assess(self, partition_log: PartitionLog, now_ms: int) -> Candidate | None:
        partition = partition_log.topic_partition
        committed = self._table.high_watermark(partition)
        if committed is None or len(partition_log.segments) < 2:
            return None
        config = partition_log.config
        segments = partition_log.segments
        state = LogState(
            partition,
            [_shape(segment, with_time=config.min_compaction_lag_ms > 0) for segment in segments],
            log_start_offset=partition_log.log_start_offset,
            log_end_offset=partition_log.log_end_offset,
            last_stable_offset=partition_log.last_stable_offset(committed),
            cleaned_offset=self._table.directory_of(partition_log).cleaned_offsets.on_disk.get(partition),
            policy=CompactionPolicy(
                config.min_cleanable_dirty_ratio, config.min_compaction_lag_ms, config.max_compaction_lag_ms
            ),
            first_timestamp=lambda base_offset: segments.at(base_offset).first_timestamp,
        )
        return assess(state, now_ms)

    async def _clean(self, partition_log: PartitionLog, candidate: Candidate, runner: JobRunner, now_ms: int) -> None:
        partition = candidate.partition
        cleaning = self._cleanings[partition] = _Cleaning(runner)
        directory = self._table.directory_of(partition_log)
        settings = self._config()
        try:
            job = self._job(partition_log, candidate, now_ms)
            await self._run_blocking(lambda: remove_cleaned_files(self._files, partition_log.folder))
            rate = settings.log_cleaner_io_max_bytes_per_second / settings.log_cleaner_threads
            result = await runner.run(job, rate, lambda group: self._begin_swap(partition_log, group, cleaning, now_ms))
            await self._run_blocking(directory.cleaned_offsets.setter(partition, result.end_offset))
            self.last_result = result
            log.info("cleaned %s up to offset %d: %s", partition, result.end_offset, result)
        except CleaningStoppedError:
            await self._tidy(partition_log)
        except (CleaningDiskError, LogIOError, OSError) as error:
            if not cleaning.is_cancelled():
                self._means.log_failed(partition_log, error)
        except CleaningError as error:
            log.error("%s cannot be cleaned and is left alone from now on: %s", partition, error)
            self.uncleanable[partition] = str(error)
            await self._tidy(partition_log)
        finally:
            if cleaning.swap is not None:
                await asyncio.gather(cleaning.swap, return_exceptions=True)
            del self._cleanings[partition]
            cleaning.ended.set()

    def _job(self, partition_log: PartitionLog, candidate: Candidate, now_ms: int) -> CleaningJob:
        config, settings = partition_log.config, self._config()
        end = candidate.first_uncleanable_offset
        map_bytes = settings.log_cleaner_dedupe_buffer_size // settings.log_cleaner_threads
        return CleaningJob(
            folder=partition_log.folder,
            segments=tuple(
                _shape(segment, with_indexes=True) for segment in partition_log.segments if segment.base_offset < end
            ),
            first_dirty_offset=candidate.first_dirty_offset,
            first_uncleanable_offset=end,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            map_bytes=int(map_bytes * settings.log_cleaner_io_buffer_load_factor),
            aborted=tuple(partition_log.aborted_transactions(partition_log.segments.first.base_offset, end)),
            last_records=tuple(
                (producer_id, None if entry.last_offset == NO_OFFSET else entry.last_offset, entry.epoch)
                for producer_id, entry in partition_log.producers.items()
            ),
        )

    async def _begin_swap(
        self, partition_log: PartitionLog, group: CleanedGroup, cleaning: _Cleaning, now_ms: int
    ) -> None:
        """A swap that has begun is finished even if whoever waits for it is cancelled."""
        cleaning.swap = asyncio.ensure_future(self._swap(partition_log, group, cleaning, now_ms))
        await asyncio.shield(cleaning.swap)

    async def _swap(self, partition_log: PartitionLog, group: CleanedGroup, cleaning: _Cleaning, now_ms: int) -> None:
        """One group takes the place of its sources, at no step of which a crash loses anything."""
        by_base = {segment.base_offset: segment for segment in partition_log.segments}
        if cleaning.is_cancelled() or not by_base.keys() >= set(group.sources):
            raise CleaningStoppedError(f"{partition_log.topic_partition} has changed")
        old = [by_base[base] for base in group.sources]
        segment = Segment(
            self._files,
            partition_log.folder,
            group.base_offset,
            size=group.size,
            created_ms=now_ms,
            suffix=CLEANED_SUFFIX,
        )
        try:
            await self._run_blocking(lambda: announce(self._files, partition_log.folder, segment))
        except FileNotFoundError:
            raise CleaningStoppedError(f"{partition_log.topic_partition} was deleted") from None
        if cleaning.is_cancelled():
            with contextlib.suppress(FileNotFoundError):
                await self._run_blocking(lambda: retreat(self._files, partition_log.folder, segment))
            raise CleaningStoppedError(f"{partition_log.topic_partition} has changed")
        partition_log.swap_in_segments([segment], old)
        await self._sync(partition_log, cleaning)
        partition_log.finish_swap([segment])
        await self._sync(partition_log, cleaning)
        self._removal.schedule_files(partition_log)

    async def _sync(self, partition_log: PartitionLog, cleaning: _Cleaning) -> None:
        folder = partition_log.folder
        try:
            await self._run_blocking(lambda: self._files.sync_directory(folder))
        except FileNotFoundError:
            if not cleaning.is_cancelled():
                raise

    async def _tidy(self, partition_log: PartitionLog) -> None:
        with contextlib.suppress(FileNotFoundError):
            await self._run_blocking(lambda: remove_cleaned_files(self._files, partition_log.folder))

    async def _dismiss_runners(self) -> None:
        """A process that waits for the next round would only cost memory."""
        while self._idle:
            await self._idle.pop().stop()

    # -- stopping -----------------------------------------------------------------------------------------------------

    def cancel(self, partition: TopicPartition) -> None:
        """The log is gone: what its cleaning has made is not swapped in any more."""
        self.uncleanable.pop(partition, None)
        cleaning = self._cleanings.get(partition)
        if cleaning is not None and not cleaning.is_cancelled():
            cleaning.cancel()
            task = asyncio.get_running_loop().create_task(cleaning.runner.stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def pause(self, partition: TopicPartition) -> None:
        """No cleaning of this log runs when this returns, nor until `resume`, which has to follow each pause."""
        self._paused[partition] = self._paused.get(partition, 0) + 1
        cleaning = self._cleanings.get(partition)
        if cleaning is not None:
            cleaning.cancel()
            await cleaning.runner.stop()
            await cleaning.ended.wait()

    def resume(self, partition: TopicPartition) -> None:
        self._paused[partition] -= 1
        if not self._paused[partition]:
            del self._paused[partition]

    async def close(self) -> None:
        """Ends all cleaning; a swap that has begun is finished first."""
        self._closed = True
        for cleaning in list(self._cleanings.values()):
            cleaning.cancel()
            await cleaning.runner.stop()
            await cleaning.ended.wait()
        for task in list(self._stopping):
            await task
        await self._dismiss_runners()


def _shape(segment: Segment, *, with_time: bool = False, with_indexes: bool = False) -> SegmentShape:
    """Only what is asked for, since the rest is read from disk."""
    return SegmentShape(
        segment.base_offset,
        segment.size,
        segment.largest_timestamp() if with_time else NO_TIMESTAMP,
        segment.offset_index.entries * OFFSET_ENTRY.size if with_indexes else 0,
        segment.time_index.entries * TIME_ENTRY.size if with_indexes else 0,
    )
