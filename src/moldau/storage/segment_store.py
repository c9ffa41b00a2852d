"""The files of a log's segments: made, retired, replaced, and the producers' snapshots beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from moldau.config.topic import TopicConfig
from moldau.storage.files import FileSystem
from moldau.storage.flushing import PendingSync
from moldau.storage.layout import DELETED_SUFFIX
from moldau.storage.producer_snapshots import SnapshotFiles
from moldau.storage.producer_state import ProducerStates
from moldau.storage.segment import Segment
from moldau.storage.segment_list import SegmentList


class SegmentStore:
    __slots__ = ("_deleted", "_files", "_jitter", "_pending", "folder", "segments", "snapshots")

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        segments: Iterable[Segment],
        snapshots: SnapshotFiles,
        pending: PendingSync,
        jitter: Callable[[int], int],
    ) -> None:
        """`pending` is told what has to be synced. `jitter(n)` gives a random number below n."""
        self._files = files
        self._pending = pending
        self._jitter = jitter
        self._deleted: list[str] = []
        self.folder = folder
        self.segments = SegmentList(segments)
        self.snapshots = snapshots

    # -- growing ------------------------------------------------------------------------------------------------------

    def add_segment(self, base_offset: int, config: TopicConfig, now_ms: int) -> None:
        spread = min(config.segment_jitter_ms, config.segment_ms)
        self._pending.folder_changed()
        self.segments.add(
            Segment.create(
                self._files,
                self.folder,
                base_offset,
                created_ms=now_ms,
                jitter_ms=self._jitter(spread) if spread > 0 else 0,
                preallocate=config.segment_bytes if config.preallocate else 0,
            )
        )

    def seal_active(self) -> None:
        self._pending.add_files(map(os.path.basename, self.segments.active.seal()))

    def take_snapshot(self, producers: ProducerStates) -> None:
        path = self.snapshots.take(producers)
        if path is not None:
            self._pending.add_files([os.path.basename(path)])

    # -- retiring -----------------------------------------------------------------------------------------------------

    def retire(self, segments: Sequence[Segment]) -> None:
        """Take segments out of service, in this order: a crash in between must leave no hole, so it is the newest first
        when the end is cut and the oldest first when the start moves. Who still reads from a file may finish."""
        self.segments.remove(segments)
        for segment in segments:
            self._put_away(segment)
            self.snapshots.remove(segment.base_offset)
        if segments:
            self._pending.folder_changed()

    def _put_away(self, segment: Segment) -> None:
        segment.change_suffix(DELETED_SUFFIX)
        self._deleted += segment.paths()
        segment.close()

    def take_deleted(self) -> list[str]:
        """Files that were renamed to .deleted since the last call."""
        deleted, self._deleted = self._deleted, []
        return deleted

    # -- replacing ----------------------------------------------------------------------------------------------------

    def swap_in(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        self.segments.remove(old)
        for segment in new:
            self.segments.add(segment)
        replaced = {segment.base_offset for segment in new}
        for segment in old:
            self._put_away(segment)
            if segment.base_offset not in replaced:
                self.snapshots.remove(segment.base_offset)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        for segment in self.segments:
            segment.close()

    def moved_to(self, folder: str) -> None:
        self.folder = self.snapshots.folder = folder
        for segment in self.segments:
            segment.moved_to(folder)
