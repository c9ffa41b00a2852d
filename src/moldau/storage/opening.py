"""Opening the log of a partition in its folder, after a crash with recovery, and making the first one."""

from __future__ import annotations

from collections.abc import Callable

from moldau.config.topic import TopicConfig
from moldau.storage.epochs import LeaderEpochCache
from moldau.storage.errors import LogIOError
from moldau.storage.files import FileSystem
from moldau.storage.log import PartitionLog
from moldau.storage.producer_snapshots import SnapshotFiles
from moldau.storage.producer_state import ProducerStates
from moldau.storage.recovery import LoadedLog, LogLoader, Progress, RecoveryReport
from moldau.storage.segment import Segment
from moldau.types.ids import TopicPartition


def _no_jitter(_spread: int) -> int:
    return 0


def open_log(
    files: FileSystem,
    folder: str,
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
            folder,
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
        raise LogIOError(error.filename or folder, error) from error
    is_whole = clean_shutdown and not found.unsynced and not found.report.indexes_rebuilt
    return PartitionLog(
        files, folder, topic_partition, config, found, is_whole_on_disk=is_whole, wall_ms=wall_ms, jitter=jitter
    )


def create_log(
    files: FileSystem,
    folder: str,
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
            folder,
            created_ms=wall_ms(),
            preallocate=config.segment_bytes if config.preallocate else 0,
        )
    except OSError as error:
        raise LogIOError(error.filename or folder, error) from error
    first.file.rest()
    empty = LoadedLog(
        segments=[first],
        log_start_offset=0,
        log_end_offset=0,
        recovery_point=0,
        leader_epochs=LeaderEpochCache(folder),
        producers=ProducerStates(topic_partition, producer_expiry_ms),
        snapshots=SnapshotFiles(files, folder, []),
        unsynced=unsynced,
        report=RecoveryReport(),
    )
    # Whole: whatever is missing after a power cut was empty.
    return PartitionLog(
        files, folder, topic_partition, config, empty, is_whole_on_disk=True, wall_ms=wall_ms, jitter=jitter
    )
