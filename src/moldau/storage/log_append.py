"""Appending to a log, as leader and as follower."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from moldau.kernels import BatchStatus, check_batch
from moldau.storage.batch_info import BatchInfo, Origin
from moldau.storage.errors import LogIOError, RefusedBatchError
from moldau.storage.files import Buffer, WritableBuffer
from moldau.storage.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY, TIME_ENTRY
from moldau.storage.log_base import LogBase, Staged
from moldau.storage.markers import read_marker
from moldau.storage.segment import Segment
from moldau.storage.txn_index import AbortedTxn
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.batch import CONTROL_BIT

LARGEST_EPOCH = 2**31 - 1
_PREFIX = Struct(">qii")  # base offset, length, leader epoch


class Commit(NamedTuple):
    first_offset: int
    end_offset: int
    size: int
    rolled: bool
    """A segment was completed; it should be flushed soon, in the background."""


class LogAppends(LogBase):
    __slots__ = ()

    @property
    def staged(self) -> bool:
        return bool(self._staged)

    def stage(self, batch: WritableBuffer, info: BatchInfo, leader_epoch: int, origin: Origin = Origin.CLIENT) -> int:
        """Assign the next offset to a validated batch. The buffer belongs to the log until `commit`.

        Raises RefusedBatchError if the producer may not write this batch now, DuplicateBatchError if it has already.
        """
        size, last_offset, max_timestamp = info.size, info.last_offset_delta, info.max_timestamp
        if size > self._segment_bytes or self._failed is not None:
            self._refuse(size)
        base_offset = self.staged_end_offset
        last_offset += base_offset
        change = None
        if info.producer_id >= 0:
            marker = read_marker(batch) if info.attributes & CONTROL_BIT else None
            change = self.producers.stage(info, base_offset, origin, marker)
            self._staged_producers = True
        _PREFIX.pack_into(batch, 0, base_offset, size - 12, leader_epoch)
        if leader_epoch != self._staged_epoch:
            self._staged_epoch = leader_epoch
            self._staged_epochs.append((leader_epoch, base_offset))
        self._staged.append((batch, size, base_offset, last_offset, max_timestamp, change))
        self._staged_bytes += size
        if max_timestamp > self._staged_max_timestamp:
            self._staged_max_timestamp = max_timestamp
            self._staged_max_offset = last_offset
        self.staged_end_offset = last_offset + 1
        return base_offset

    def begin_epoch(self, leader_epoch: int) -> None:
        """A leader's term begins, even if nothing is written in it. With batches staged, the next one begins it."""
        if not self._staged:
            self.leader_epochs.assign(leader_epoch, self.log_end_offset)
            self._staged_epoch = self.leader_epochs.latest

    def append_as_follower(self, batches: Buffer, leader_epoch: int = LARGEST_EPOCH) -> Commit:
        """Append what a leader has sent, with the leader's offsets and epochs. A cut-off last batch is left out.

        Raises RefusedBatchError for bytes that are not what the leader of this epoch may send next; then nothing of
        them was appended.
        """
        try:
            self._stage_from_leader(batches, leader_epoch)
        except KafkaError:
            self._forget_staged()
            raise
        return self.commit()

    def _stage_from_leader(self, batches: Buffer, leader_epoch: int) -> None:
        view = memoryview(batches)
        position, limit = 0, len(view)
        while position < limit:
            info = BatchInfo._make(check_batch(view, position, limit, False))
            if info.status == BatchStatus.TRUNCATED:
                return
            if info.status != BatchStatus.OK:
                raise RefusedBatchError(
                    ErrorCode.CORRUPT_MESSAGE, f"{BatchStatus(info.status).name} at byte {position}"
                )
            if info.base_offset < self.staged_end_offset:
                raise RefusedBatchError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"Unexpected offset in append to {self.topic_partition}. First offset {info.base_offset} is less "
                    f"than the next offset {self.staged_end_offset}.",
                )
            if info.leader_epoch > leader_epoch:
                raise RefusedBatchError(
                    ErrorCode.UNKNOWN_LEADER_EPOCH,
                    f"Unexpected epoch in append to {self.topic_partition}. Offset {info.base_offset} was written in "
                    f"epoch {info.leader_epoch}, the leader's is {leader_epoch}.",
                )
            if info.size > self._segment_bytes or self._failed is not None:
                self._refuse(info.size)
            batch = view[position : position + info.size]
            change = None
            if info.producer_id >= 0:
                marker = read_marker(batch) if info.attributes & CONTROL_BIT else None
                change = self.producers.stage(info, info.base_offset, Origin.REPLICATION, marker)
                self._staged_producers = True
            if info.leader_epoch != self._staged_epoch:
                self._staged_epoch = info.leader_epoch
                self._staged_epochs.append((info.leader_epoch, info.base_offset))
            last_offset = info.base_offset + info.last_offset_delta
            self._staged.append((batch, info.size, info.base_offset, last_offset, info.max_timestamp, change))
            self._staged_bytes += info.size
            if info.max_timestamp > self._staged_max_timestamp:
                self._staged_max_timestamp = info.max_timestamp
                self._staged_max_offset = last_offset
            self.staged_end_offset = last_offset + 1
            position += info.size

    def _refuse(self, size: int) -> None:
        if self._failed is not None:
            raise LogIOError(self.directory, self._failed)
        raise RefusedBatchError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {self.topic_partition}, which exceeds the "
            f"maximum configured segment size of {self._segment_bytes}.",
            tells_log_start=False,
        )

    def commit(self) -> Commit:
        """Write and publish what is staged."""
        staged = self._staged
        first_offset, total = self.log_end_offset, self._staged_bytes
        if not staged:
            return Commit(first_offset, first_offset, 0, False)
        segment = self.segments.active
        try:
            if (
                0 < segment.size <= self._segment_bytes - total
                and self._staged_max_timestamp <= self._roll_after
                and self.staged_end_offset - segment.base_offset <= MAX_RELATIVE_OFFSET
                and segment.index_entries + len(staged) < self._index_limit
            ):
                self._write(segment, staged, total)
            else:
                self._commit_by_segment(staged)
        except OSError as error:
            self._failed = str(error)
            raise LogIOError(self.directory, error) from error
        except LogIOError as error:
            self._failed = str(error)
            raise
        finally:
            self._forget_staged()
        return Commit(first_offset, self.log_end_offset, total, self.segments.active is not segment)

    def discard_staged(self) -> None:
        """Take back what is staged: it will not be written."""
        self._forget_staged()

    def _commit_by_segment(self, staged: Sequence[Staged]) -> None:
        """The careful way: asks before each batch whether the segment must be rolled, as Kafka does."""
        part: list[Staged] = []
        part_size = 0
        for batch in staged:
            if part and self.segments.active.index_entries + len(part) >= self._index_limit:
                self._write(self.segments.active, part, part_size)
                part, part_size = [], 0
            if self._must_roll(batch, part, part_size):
                if part:
                    self._write(self.segments.active, part, part_size)
                    part, part_size = [], 0
                self._roll(self._next_base(batch))
            part.append(batch)
            part_size += batch[1]
        self._write(self.segments.active, part, part_size)
        self._set_roll_time()

    def _next_base(self, batch: Staged) -> int:
        """Where the last segment ends, also if a leader's compaction left a gap before the batch: recovery takes a gap
        between two segments for a loss."""
        end = self.log_end_offset
        return end if batch[3] - end <= MAX_RELATIVE_OFFSET else batch[2]

    def _must_roll(self, batch: Staged, part: Sequence[Staged], part_size: int) -> bool:
        _, batch_size, _, last_offset, max_timestamp, _ = batch
        segment = self.segments.active
        if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            return True
        size = segment.size + part_size
        if not size:
            return False
        first_timestamp = segment.first_timestamp if segment.size else part[0][4]
        age = max_timestamp - first_timestamp if first_timestamp >= 0 else self._wall_ms() - segment.created_ms
        return (
            size > self._segment_bytes - batch_size
            or age > self._config.max_segment_ms - segment.jitter_ms
            or segment.offset_index.entries >= self._config.segment_index_bytes // OFFSET_ENTRY.size
            or segment.time_index.entries >= self._config.segment_index_bytes // TIME_ENTRY.size - 1
        )

    def _write(self, segment: Segment, staged: Sequence[Staged], total: int) -> None:
        segment.write([batch[0] for batch in staged], total)
        # Written: from here on only the files of the indexes can fail, and they can be built again.
        end_offset = staged[-1][3] + 1
        self.log_end_offset = end_offset
        interval = self._index_interval
        if staged is self._staged and segment.bytes_since_index + total - staged[-1][1] <= interval and segment.size:
            segment.account_many(total, self._staged_max_timestamp, self._staged_max_offset)
        else:
            for _, size, _, last_offset, max_timestamp, _ in staged:
                segment.account(last_offset, size, max_timestamp, interval)
        if self._staged_producers:
            self._publish_producers(segment, staged)
        self.producers.end_offset = end_offset
        for epoch, start_offset in self._staged_epochs:
            if start_offset < end_offset:
                self.leader_epochs.assign(epoch, start_offset)
        if not self._has_epoch_file:
            self._show_epochs()

    def _publish_producers(self, segment: Segment, staged: Sequence[Staged]) -> None:
        for batch in staged:
            change = batch[5]
            if change is not None:
                completed = self.producers.publish(change)
                if completed is not None and completed.aborted:
                    stable = self.producers.last_stable_offset_after(completed)
                    producer_id, first_offset, last_offset, _ = completed
                    segment.txn_index.append(AbortedTxn(producer_id, first_offset, last_offset, stable))
