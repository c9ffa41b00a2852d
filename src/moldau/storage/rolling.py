"""When a log begins a new segment: by size, age, distance of offsets and room in the indexes, as its topic wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.config.topic import TopicConfig
from moldau.storage.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, TIME_ENTRY
from moldau.storage.segment import Segment
from moldau.storage.staging import Staged, StagedBatches
from moldau.types.ids import NO_TIMESTAMP

_ASK_THE_CLOCK = NO_TIMESTAMP - 1  # below every timestamp


class RollingRules:
    __slots__ = ("_max_age_ms", "_offset_entries", "_roll_after", "_time_entries", "index_limit", "segment_bytes")

    def __init__(self, config: TopicConfig) -> None:
        self.segment_bytes = config.segment_bytes
        self._offset_entries = config.segment_index_bytes // OFFSET_ENTRY.size
        self._time_entries = config.segment_index_bytes // TIME_ENTRY.size - 1
        self.index_limit = min(self._offset_entries, self._time_entries)
        self._max_age_ms = config.max_segment_ms
        self._roll_after = _ASK_THE_CLOCK  # until `look_at` has been asked

    def look_at(self, active: Segment) -> None:
        """Works out up to which record timestamp the active segment takes batches without a closer look."""
        first = active.first_timestamp if active.size else NO_TIMESTAMP
        self._roll_after = first + self._max_age_ms - active.jitter_ms if first >= 0 else _ASK_THE_CLOCK

    def fits(self, active: Segment, staged: StagedBatches) -> bool:
        """All of it may go into the active segment, beyond doubt."""
        return (
            0 < active.size <= self.segment_bytes - staged.size_bytes
            and staged.max_timestamp <= self._roll_after
            and staged.end_offset - active.base_offset <= MAX_RELATIVE_OFFSET
            and active.index_entries + len(staged.batches) < self.index_limit
        )

    def must_roll(
        self, active: Segment, batch: Staged, before: Sequence[Staged], before_bytes: int, wall_ms: Callable[[], int]
    ) -> bool:
        """Whether a batch needs a new segment, behind others that are going into the active one."""
        _, batch_size, _, last_offset, max_timestamp, _ = batch
        if last_offset - active.base_offset > MAX_RELATIVE_OFFSET:
            return True
        size = active.size + before_bytes
        if not size:
            return False
        first_timestamp = active.first_timestamp if active.size else before[0][4]
        age = max_timestamp - first_timestamp if first_timestamp >= 0 else wall_ms() - active.created_ms
        return (
            size > self.segment_bytes - batch_size
            or age > self._max_age_ms - active.jitter_ms
            or active.offset_index.entries >= self._offset_entries
            or active.time_index.entries >= self._time_entries
        )


def next_base(log_end_offset: int, batch: Staged) -> int:
    """Where the last segment ends, also if a leader's compaction left a gap before the batch: recovery takes a gap
    between two segments for a loss."""
    return log_end_offset if batch[3] - log_end_offset <= MAX_RELATIVE_OFFSET else batch[2]
