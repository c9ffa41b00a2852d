"""Brings a damaged partition back into service: cuts its log before the first batch that does not read back.

A broker never does that by itself to data that had been flushed: it keeps the partition offline, so that somebody can
look, or copy the records from elsewhere, first. The broker must not be running.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.storage import checkpoints
from moldau.storage.files import FileSystem
from moldau.storage.folders import Mark, parse_folder
from moldau.storage.opening import open_log
from moldau.storage.recovery import Cut

NEVER_EXPIRES_MS = 2**62


class NotAPartitionError(ValueError):
    def __init__(self, folder: str) -> None:
        super().__init__(f"{folder} is not the folder of a partition: <log directory>/<topic>-<partition> is expected")


@dataclass(frozen=True, slots=True)
class Repaired:
    log_start_offset: int
    log_end_offset: int
    bytes_checked: int
    cut: Cut | None
    """None if every batch was sound."""


def repair(
    files: FileSystem, folder: str, wall_ms: Callable[[], int], progress: Callable[[int, int], None]
) -> Repaired:
    """Reads the whole log, cuts it where it is damaged, and rebuilds what is derived from it.

    Raises NotAPartitionError, DirectoryInUseError, CorruptFileError or LogIOError.
    """
    folder = os.path.abspath(folder)
    directory, name = os.path.split(folder)
    found = parse_folder(name)
    if found is None or found.mark is not Mark.NONE or not files.is_directory(folder):
        raise NotAPartitionError(folder)
    lock = checkpoints.lock_directory(files, directory)
    try:
        starts = checkpoints.read_offsets(files, directory, checkpoints.LOG_START_OFFSETS)
        # Whether the topic is compacted is not known here: taken as such, holes in its offsets are not damage.
        config = TopicConfig.resolve({"cleanup.policy": "compact"}, BrokerConfig.load({}))
        log = open_log(
            files,
            folder,
            found.partition,
            config,
            log_start_offset=starts.get(found.partition, 0),
            recovery_point=0,
            clean_shutdown=False,
            wall_ms=wall_ms,
            producer_expiry_ms=NEVER_EXPIRES_MS,
            progress=progress,
        )
        repaired = Repaired(log.log_start_offset, log.log_end_offset, log.recovery.bytes_checked, log.recovery.cut)
        log.close(clean=True)
        points = checkpoints.read_offsets(files, directory, checkpoints.RECOVERY_POINTS)
        points[found.partition] = repaired.log_end_offset
        checkpoints.write_offsets(files, directory, checkpoints.RECOVERY_POINTS, points)
        return repaired
    finally:
        files.close(lock)
