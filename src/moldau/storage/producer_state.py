"""What a partition remembers of each producer: the rules of idempotence and of open transactions (pure).

A batch of an idempotent producer must follow the last one without a gap; one of the last five may come again and is
answered with its first offsets. Of a transaction the log knows where it began in this partition and how it ended; from
that follow the last stable offset and the aborted transactions that readers skip.

Batches that are staged but not yet written are part of what the next batch is checked against, and are forgotten
without a trace if the write fails: entries are immutable, staging puts new ones beside the published ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.storage.batch_info import BatchInfo, Origin
from moldau.storage.errors import DuplicateBatchError, RefusedBatchError
from moldau.types.errors import ErrorCode
from moldau.types.ids import NO_EPOCH, NO_OFFSET, NO_SEQUENCE, NO_TIMESTAMP, TopicPartition
from moldau.wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from moldau.wire.control import EndTransactionMarker

BATCHES_REMEMBERED = 5
_MAX_SEQUENCE = 2**31 - 1
_new = tuple.__new__  # as a named tuple's own constructor, but without its unpacking; for what every batch needs


class BatchMark(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        if self.last_sequence < self.offset_delta:
            return _MAX_SEQUENCE - (self.offset_delta - self.last_sequence) + 1
        return self.last_sequence - self.offset_delta


class ProducerEntry(NamedTuple):
    epoch: int
    coordinator_epoch: int
    last_timestamp: int
    txn_first_offset: int
    batches: tuple[BatchMark, ...]

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET


_UNKNOWN = ProducerEntry(NO_EPOCH, -1, NO_TIMESTAMP, NO_OFFSET, ())


class CompletedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerChange(NamedTuple):
    """What publishing one batch does to the state."""

    producer_id: int
    entry: ProducerEntry
    started_txn_at: int = NO_OFFSET
    completed: CompletedTxn | None = None


class ProducerStates:
    __slots__ = (
        "_awaited", "_entries", "_ongoing", "_staged", "_topic_partition", "_unreplicated", "end_offset", "expiry_ms",
    )  # fmt: skip

    def __init__(self, topic_partition: TopicPartition, expiry_ms: int) -> None:
        self._topic_partition = topic_partition
        self.expiry_ms = expiry_ms  # may change at any time
        self._entries: dict[int, ProducerEntry] = {}
        self._staged: dict[int, ProducerEntry] = {}
        self._awaited: dict[int, int] = {}  # producer id → lowest sequence that it has tried to begin with
        self._ongoing: dict[int, int] = {}  # first offset → producer id, ascending
        self._unreplicated: dict[int, int] = {}  # first offset → offset of the marker
        self.end_offset = 0

    # -- appending ----------------------------------------------------------------------------------------------------

    def stage(
        self, info: BatchInfo, base_offset: int, origin: Origin, marker: EndTransactionMarker | None = None
    ) -> ProducerChange:
        """Check a producer's batch against everything written and staged before it, and count it in."""
        producer_id = info.producer_id
        entry = self._staged.get(producer_id)
        if entry is None:
            entry = self._entries.get(producer_id, _UNKNOWN)
        if marker is not None or info.attributes & CONTROL_BIT:
            change = self._end_txn(producer_id, entry, info, base_offset, origin, marker)
        else:
            change = self._data_batch(producer_id, entry, info, base_offset, origin)
        self._staged[producer_id] = change.entry
        return change

    def _data_batch(
        self, producer_id: int, entry: ProducerEntry, info: BatchInfo, base_offset: int, origin: Origin
    ) -> ProducerChange:
        epoch, delta, base_sequence = info.producer_epoch, info.last_offset_delta, info.base_sequence
        batches = entry.batches
        if epoch != entry.epoch or not batches or base_sequence != batches[-1][0] + 1:
            # Anything but the usual next batch.
            if origin is Origin.CLIENT:
                self._refuse_duplicate(entry, info)
            self._check_epoch(producer_id, entry, epoch, base_offset, origin)
            if origin is Origin.CLIENT:
                self._check_sequence(producer_id, entry, epoch, base_sequence, base_offset)
            if epoch != entry.epoch:
                batches = ()
        last_sequence = base_sequence + delta if base_sequence >= 0 else NO_SEQUENCE
        if last_sequence > _MAX_SEQUENCE:
            last_sequence -= _MAX_SEQUENCE + 1
        transactional = info.attributes & TRANSACTIONAL_BIT
        first_offset, started_at = entry.txn_first_offset, NO_OFFSET
        if transactional and first_offset < 0:
            first_offset = started_at = base_offset
        elif first_offset >= 0 and not transactional and origin is not Origin.REPLICATION:
            raise RefusedBatchError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id} at offset {base_offset} in partition "
                f"{self._topic_partition}",
            )
        timestamp = info.max_timestamp
        mark = _new(BatchMark, (last_sequence, base_offset + delta, delta, timestamp))
        batches = (*batches[1:], mark) if len(batches) == BATCHES_REMEMBERED else (*batches, mark)
        changed = _new(ProducerEntry, (epoch, entry.coordinator_epoch, timestamp, first_offset, batches))
        return _new(ProducerChange, (producer_id, changed, started_at, None))

    def _end_txn(
        self,
        producer_id: int,
        entry: ProducerEntry,
        info: BatchInfo,
        base_offset: int,
        origin: Origin,
        marker: EndTransactionMarker | None,
    ) -> ProducerChange:
        if marker is None:  # an emptied control batch: compaction has removed the whole transaction
            return ProducerChange(producer_id, entry)
        self._check_epoch(producer_id, entry, info.producer_epoch, base_offset, origin)
        if marker.coordinator_epoch < entry.coordinator_epoch and origin is not Origin.REPLICATION:
            raise RefusedBatchError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producerId {producer_id} at offset {base_offset} in partition "
                f"{self._topic_partition}: {marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
            )
        completed = None
        if entry.txn_first_offset >= 0:
            completed = CompletedTxn(producer_id, entry.txn_first_offset, base_offset, not marker.commit)
        batches = entry.batches if info.producer_epoch == entry.epoch else ()
        changed = ProducerEntry(info.producer_epoch, marker.coordinator_epoch, info.max_timestamp, NO_OFFSET, batches)
        return ProducerChange(producer_id, changed, completed=completed)

    def _refuse_duplicate(self, entry: ProducerEntry, info: BatchInfo) -> None:
        if entry.epoch != info.producer_epoch:
            return
        for mark in entry.batches:
            if mark.offset_delta == info.last_offset_delta and mark.first_sequence == info.base_sequence:
                raise DuplicateBatchError(mark.base_offset, mark.last_offset, mark.timestamp)

    def _check_epoch(self, producer_id: int, entry: ProducerEntry, epoch: int, offset: int, origin: Origin) -> None:
        if epoch < entry.epoch and origin is not Origin.REPLICATION:
            raise RefusedBatchError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {producer_id} at offset {offset} in {self._topic_partition} is {epoch}, "
                f"which is smaller than the last seen epoch {entry.epoch}",
            )

    def _check_sequence(self, producer_id: int, entry: ProducerEntry, epoch: int, sequence: int, offset: int) -> None:
        where = f"producer {producer_id} at offset {offset} in partition {self._topic_partition}"
        if entry.epoch == NO_EPOCH:
            # Nothing is known of it, perhaps its records have been deleted: any sequence may be next.
            if sequence > self._awaited.get(producer_id, sequence):
                raise RefusedBatchError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for {where}: {sequence} (incoming seq. number), "
                    f"{self._awaited[producer_id]} (earliest seen sequence)",
                )
            return
        if epoch != entry.epoch:
            if sequence != 0:
                raise RefusedBatchError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of {where}: {epoch} (request epoch), {sequence} "
                    f"(seq. number), {entry.epoch} (current producer epoch)",
                )
            return
        last = entry.last_sequence
        if sequence != last + 1 and not (sequence == 0 and last == _MAX_SEQUENCE):
            raise RefusedBatchError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for {where}: {sequence} (incoming seq. number), "
                f"{last} (current end sequence number)",
            )

    def publish(self, change: ProducerChange) -> CompletedTxn | None:
        """The batch is written. A completed transaction is returned so that an abort reaches the transaction index."""
        producer_id, entry, started_at, completed = change
        self._entries[producer_id] = entry
        if self._awaited:
            self._awaited.pop(producer_id, None)
        if started_at >= 0:
            self._ongoing[started_at] = producer_id
        if completed is not None:
            self._ongoing.pop(completed.first_offset, None)
            self._unreplicated[completed.first_offset] = completed.last_offset
        return completed

    def discard_staged(self) -> None:
        """Forget what is staged: it has been published, or its write failed."""
        self._staged.clear()

    # -- transactions -------------------------------------------------------------------------------------------------

    def first_undecided_offset(self) -> int | None:
        return next(iter(self._ongoing), None)

    def first_unstable_offset(self) -> int | None:
        """First offset of a transaction that is open, or whose marker is not yet known to be replicated."""
        if not self._ongoing and not self._unreplicated:
            return None
        undecided = self.first_undecided_offset()
        unreplicated = min(self._unreplicated, default=None)
        if undecided is None or (unreplicated is not None and unreplicated < undecided):
            return unreplicated
        return undecided

    def last_stable_offset_after(self, completed: CompletedTxn) -> int:
        """Last stable offset at the moment a transaction ends, as the transaction index records it."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def high_watermark_moved(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def has_ongoing_txn(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this very epoch is open, staged batches included."""
        entry = self.latest(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    def may_have_ended_since(
        self, remembered: ProducerEntry | None, producer_id: int, epoch: int, *, ends_raise_epoch: bool
    ) -> bool:
        """Whether the transaction of this epoch may have ended here since an entry was the latest. Where each end
        raises the epoch only a higher one says so: what came may be the marker of the transaction before, which was on
        its way for long.
        """
        entry = self.latest(producer_id)
        if entry is remembered or self.has_ongoing_txn(producer_id, epoch):
            return False
        return entry is None or entry.epoch > epoch or not ends_raise_epoch

    def latest(self, producer_id: int) -> ProducerEntry | None:
        """As the next batch is checked against: staged batches included. Every batch and every marker makes a new
        entry.
        """
        return self._staged.get(producer_id) or self._entries.get(producer_id)

    def await_first(self, producer_id: int, sequence: int) -> None:
        """A new producer's batch has to be verified before it is taken. If that fails for now and a later batch is
        faster, the later one may not be the first.
        """
        if self.latest(producer_id) is None and sequence >= 0:
            self._awaited[producer_id] = min(sequence, self._awaited.get(producer_id, sequence))

    def check_marker_epoch(self, producer_id: int, epoch: int) -> None:
        """Where each transaction has an epoch of its own, the marker that ends it carries a later one than its records.
        Only a repeated marker, which ends nothing, may find its own epoch.
        """
        entry = self.latest(producer_id)
        if entry is not None and entry.txn_first_offset >= 0 and epoch <= entry.epoch:
            raise RefusedBatchError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {epoch} of a marker of producer {producer_id} in {self._topic_partition} is not above the "
                f"epoch {entry.epoch} of the records",
            )

    # -- state --------------------------------------------------------------------------------------------------------

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def items(self) -> Iterator[tuple[int, ProducerEntry]]:
        return iter(self._entries.items())

    def __len__(self) -> int:
        return len(self._entries)

    def load(self, entries: Iterable[tuple[int, ProducerEntry]], end_offset: int, now_ms: int) -> None:
        """Become the state of a snapshot."""
        self.clear(end_offset)
        self._entries.update((pid, entry) for pid, entry in entries if not self._is_expired(entry, now_ms))
        open_txns = ((e.txn_first_offset, pid) for pid, e in self._entries.items() if e.txn_first_offset >= 0)
        self._ongoing.update(sorted(open_txns))

    def clear(self, end_offset: int) -> None:
        self._entries.clear()
        self._staged.clear()
        self._awaited.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset

    def log_start_moved(self, log_start_offset: int) -> None:
        self.high_watermark_moved(log_start_offset)
        self.end_offset = max(self.end_offset, log_start_offset)

    def remove_expired(self, now_ms: int) -> None:
        expired = [pid for pid, entry in self._entries.items() if self._is_expired(entry, now_ms)]
        for producer_id in expired:
            del self._entries[producer_id]
        self._awaited.clear()

    def _is_expired(self, entry: ProducerEntry, now_ms: int) -> bool:
        return entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= self.expiry_ms
