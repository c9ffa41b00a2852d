"""A transactional id as a value: every change makes a new one, as a record of `__transaction_state` holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from moldau.types.ids import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

#: The last epoch is kept for fencing: a producer that would reach it gets a new id instead.
LAST_USABLE_EPOCH = 32766


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
    def is_at_rest(self) -> bool:
        return self in (TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT)


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
    """The id before the epochs of the last one were used up: a client that missed the change still has it."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id that takes over when the prepared transaction is complete."""
    last_epoch: int = NO_EPOCH
    """The epoch before the present one; not stored: after a restart a client that asks with it is fenced."""
    version: int = 0
    """The transaction protocol of the client: 2 raises the epoch with each transaction."""

    # --- beginning ---

    def with_new_epoch(self, timeout_ms: int, now_ms: int, spare_producer_id: int) -> Transaction:
        """The owner begins anew: the next epoch, or the first one of a new id."""
        common = replace(
            self,
            timeout_ms=timeout_ms,
            status=TransactionStatus.EMPTY,
            partitions=frozenset(),
            last_update_ms=now_ms,
            start_ms=NO_TIMESTAMP,
            next_producer_id=NO_PRODUCER_ID,
            last_epoch=self.producer_epoch,
        )
        if self.has_spent_epochs:
            return replace(
                common,
                producer_id=spare_producer_id,
                producer_epoch=0,
                previous_producer_id=self.producer_id,
                last_epoch=NO_EPOCH,
            )
        return replace(common, producer_epoch=self.producer_epoch + 1)

    def with_same_epoch(self, timeout_ms: int, now_ms: int) -> Transaction:
        """A repeated request of the owner: it gets what it was given before."""
        return replace(
            self, timeout_ms=timeout_ms, status=TransactionStatus.EMPTY, last_update_ms=now_ms, start_ms=NO_TIMESTAMP
        )

    @property
    def has_spent_epochs(self) -> bool:
        return self.producer_epoch >= LAST_USABLE_EPOCH

    # --- going on ---

    def with_partitions(self, partitions: frozenset[TopicPartition], now_ms: int, version: int) -> Transaction:
        begins = self.status is not TransactionStatus.ONGOING
        return replace(
            self,
            status=TransactionStatus.ONGOING,
            partitions=partitions if begins else self.partitions | partitions,
            last_update_ms=now_ms,
            start_ms=now_ms if begins else self.start_ms,
            version=version,
        )

    # --- ending ---

    def prepared(self, commit: bool, now_ms: int, version: int, spare_producer_id: int) -> Transaction:
        """Decided. With version 2 the markers already carry the next epoch, so that nothing late can follow them."""
        status = TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT
        decided = replace(self, status=status, last_update_ms=now_ms, version=version)
        if version < 2:
            return decided
        if self.has_spent_epochs:
            return replace(
                decided,
                producer_epoch=self.producer_epoch + 1,
                last_epoch=self.producer_epoch,
                next_producer_id=spare_producer_id,
            )
        return replace(decided, producer_epoch=self.producer_epoch + 1, last_epoch=self.producer_epoch)

    def fenced(self) -> Transaction:
        """The producer of an open transaction is shut out: the next epoch belongs to nobody."""
        return replace(self, producer_epoch=self.producer_epoch + 1, last_epoch=NO_EPOCH)

    def completed(self, now_ms: int) -> Transaction:
        """All markers are written."""
        commit = self.status is TransactionStatus.PREPARE_COMMIT
        done = replace(
            self,
            status=TransactionStatus.COMPLETE_COMMIT if commit else TransactionStatus.COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )
        if self.next_producer_id == NO_PRODUCER_ID:
            return done
        return replace(
            done,
            previous_producer_id=self.producer_id,
            producer_id=self.next_producer_id,
            producer_epoch=0,
            next_producer_id=NO_PRODUCER_ID,
            last_epoch=NO_EPOCH,
        )

    def is_overdue(self, now_ms: int) -> bool:
        return self.status is TransactionStatus.ONGOING and self.start_ms + self.timeout_ms < now_ms
