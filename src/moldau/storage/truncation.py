"""Where a log would end if it were cut at an offset, and the cut itself: in the segments, what is known of epochs and
of producers. What else has to know of it is told by the log.
"""

from __future__ import annotations

from moldau.config.topic import TopicConfig
from moldau.storage.epochs import LeaderEpochCache
from moldau.storage.files import FileSystem
from moldau.storage.producer_replay import rebuild_producers
from moldau.storage.producer_state import ProducerStates
from moldau.storage.segment_store import SegmentStore


class Truncation:
    __slots__ = ("_epochs", "_files", "_producers", "_segments", "_store")

    def __init__(
        self, files: FileSystem, store: SegmentStore, epochs: LeaderEpochCache, producers: ProducerStates
    ) -> None:
        self._files = files
        self._store = store
        self._segments = store.segments
        self._epochs = epochs
        self._producers = producers

    def end_if_cut(self, offset: int, log_start_offset: int) -> int:
        """At the offset, or before the batch that contains it; the offset lies before the log's end."""
        if offset < self._segments.first.base_offset:
            return offset
        segment = self._segments.at(offset)
        position = segment.locate(offset)
        return offset if position < 0 else max(min(offset, segment.base_offset_at(position)), log_start_offset)

    def cut(self, offset: int, log_start_offset: int) -> int:
        """Removes every batch that reaches the offset or lies behind it, and returns where the log ends now."""
        self._store.retire([segment for segment in reversed(list(self._segments)) if segment.base_offset > offset])
        active = self._segments.active
        position = active.locate(offset)
        if position < 0:
            position = active.size
        else:
            offset = max(min(offset, active.base_offset_at(position)), log_start_offset)
        active.truncate(position, offset)
        self._epochs.truncate_from_end(offset)
        return offset

    def bring_back_producers(self, log_start_offset: int, end: int, now_ms: int) -> None:
        """As they stood at the new end: from the last snapshot before it and the records behind that."""
        snapshots = self._store.snapshots
        snapshots.remove_outside(log_start_offset, end)
        snapshots.load_latest(self._producers, log_start_offset, now_ms)
        rebuild_producers(self._files, self._segments, self._producers, log_start_offset, end)

    def empty(self, offset: int, config: TopicConfig, now_ms: int) -> None:
        """Removes everything; a new segment begins at the offset."""
        self._store.retire(list(reversed(list(self._segments))))
        self._store.add_segment(offset, config, now_ms)
        self._epochs.clear()
        self._store.snapshots.remove_all()
        self._producers.clear(offset)
