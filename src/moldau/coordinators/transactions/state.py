"""A transactional id as a value: every change makes a new one, as a record of `__transaction_state` holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from moldau.types.ids import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

#: The last epoch is kept for fencing: a producer that would reach it gets a new id instead.
LAST_USABLE_EPOCH = 32766
#: From this `transaction.version` on each transaction has an epoch of its own (KIP-890).
EPOCH_PER_TRANSACTION = 2


class TransactionStatus(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        return self in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        return self is TransactionStatus.EMPTY or self.is_complete

    @property
    def commits(self) -> bool:
        return self in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)


@dataclass(frozen=True, slots=True)
class Transaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    last_update_ms: int = NO_TIMESTAMP
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before this change: another one if its epochs were used up, and a client may have missed that."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id that takes over when the prepared transaction is complete."""
    version: int = 0
    """The transaction protocol of the client: 2 raises the epoch with each transaction."""

    @property
    def has_spent_epochs(self) -> bool:
        return self.producer_epoch >= LAST_USABLE_EPOCH

    @property
    def _next_epoch(self) -> int:
        return min(self.producer_epoch + 1, LAST_USABLE_EPOCH + 1)

    def _changed(self, **changes: Any) -> Transaction:
        return replace(self, **{"previous_producer_id": self.producer_id, **changes})

    # --- beginning ---

    @classmethod
    def new(cls, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        return cls(
            transactional_id, producer_id, 0, timeout_ms, last_update_ms=now_ms, previous_producer_id=producer_id
        )

    def reopened(self, producer_id: int, epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
        """The owner begins anew, under the epoch that it is given."""
        return self._changed(
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=timeout_ms,
            status=TransactionStatus.EMPTY,
            partitions=frozenset(),
            last_update_ms=now_ms,
            start_ms=NO_TIMESTAMP,
            next_producer_id=NO_PRODUCER_ID,
        )

    # --- going on ---

    def with_partitions(self, partitions: frozenset[TopicPartition], now_ms: int, version: int) -> Transaction:
        begins = self.status is not TransactionStatus.ONGOING
        return self._changed(
            status=TransactionStatus.ONGOING,
            partitions=partitions if begins else self.partitions | partitions,
            last_update_ms=now_ms,
            start_ms=now_ms if begins else self.start_ms,
            version=version,
        )

    # --- ending ---

    def prepared(self, commit: bool, now_ms: int, version: int, next_producer_id: int = NO_PRODUCER_ID) -> Transaction:
        """Decided. With version 2 the markers already carry the next epoch, so that nothing late can follow them.

        `next_producer_id` takes over if that was the last epoch.
        """
        return self._changed(
            status=TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT,
            producer_epoch=self._next_epoch if version >= EPOCH_PER_TRANSACTION else self.producer_epoch,
            next_producer_id=next_producer_id,
            last_update_ms=now_ms,
            # An abort of nothing begins and ends at the same time.
            start_ms=self.start_ms if self.status is TransactionStatus.ONGOING else now_ms,
            version=version,
        )

    def shut_out(self) -> Transaction:
        """The producer of an open transaction loses it: the next epoch belongs to nobody."""
        return self._changed(producer_epoch=self._next_epoch)

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        commits = self.status is TransactionStatus.PREPARE_COMMIT
        done = self._changed(
            status=TransactionStatus.COMPLETE_COMMIT if commits else TransactionStatus.COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
        if self.next_producer_id == NO_PRODUCER_ID:
            return done
        return replace(done, producer_id=self.next_producer_id, producer_epoch=0, next_producer_id=NO_PRODUCER_ID)

    def is_overdue(self, now_ms: int) -> bool:
        return self.status is TransactionStatus.ONGOING and self.start_ms + self.timeout_ms < now_ms
