"""What work on the logs of a broker is done with, and who hears of its failures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

from moldau.storage.files import FileSystem
from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import LogDirectory

RunBlocking: TypeAlias = Callable[[Callable[[], Any]], Awaitable[Any]]
# About a millisecond of work between two looks at the rest of the broker.
LOGS_PER_BREATH = 8


@dataclass(frozen=True, slots=True)
class Means:
    files: FileSystem
    run_blocking: RunBlocking
    wall_ms: Callable[[], int]
    new_uuid: Callable[[], UUID]
    directory_failed: Callable[[LogDirectory, Exception], None]
    log_failed: Callable[[PartitionLog, Exception], None]
    """The disk failed under this log."""
