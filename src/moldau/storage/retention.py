"""Which segments of a log go, and why (pure).

Three passes from the oldest segment on, as Kafka makes them: what lies below the log start offset, then what exceeds
`retention.bytes`, then what is older than `retention.ms` by the segment's largest timestamp. A segment with an offset
at or above the high watermark never goes, so that the log start offset cannot pass it. The active segment goes too when
its time has come, after a new one was rolled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

UNLIMITED = -1


class Reason(Enum):
    START_OFFSET = "log start offset breached"
    SIZE = "retention.bytes breached"
    TIME = "retention.ms breached"


@dataclass(frozen=True, slots=True)
class SegmentAge:
    base_offset: int
    size: int
    largest_timestamp: int
    """Of its records; where none carries a timestamp, the time of the file's last change."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    deletes: bool
    """Whether `cleanup.policy` holds "delete"; without it only what lies below the log start offset goes."""
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class Doomed:
    base_offset: int
    size: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Deletion:
    doomed: tuple[Doomed, ...]
    roll_first: bool
    log_start_offset: int


def plan_deletion(
    segments: Sequence[SegmentAge],
    policy: RetentionPolicy,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> Deletion:
    """`segments` in order, the active one last."""
    bounds = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    doomed: list[Doomed] = []

    def sweep(reason: Reason, expired: Callable[[int, SegmentAge], bool]) -> None:
        for index in range(len(doomed), len(segments)):
            segment, is_last = segments[index], index == len(segments) - 1
            if is_last and segment.size == 0:
                return
            if high_watermark < bounds[index] or not expired(index, segment):
                return
            doomed.append(Doomed(segment.base_offset, segment.size, reason))

    sweep(Reason.START_OFFSET, lambda index, _: index < len(segments) - 1 and bounds[index] <= log_start_offset)
    if policy.deletes:
        if policy.retention_bytes >= 0:
            excess = _Excess(sum(segment.size for segment in segments[len(doomed) :]) - policy.retention_bytes)
            sweep(Reason.SIZE, lambda _, segment: excess.take(segment.size))
        if policy.retention_ms >= 0:
            sweep(Reason.TIME, lambda _, segment: now_ms - segment.largest_timestamp > policy.retention_ms)
    first_kept = bounds[len(doomed) - 1] if doomed else log_start_offset
    return Deletion(
        tuple(doomed),
        roll_first=bool(doomed) and len(doomed) == len(segments),
        log_start_offset=max(log_start_offset, first_kept),
    )


class _Excess:
    """Bytes above the limit: a segment goes only where the log stays at or above the limit without it."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        if self._left - size < 0:
            return False
        self._left -= size
        return True
