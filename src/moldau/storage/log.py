"""One partition's log.

Single-threaded: its owner (the event loop) calls it; only `FlushWork` may run elsewhere. The way of a batch:

`stage`   checks the producer's sequence, assigns the offset, writes it into the batch. Nothing is visible yet.
`commit`  writes all staged batches with one call per segment, then publishes: end offset, producers, indexes, epochs.

If the write fails, the file is cut back, what was staged is forgotten, and LogIOError tells the owner to take the
log directory offline. Where a group spans two segments, what went into the first one is published before the second is
written: `log_end_offset` tells how far the commit came.

It is put together of what is staged (`staging`), when a segment is full (`rolling`), the files (`segment_store`), what
is on disk for good (`durability`), where things lie (`log_reader`) and how its end is cut off (`truncation`). Which of
them is told what, and when, stands here. `opening` finds or makes it in a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import NamedTuple

from moldau.config.topic import TopicConfig
from moldau.storage.batch_info import BatchInfo, Origin
from moldau.storage.durability import Durability
from moldau.storage.epochs import EpochStart
from moldau.storage.errors import LogIOError, RefusedBatchError
from moldau.storage.files import Buffer, FileSystem, WritableBuffer, write_file
from moldau.storage.flushing import FlushWork
from moldau.storage.from_leader import batches_from_leader
from moldau.storage.log_reader import FoundOffset, LogReader, LogSlice
from moldau.storage.markers import read_marker
from moldau.storage.recovery import LoadedLog, RecoveryReport
from moldau.storage.rolling import RollingRules, next_base
from moldau.storage.segment import Segment
from moldau.storage.segment_store import SegmentStore
from moldau.storage.staging import Staged, StagedBatches
from moldau.storage.truncation import Truncation
from moldau.storage.txn_index import AbortedTxn
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.batch import CONTROL_BIT

__all__ = ("Commit", "FoundOffset", "LogSlice", "PartitionLog")

LARGEST_EPOCH = 2**31 - 1
_PREFIX = Struct(">qii")  # base offset, length, leader epoch


class Commit(NamedTuple):
    first_offset: int
    end_offset: int
    size: int
    rolled: bool
    """A segment was completed; it should be flushed soon, in the background."""


class PartitionLog:
    __slots__ = (
        "_config",
        "_durability",
        "_failed",
        "_files",
        "_flush_messages",
        "_has_epoch_file",
        "_index_interval",
        "_is_whole_on_disk",
        "_opened_end",
        "_reader",
        "_rolling",
        "_staged",
        "_store",
        "_truncation",
        "_wall_ms",
        "folder",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        files: FileSystem,
        folder: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        found: LoadedLog,
        *,
        is_whole_on_disk: bool,
        wall_ms: Callable[[], int],
        jitter: Callable[[int], int],
    ) -> None:
        """`is_whole_on_disk`: a start would find the same again."""
        self._files = files
        self.folder = folder
        self.topic_partition = topic_partition
        self.log_start_offset = found.log_start_offset
        self.log_end_offset = found.log_end_offset
        self.leader_epochs = found.leader_epochs
        self.producers = found.producers
        self.recovery: RecoveryReport = found.report
        """What opening the log found and did."""
        self._wall_ms = wall_ms
        self._failed: str | None = None
        self._is_whole_on_disk = is_whole_on_disk
        self._opened_end = found.log_end_offset
        self._has_epoch_file = files.exists(found.leader_epochs.path)
        self._durability = Durability(files, found.recovery_point, found.unsynced, wall_ms())
        self._store = SegmentStore(files, folder, found.segments, found.snapshots, self._durability.pending, jitter)
        self.segments = self._store.segments
        self._reader = LogReader(files, self.segments)
        self._truncation = Truncation(files, self._store, found.leader_epochs, found.producers)
        self._staged = StagedBatches(found.log_end_offset, found.leader_epochs.latest)
        self.config = config

    # -- how it stands ------------------------------------------------------------------------------------------------

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        self._index_interval = config.index_interval_bytes
        self._flush_messages = config.flush_messages
        self._rolling = RollingRules(config)

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        return self._durability.recovery_point

    @property
    def last_flush_ms(self) -> int:
        return self._durability.last_flush_ms

    @property
    def staged(self) -> bool:
        return bool(self._staged.batches)

    @property
    def staged_end_offset(self) -> int:
        return self._staged.end_offset

    @property
    def failed(self) -> bool:
        """An I/O error has hit this log: it takes no more batches."""
        return self._failed is not None

    @property
    def is_untouched(self) -> bool:
        """Nothing has happened to the log since it was opened that a start would not find on disk."""
        return (
            self._is_whole_on_disk
            and self.log_end_offset == self._opened_end
            and self._durability.is_as_at_first
            and self._has_only_empty_new_epochs
        )

    @property
    def _has_only_empty_new_epochs(self) -> bool:
        """The term of a leader that wrote nothing: the next one begins at the same offset and takes its place."""
        epochs = self.leader_epochs
        return epochs.version == 0 or (epochs.version == 1 and epochs.latest_start == self.log_end_offset)

    def bring_to_disk_too(self, names: Iterable[str]) -> None:
        """Files were written beside the records: the next flush takes care of them."""
        self._durability.pending.add_files(names)
        self._durability.pending.folder_changed()

    # -- appending ----------------------------------------------------------------------------------------------------

    def stage(self, batch: WritableBuffer, info: BatchInfo, leader_epoch: int, origin: Origin = Origin.CLIENT) -> int:
        """Assign the next offset to a validated batch. The buffer belongs to the log until `commit`.

        Raises RefusedBatchError if the producer may not write this batch now, DuplicateBatchError if it has already.
        """
        size = info.size
        if size > self._rolling.segment_bytes or self._failed is not None:
            self._refuse(size)
        staged = self._staged
        base_offset = staged.end_offset
        change = None
        if info.producer_id >= 0:
            marker = read_marker(batch) if info.attributes & CONTROL_BIT else None
            change = self.producers.stage(info, base_offset, origin, marker)
        _PREFIX.pack_into(batch, 0, base_offset, size - 12, leader_epoch)
        last_offset = base_offset + info.last_offset_delta
        staged.add(batch, size, base_offset, last_offset, info.max_timestamp, leader_epoch, change)
        return base_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader's term begins, even if nothing is written in it. With batches staged, the next one begins it."""
        if not self._staged.batches:
            self.leader_epochs.assign(leader_epoch, self.log_end_offset)
            self._staged.epoch = self.leader_epochs.latest

    def take_epochs(self, original: PartitionLog) -> None:
        """Those of the log that this one is a copy of: what compaction has left of an epoch begins later than it."""
        if self.leader_epochs.entries != original.leader_epochs.entries:
            self.leader_epochs.clear()
            for entry in original.leader_epochs.entries:
                self.leader_epochs.assign(*entry)
            self._staged.epoch = self.leader_epochs.latest

    def append_as_follower(self, batches: Buffer, leader_epoch: int = LARGEST_EPOCH) -> Commit:
        """Append what a leader has sent, with the leader's offsets and epochs. A cut-off last batch is left out.

        Raises RefusedBatchError for bytes that are not what the leader of this epoch may send next; then nothing of
        them was appended.
        """
        staged = self._staged
        try:
            for batch, info in batches_from_leader(batches, staged.end_offset, leader_epoch, self.topic_partition):
                if info.size > self._rolling.segment_bytes or self._failed is not None:
                    self._refuse(info.size)
                change = None
                if info.producer_id >= 0:
                    marker = read_marker(batch) if info.attributes & CONTROL_BIT else None
                    change = self.producers.stage(info, info.base_offset, Origin.REPLICATION, marker)
                last_offset = info.base_offset + info.last_offset_delta
                staged.add(
                    batch, info.size, info.base_offset, last_offset, info.max_timestamp, info.leader_epoch, change
                )
        except KafkaError:
            self.discard_staged()
            raise
        return self.commit()

    def _refuse(self, size: int) -> None:
        if self._failed is not None:
            raise LogIOError(self.folder, self._failed)
        raise RefusedBatchError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {self.topic_partition}, which exceeds the "
            f"maximum configured segment size of {self._rolling.segment_bytes}.",
            tells_log_start=False,
        )

    def commit(self) -> Commit:
        """Write and publish what is staged."""
        staged, segment, first_offset = self._staged, self.segments.active, self.log_end_offset
        if not staged.batches:
            return Commit(first_offset, first_offset, 0, False)
        total = staged.size_bytes
        try:
            if self._rolling.fits(segment, staged):
                self._write(segment, staged.batches, total)
            else:
                self._commit_by_segment(staged.batches)
        except OSError as error:
            self._failed = str(error)
            raise LogIOError(self.folder, error) from error
        except LogIOError as error:
            self._failed = str(error)
            raise
        finally:
            self.discard_staged()
        return Commit(first_offset, self.log_end_offset, total, self.segments.active is not segment)

    def discard_staged(self) -> None:
        """Take back what is staged and was not written."""
        if self._staged.batches:
            self.producers.discard_staged()
        self._staged.clear(self.log_end_offset, self.leader_epochs.latest)

    def _commit_by_segment(self, batches: Sequence[Staged]) -> None:
        """The careful way: asks before each batch whether the segment must be rolled, as Kafka does."""
        rolling = self._rolling
        part: list[Staged] = []
        part_size = 0
        for batch in batches:
            if part and self.segments.active.index_entries + len(part) >= rolling.index_limit:
                self._write(self.segments.active, part, part_size)
                part, part_size = [], 0
            if rolling.must_roll(self.segments.active, batch, part, part_size, self._wall_ms):
                if part:
                    self._write(self.segments.active, part, part_size)
                    part, part_size = [], 0
                self._roll(next_base(self.log_end_offset, batch))
            part.append(batch)
            part_size += batch[1]
        self._write(self.segments.active, part, part_size)
        rolling.look_at(self.segments.active)

    def _write(self, segment: Segment, batches: Sequence[Staged], total: int) -> None:
        segment.write([batch[0] for batch in batches], total)
        # Written: from here on only the files of the indexes can fail, and they can be built again.
        staged, interval = self._staged, self._index_interval
        end_offset = batches[-1][3] + 1
        self.log_end_offset = end_offset
        is_all = batches is staged.batches
        if is_all and segment.bytes_since_index + total - batches[-1][1] <= interval and segment.size:
            segment.account_many(total, staged.max_timestamp, staged.max_timestamp_offset)
        else:
            for _, size, _, last_offset, max_timestamp, _ in batches:
                segment.account(last_offset, size, max_timestamp, interval)
        if staged.changes_producers:
            self._publish_producers(segment, batches)
        self.producers.end_offset = end_offset
        for epoch, start_offset in staged.new_epochs:
            if start_offset < end_offset:
                self.leader_epochs.assign(epoch, start_offset)
        if not self._has_epoch_file:
            self._show_epochs()

    def _publish_producers(self, segment: Segment, batches: Sequence[Staged]) -> None:
        for batch in batches:
            change = batch[5]
            if change is not None:
                completed = self.producers.publish(change)
                if completed is not None and completed.aborted:
                    stable = self.producers.last_stable_offset_after(completed)
                    producer_id, first_offset, last_offset, _ = completed
                    segment.txn_index.append(AbortedTxn(producer_id, first_offset, last_offset, stable))

    def _show_epochs(self) -> None:
        """The first of a log's epochs is seen in its folder at once; what a flush brings to disk is what counts."""
        self._has_epoch_file = True
        write_file(self._files, self.leader_epochs.path, self.leader_epochs.encode(), sync=False)
        self._durability.pending.folder_changed()

    # -- segments -----------------------------------------------------------------------------------------------------

    def roll(self) -> Segment:
        """Begin a new segment at the end of the log."""
        if self.segments.active.size:
            self._guarded(lambda: self._roll(self.log_end_offset))
        return self.segments.active

    def _roll(self, base_offset: int) -> None:
        old = self.segments.active
        if not old.size and old.base_offset == base_offset:
            return
        self._store.seal_active()
        self._take_snapshot(base_offset)
        self._durability.segment_sealed(self.folder, self.log_end_offset, base_offset)
        self._store.add_segment(base_offset, self._config, self._wall_ms())
        self._rolling.look_at(self.segments.active)

    def _take_snapshot(self, offset: int) -> None:
        self.producers.end_offset = offset
        if offset > self.log_start_offset:
            self._store.take_snapshot(self.producers)

    def _retire(self, segments: Sequence[Segment]) -> None:
        self._store.retire(segments)
        self._reader.forget()

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, max_offset: int, min_one: bool = True) -> LogSlice:
        """Whole batches from the one that contains an offset on, of one segment, none at or above `max_offset`.

        The first batch may be larger than `max_bytes` if `min_one` is set. The slice is empty if there is nothing.
        """
        try:
            return self._reader.read(offset, max_bytes, max_offset, self.log_start_offset, self.log_end_offset, min_one)
        except OSError as error:
            raise LogIOError(self.folder, error) from error

    def offset_for_timestamp(self, timestamp: int) -> FoundOffset | None:
        """The first record, in the order of offsets, that is as young as a timestamp or younger."""
        try:
            return self._reader.offset_for_timestamp(timestamp, self.log_start_offset)
        except OSError as error:
            raise LogIOError(self.folder, error) from error

    def max_timestamp(self) -> FoundOffset | None:
        """The first record that carries the largest timestamp of the log."""
        try:
            return self._reader.max_timestamp()
        except OSError as error:
            raise LogIOError(self.folder, error) from error

    def epoch_end_offset(self, epoch: int) -> EpochStart:
        """The largest epoch not above the asked one and the offset at which it ended; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        first = self.producers.first_unstable_offset()
        return None if first is None else max(first, self.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where every transaction is decided, and known to be so by all replicas in sync."""
        self.producers.high_watermark_moved(high_watermark)
        first = self.first_unstable_offset
        return high_watermark if first is None else min(first, high_watermark)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTxn]:
        """Aborted transactions with records between two offsets (the second excluded)."""
        return self._reader.aborted_transactions(start, end)

    # -- flushing -----------------------------------------------------------------------------------------------------

    def flush_required(self) -> bool:
        """Whether `flush.messages` wants what was committed to be on disk before it is answered."""
        return self.log_end_offset - self._durability.recovery_point >= self._flush_messages

    def flush_work(self, up_to: int | None = None) -> FlushWork:
        """What has to be synced so that the log survives up to an offset. Run it, in a thread if you like; when it has
        succeeded call `flushed` with the same offset."""
        up_to = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        return self._durability.work(self.folder, self.segments, self.leader_epochs, up_to)

    def flushed(self, up_to: int) -> None:
        """The work for this offset has succeeded: the recovery point moves there."""
        flushed_from = self.recovery_point
        if self._durability.flushed(up_to, self._wall_ms()):
            for segment in self.segments.starting_with(flushed_from):
                if segment is not self.segments.active and not self._reader.was_read_recently(segment):
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
        return self._truncation.end_if_cut(offset, self.log_start_offset)

    def prepare_truncation(self, offset: int) -> int:
        """Lowers the recovery point below an offset at which the log will be cut. It has to be on disk before that:
        what is written after the cut is not flushed, and a start must look at it. Returns the recovery point.
        """
        if offset < self.log_end_offset:
            self._durability.prepare_truncation(self.end_if_truncated_to(offset))
        return self.recovery_point

    def end_truncation(self) -> None:
        """It is done, or not wanted any more."""
        self._durability.end_truncation()

    def truncate_to(self, offset: int) -> bool:
        """Remove every batch that reaches an offset or lies behind it.

        The log ends there, or before the batch that contained the offset: no offset is left without a record, or a
        later recovery would take that for a loss.
        """
        self._require_nothing_staged()
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            self._staged.epoch = self.leader_epochs.latest
            return False
        if offset < self.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            self._guarded(lambda: self._truncate(offset))
        return True

    def _truncate(self, offset: int) -> None:
        self._reader.forget()
        end = self._truncation.cut(offset, self.log_start_offset)
        self._end_at(end)
        self._truncation.bring_back_producers(self.log_start_offset, end, self._wall_ms())

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the log goes on at an offset."""
        self._require_nothing_staged()

        def run() -> None:
            self._reader.forget()
            self._truncation.empty(offset, self._config, self._wall_ms())
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            self._end_at(offset)

        self._guarded(run)

    def _end_at(self, offset: int) -> None:
        self.log_end_offset = offset
        self._durability.truncated_to(offset)
        self._reader.forget()
        self.discard_staged()
        self._rolling.look_at(self.segments.active)

    def _require_nothing_staged(self) -> None:
        if self._staged.batches:
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
        return self._store.take_deleted()

    def _set_log_start(self, offset: int) -> None:
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producers.log_start_moved(offset)

    # -- replacement --------------------------------------------------------------------------------------------------

    def swap_in_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Cleaned segments take the place of sealed ones; `compaction.swap.announce` comes first. From here on they
        are read, and the old ones are only files to be deleted."""
        self._reader.forget()
        self._guarded(lambda: self._store.swap_in(new, old))

    def finish_swap(self, new: Sequence[Segment]) -> None:
        """The new segments get their names. Only after the old names are gone for good, or a crash could
        leave a new segment beside old ones that it has replaced."""

        def run() -> None:
            for segment in new:
                segment.change_suffix("")

        self._guarded(run)

    # -- end ----------------------------------------------------------------------------------------------------------

    def close(self, clean: bool) -> None:
        """Let go of all files. A clean close leaves everything synced, so that the next start need not look."""
        self.discard_staged()
        try:
            if clean and not self.failed and not self.is_untouched:
                self._guarded(self._finish)
        finally:
            self._store.close()

    def _finish(self) -> None:
        self._store.seal_active()
        self._take_snapshot(self.log_end_offset)
        work = self.flush_work()
        work()
        self.flushed(work.up_to)

    def moved_to(self, folder: str) -> None:
        """The partition's folder has been renamed."""
        self.folder = folder
        self.leader_epochs.moved_to(folder)
        self._store.moved_to(folder)

    def _guarded(self, action: Callable[[], object]) -> None:
        """Run something that touches the disk; an error ends this log's service."""
        try:
            action()
        except OSError as error:
            self._failed = str(error)
            raise LogIOError(error.filename or self.folder, error) from error
        except LogIOError as error:
            self._failed = str(error)
            raise
