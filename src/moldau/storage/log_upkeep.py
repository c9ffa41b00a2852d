"""What happens to a log besides appending and reading: flushing, truncation, deletion, replacement, closing."""

from __future__ import annotations

import os
from collections.abc import Sequence

from moldau.storage.files import remove_if_exists
from moldau.storage.flushing import FlushWork
from moldau.storage.layout import DELETED_SUFFIX, SWAP_SUFFIX
from moldau.storage.log_base import LogBase
from moldau.storage.producer_replay import rebuild_producers
from moldau.storage.segment import Segment


class LogUpkeep(LogBase):
    __slots__ = ()

    # -- flushing -----------------------------------------------------------------------------------------------------

    def flush_required(self) -> bool:
        """Whether `flush.messages` wants what was committed to be on disk before it is answered."""
        return self.log_end_offset - self.recovery_point >= self._flush_messages

    def flush_work(self, up_to: int | None = None) -> FlushWork:
        """What has to be synced so that the log survives up to an offset. Run it, in a thread if you like; when it has
        succeeded call `flushed` with the same offset."""
        up_to = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        unflushed = self.segments.starting_with(self.recovery_point) if up_to > self.recovery_point else []
        epochs = self.leader_epochs
        work = FlushWork(
            self._files,
            self.directory,
            self._pending,
            up_to=up_to,
            generation=self._generation,
            handles=[each.file.fileno for each in unflushed if each.base_offset < up_to],
            epochs=epochs.encode(),
            epochs_path=epochs.path,
            epochs_version=epochs.version,
        )
        self._flushing.append(work)
        return work

    def flushed(self, up_to: int) -> None:
        """The work for this offset has succeeded: the recovery point moves there."""
        done = [work for work in self._flushing if work.done]
        self._flushing = [work for work in self._flushing if not work.done]
        for work in done:
            self._pending.settle(work.covered)
        # A truncation meanwhile has put other data where the synced data was.
        if any(work.generation == self._generation and work.up_to == up_to for work in done):
            flushed_from = self.recovery_point
            self.recovery_point = max(flushed_from, self._pending.limit(up_to))
            if self._recovery_limit is not None:
                self.recovery_point = min(self.recovery_point, self._recovery_limit)
            self.last_flush_ms = self._wall_ms()
            for segment in self.segments.starting_with(flushed_from):
                if segment is not self.segments.active and segment not in self._recently_read:
                    segment.file.rest()

    def flush(self, up_to: int | None = None) -> None:
        """Sync up to an offset, here and now."""

        def run() -> None:
            work = self.flush_work(up_to)
            work()
            self.flushed(work.up_to)

        self._guarded(run)

    # -- truncation ---------------------------------------------------------------------------------------------------

    def end_if_truncated_to(self, offset: int) -> int:
        """Where the log would end: at the offset, or before the batch that contains it."""
        if offset >= self.log_end_offset:
            return self.log_end_offset
        if offset < self.segments.first.base_offset:
            return offset
        segment = self.segments.at(offset)
        position = segment.locate(offset)
        return offset if position < 0 else max(min(offset, segment.base_offset_at(position)), self.log_start_offset)

    def prepare_truncation(self, offset: int) -> int:
        """Lowers the recovery point below an offset at which the log will be cut. It has to be on disk before that:
        what is written after the cut is not flushed, and a start must look at it. Returns the recovery point.
        """
        if offset < self.log_end_offset:
            # Below the new end, since the file's new length is not on disk yet: the next flush has something to do.
            self._recovery_limit = max(0, self.end_if_truncated_to(offset) - 1)
            self.recovery_point = min(self.recovery_point, self._recovery_limit)
        return self.recovery_point

    def end_truncation(self) -> None:
        """It is done, or not wanted any more."""
        self._recovery_limit = None

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that reaches an offset or lies behind it.

        The log ends there, or before the batch that contained the offset: no offset is left without a record, or a
        later recovery would take that for a loss.
        """
        self._require_nothing_staged()
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            self._staged_epoch = self.leader_epochs.latest
            return False
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            self._guarded(lambda: self._truncate(offset))
        return True

    def _truncate(self, offset: int) -> None:
        self._retire([segment for segment in reversed(list(self.segments)) if segment.base_offset > offset])
        active = self.segments.active
        position = active.locate(offset)
        if position < 0:
            position = active.size
        else:
            offset = max(min(offset, active.base_offset_at(position)), self.log_start_offset)
        active.truncate(position, offset)
        self.leader_epochs.truncate_from_end(offset)
        self._end_at(offset)
        self._snapshots.remove_outside(self.log_start_offset, offset)
        self._snapshots.load_latest(self.producers, self.log_start_offset, self._wall_ms())
        rebuild_producers(self._files, self.segments, self.producers, self.log_start_offset, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the log goes on at an offset."""
        self._require_nothing_staged()

        def run() -> None:
            self._retire(list(reversed(list(self.segments))))
            self.segments.add(self._create_segment(offset))
            self.leader_epochs.clear()
            self._snapshots.remove_all()
            self.producers.clear(offset)
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            self._end_at(offset)

        self._guarded(run)

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = self.staged_end_offset = offset
        # Below the new end, since the file's new length is not on disk yet: the next flush has something to do.
        self.recovery_point = min(self.recovery_point, max(0, offset - 1))
        self._generation += 1
        self._pending.truncated_to(offset)
        self._read_ends.clear()
        self._staged_epoch = self.leader_epochs.latest
        self._forget_staged()
        self._set_roll_time()

    def _require_nothing_staged(self) -> None:
        if self._staged:
            raise RuntimeError(f"{self.topic_partition} has staged batches: commit or discard them first")

    # -- deletion -----------------------------------------------------------------------------------------------------

    def advance_log_start(self, offset: int) -> list[Segment]:
        """Records below an offset are gone for readers; segments that lie below it altogether are removed."""
        if offset <= self.log_start_offset:
            return []
        self._set_log_start(offset)
        bases = self.segments.bases
        below = [segment for segment, following in zip(self.segments, bases[1:], strict=False) if following <= offset]
        self._guarded(lambda: self._retire(below))
        return below

    def remove_segments(self, segments: Sequence[Segment]) -> None:
        """Remove the oldest segments, all of them if asked; the log start moves to what is left."""
        if not segments:
            return
        if segments[-1] is self.segments.active:
            self._guarded(lambda: self._roll(self.log_end_offset))
        following = self.segments.after(segments[-1])
        if following is None:
            raise ValueError("an empty active segment stays")
        self._set_log_start(max(self.log_start_offset, following.base_offset))
        self._guarded(lambda: self._retire(segments))

    def take_deleted(self) -> list[str]:
        """Files that were renamed to .deleted since the last call; the caller unlinks them after its delay."""
        deleted, self._deleted = self._deleted, []
        return deleted

    def _set_log_start(self, offset: int) -> None:
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producers.log_start_moved(offset)

    def _retire(self, segments: Sequence[Segment]) -> None:
        """Take segments out of service, in this order: a crash in between must leave no hole, so it is the newest first
        when the end is cut and the oldest first when the start moves. Who still reads from a file may finish."""
        self.segments.remove(segments)
        self._read_ends.clear()
        self._recently_read.clear()
        for segment in segments:
            segment.change_suffix(DELETED_SUFFIX)
            self._deleted += segment.paths()
            segment.close()
            self._snapshots.remove(segment.base_offset)
        if segments:
            self._pending.folder_changed()

    # -- replacement --------------------------------------------------------------------------------------------------

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Put cleaned segments (named .cleaned, synced) in the place of sealed ones. At every moment a crash leaves
        either the old or the new ones to be found: .swap says that all new ones are complete. Syncs the folder after
        each step; who must not block takes the steps one by one and syncs elsewhere."""
        self._guarded(lambda: announce_segments(new))
        self._guarded(lambda: self._files.sync_directory(self.directory))
        self.swap_in_segments(new, old)
        self._guarded(lambda: self._files.sync_directory(self.directory))
        self.finish_swap(new)
        self._guarded(lambda: self._files.sync_directory(self.directory))

    def swap_in_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Second step: from here on the announced segments are read, the old ones are only files to be deleted."""

        def run() -> None:
            self.segments.remove(old)
            for segment in new:
                self.segments.add(segment)
            self._read_ends.clear()
            self._recently_read.clear()
            replaced = {segment.base_offset for segment in new}
            for segment in old:
                segment.change_suffix(DELETED_SUFFIX)
                self._deleted += segment.paths()
                segment.close()
                if segment.base_offset not in replaced:
                    self._snapshots.remove(segment.base_offset)

        self._guarded(run)

    def finish_swap(self, new: Sequence[Segment]) -> None:
        """Third step: the new segments get their names. Only after the old names are gone for good, or a crash could
        leave a new segment beside old ones that it has replaced."""

        def run() -> None:
            for segment in new:
                segment.change_suffix("")

        self._guarded(run)

    # -- end ----------------------------------------------------------------------------------------------------------

    def close(self, clean: bool) -> None:
        """Let go of all files. A clean close leaves everything synced, so that the next start need not look."""
        self._forget_staged()
        try:
            if clean and not self.failed and not self.is_untouched:
                self._guarded(self._finish)
        finally:
            for segment in self.segments:
                segment.close()

    def _finish(self) -> None:
        active = self.segments.active
        self._pending.add_files(map(os.path.basename, active.seal()))
        self._take_snapshot(self.log_end_offset)
        work = self.flush_work()
        work()
        self.flushed(work.up_to)

    def moved_to(self, directory: str) -> None:
        """The partition's folder has been renamed."""
        self.directory = directory
        self.leader_epochs.moved_to(directory)
        self._snapshots.directory = directory
        for segment in self.segments:
            segment.moved_to(directory)

    def delete_files(self) -> None:
        """Remove all files of the log at once; the folder itself is the owner's."""
        for segment in self.segments:
            segment.close()
            segment.unlink()
        self._snapshots.remove_all()
        for path in [*self.take_deleted(), self.leader_epochs.path]:
            remove_if_exists(self._files, path)


def announce_segments(new: Sequence[Segment]) -> None:
    """First step of a replacement: the names .swap say that every new segment is complete."""
    for segment in reversed(new):
        segment.change_suffix(SWAP_SUFFIX)
