"""One partition's log.

Single-threaded: its owner (the event loop) calls it; only `FlushWork` may run elsewhere. The way of a batch:

`stage`   checks the producer's sequence, assigns the offset, writes it into the batch. Nothing is visible yet.
`commit`  writes all staged batches with one call per segment, then publishes: end offset, producers, indexes, epochs.

If the write fails, the file is cut back, what was staged is forgotten, and LogIOError tells the owner to take the
folder offline. Where a group spans two segments, what went into the first one is published before the second is
written: `log_end_offset` tells how far the commit came.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.config.topic import TopicConfig
from moldau.storage.epochs import LeaderEpochCache
from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.log_append import Commit, LogAppends
from moldau.storage.log_read import FoundOffset, LogReads, LogSlice
from moldau.storage.log_upkeep import LogUpkeep
from moldau.storage.producer_snapshots import SnapshotFiles
from moldau.storage.producer_state import ProducerStates
from moldau.storage.recovery import LogLoader, Progress, RecoveryReport
from moldau.storage.segment import Segment
from moldau.types.ids import TopicPartition

__all__ = ("Commit", "FoundOffset", "LogSlice", "PartitionLog")


def _no_jitter(_spread: int) -> int:
    return 0


class PartitionLog(LogAppends, LogReads, LogUpkeep):
    __slots__ = ("recovery",)

    recovery: RecoveryReport
    """What opening the log found and did."""

    @classmethod
    def open(
        cls,
        files: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean_shutdown: bool,
        cleaned_offset: int = 0,
        wall_ms: Callable[[], int],
        producer_expiry_ms: int,
        jitter: Callable[[int], int] = _no_jitter,
        progress: Progress | None = None,
    ) -> PartitionLog:
        """Open the log in an existing folder, after a crash with recovery; an empty folder becomes an empty log.

        Blocks as long as recovery reads. `jitter(n)` gives a random number below n. Raises CorruptLogError if data is
        damaged that had been flushed, LogIOError if the disk fails.
        """
        try:
            found = LogLoader(
                files,
                directory,
                topic_partition,
                config,
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                clean_shutdown=clean_shutdown,
                cleaned_offset=cleaned_offset,
                now_ms=wall_ms(),
                producer_expiry_ms=producer_expiry_ms,
                progress=progress,
            ).load()
        except OSError as error:
            raise LogIOError(error.filename or directory, error) from error
        log = cls(
            files,
            directory,
            topic_partition,
            config,
            segments=found.segments,
            log_start_offset=found.log_start_offset,
            log_end_offset=found.log_end_offset,
            recovery_point=found.recovery_point,
            leader_epochs=found.leader_epochs,
            producers=found.producers,
            snapshots=found.snapshots,
            unsynced=found.unsynced,
            is_whole_on_disk=clean_shutdown and not found.unsynced and not found.report.indexes_rebuilt,
            wall_ms=wall_ms,
            jitter=jitter,
        )
        log.recovery = found.report
        return log

    @classmethod
    def create(
        cls,
        files: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        unsynced: list[str],
        wall_ms: Callable[[], int],
        producer_expiry_ms: int,
        jitter: Callable[[int], int] = _no_jitter,
    ) -> PartitionLog:
        """The empty log of a folder that was just made. Nothing is synced: the first flush does that, for the files
        named `unsynced` too. Blocks for a few system calls."""
        try:
            first = Segment.create_first(
                files,
                directory,
                created_ms=wall_ms(),
                preallocate=config.segment_bytes if config.preallocate else 0,
            )
        except OSError as error:
            raise LogIOError(error.filename or directory, error) from error
        first.file.rest()
        log = cls(
            files,
            directory,
            topic_partition,
            config,
            segments=[first],
            log_start_offset=0,
            log_end_offset=0,
            recovery_point=0,
            leader_epochs=LeaderEpochCache(directory),
            producers=ProducerStates(topic_partition, producer_expiry_ms),
            snapshots=SnapshotFiles(files, directory, []),
            unsynced=unsynced,
            is_whole_on_disk=True,  # whatever is missing after a power cut was empty
            wall_ms=wall_ms,
            jitter=jitter,
        )
        log.recovery = RecoveryReport()
        return log
