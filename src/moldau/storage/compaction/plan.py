"""Which log is compacted next, and how its segments are taken together (pure).

A compacted log has a clean part, below the offset up to which it was cleaned last, and a dirty part. The log with
the largest share of dirty bytes is cleaned first. Never cleaned: the active segment, what is not yet stable (high
watermark, open transactions), segments younger than `min.compaction.lag.ms`. A segment older than
`max.compaction.lag.ms` makes its log due at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moldau.types.ids import TopicPartition

NO_LIMIT_MS = (1 << 63) - 1
MAX_RELATIVE_OFFSET = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class SegmentShape:
    base_offset: int
    size: int
    largest_timestamp: int = -1
    index_size: int = 0
    time_index_size: int = 0


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    min_cleanable_ratio: float
    min_lag_ms: int = 0
    max_lag_ms: int = NO_LIMIT_MS


@dataclass(frozen=True, slots=True)
class LogState:
    partition: TopicPartition
    segments: Sequence[SegmentShape]
    """In order; the last one is active."""
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    cleaned_offset: int | None
    """Up to where the log was cleaned; None if never."""
    policy: CompactionPolicy
    first_timestamp: Callable[[int], int]
    """Of the segment with that base offset; asked only where a maximum lag is set."""


@dataclass(frozen=True, slots=True)
class Candidate:
    partition: TopicPartition
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    min_cleanable_ratio: float
    overdue_ms: int
    """How long ago `max.compaction.lag.ms` wanted the oldest dirty segment cleaned."""
    invalid_checkpoint: bool
    """The log no longer has the offset up to which it was cleaned last."""

    @property
    def cleanable_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def due(self) -> bool:
        if self.cleanable_bytes == 0:
            return False
        return self.overdue_ms > 0 or self.cleanable_ratio > self.min_cleanable_ratio


def assess(log: LogState, now_ms: int) -> Candidate:
    start, end = log.log_start_offset, log.log_end_offset
    first_dirty = start if log.cleaned_offset is None else log.cleaned_offset
    invalid = not start <= first_dirty <= end
    if invalid:
        first_dirty = start
    limit = max(first_dirty, _first_uncleanable_offset(log, first_dirty, now_ms))
    active = log.segments[-1].base_offset
    uncleanable = min((segment.base_offset for segment in _from(log.segments, limit)), default=active)
    dirty = [s for s in _from(log.segments, min(first_dirty, uncleanable)) if s.base_offset < uncleanable]
    return Candidate(
        log.partition,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        clean_bytes=sum(segment.size for segment in log.segments if segment.base_offset < first_dirty),
        cleanable_bytes=sum(segment.size for segment in dirty),
        min_cleanable_ratio=log.policy.min_cleanable_ratio,
        overdue_ms=_overdue_ms(log, first_dirty, now_ms),
        invalid_checkpoint=invalid,
    )


def choose_dirtiest(candidates: Iterable[Candidate]) -> Candidate | None:
    return max((c for c in candidates if c.due), key=lambda c: c.cleanable_ratio, default=None)


def group_segments(
    segments: Sequence[SegmentShape], *, max_bytes: int, max_index_bytes: int, first_uncleanable_offset: int
) -> list[list[SegmentShape]]:
    """Neighbours that together still make one segment are rewritten into one, or segments would shrink to nothing."""
    groups: list[list[SegmentShape]] = []
    for index, segment in enumerate(segments):
        following = index + 1
        last_offset = (segments[following].base_offset if following < len(segments) else first_uncleanable_offset) - 1
        if groups and _fits(groups[-1], segment, last_offset, max_bytes, max_index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(
    group: list[SegmentShape], segment: SegmentShape, last_offset: int, max_bytes: int, max_index_bytes: int
) -> bool:
    return (
        sum(s.size for s in group) + segment.size <= max_bytes
        and sum(s.index_size for s in group) + segment.index_size <= max_index_bytes
        and sum(s.time_index_size for s in group) + segment.time_index_size <= max_index_bytes
        and (segment.size == 0 or last_offset - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )


def _first_uncleanable_offset(log: LogState, first_dirty: int, now_ms: int) -> int:
    limit = min(log.last_stable_offset, log.segments[-1].base_offset)
    if log.policy.min_lag_ms > 0:
        for segment in _from(log.segments[:-1], first_dirty):
            if segment.largest_timestamp > now_ms - log.policy.min_lag_ms:
                return min(limit, segment.base_offset)
    return limit


def _overdue_ms(log: LogState, first_dirty: int, now_ms: int) -> int:
    clean_until = now_ms - max(log.policy.max_lag_ms, 0)
    if clean_until <= 0:
        return 0
    timestamps = (log.first_timestamp(segment.base_offset) for segment in _from(log.segments[:-1], first_dirty))
    earliest = min((timestamp for timestamp in timestamps if timestamp > 0), default=clean_until)
    return max(0, clean_until - earliest)


def _from(segments: Sequence[SegmentShape], offset: int) -> Sequence[SegmentShape]:
    """The segment that contains the offset, and all after it."""
    index = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
    return segments[max(0, index - 1) :]
