"""The transaction coordinator's state machine: one partition of `__transaction_state`.

A transaction ends in three steps: the decision is written (PREPARE_…) and answered; markers go to every partition it
touched; when all are there the end is written (COMPLETE_…). What was prepared before a crash is finished after it:
`loaded` asks for the markers again, which a partition takes twice without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from moldau.coordinators.machine import ProducerStamp, RecordContext, StateRecord, Timers, Write
from moldau.coordinators.record_codec import kind_of
from moldau.coordinators.transactions.records import KIND, TAGGED_FROM, read_record, tombstone, transaction_record
from moldau.coordinators.transactions.state import (
    EPOCH_PER_TRANSACTION,
    LAST_USABLE_EPOCH,
    Transaction,
    TransactionStatus,
)
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_PRODUCER_ID, TopicPartition

Status = TransactionStatus

#: Tombstones of one batch: far below the limit of a batch's size.
EXPIRED_AT_ONCE = 1000


class ProducerIdentity(NamedTuple):
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Markers:
    """Control records that end a transaction in its partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0
    """From 2 on the epoch is one that no record of the transaction has."""


class MarkerSender(Protocol):
    """What a machine asks for: markers to be written somewhere. The answer comes as the operation `markers_written`."""

    def send(self, markers: Markers) -> None: ...

    def give_up(self) -> None:
        """The life of the machine has ended: the one after it, here or elsewhere, asks for its markers again."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int
    id_expiration_ms: int
    transaction_version: int
    """The cluster's finalized level of the feature."""


class TransactionMachine:
    def __init__(
        self,
        timers: Timers,
        sender: MarkerSender,
        wall_ms: Callable[[], int],
        settings: Callable[[], TransactionSettings],
        coordinator_epoch: int = 0,
    ) -> None:
        self._timers = timers
        self._sender = sender
        self._wall_ms = wall_ms
        self._settings = settings
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        #: By id, the epoch that was replaced by the present one at its owner's request: the owner may not have heard of
        #: it and ask again. Not stored: after a restart such a request is fenced.
        self._replaced_epochs: dict[str, int] = {}

    # --- durable state ---

    def replay(self, record: StateRecord, context: RecordContext) -> None:
        if kind_of(record.key) != KIND:
            return  # of a later release
        transactional_id, transaction = read_record(record)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            self._replaced_epochs.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction

    def replay_plain(self, key: bytes, value: bytes | None) -> bool:
        return False

    def replay_end_of_transaction(self, producer: ProducerStamp, committed: bool) -> None:
        """This topic holds no transactional batches."""

    def loaded(self, now: float) -> None:
        for transaction in tuple(self.transactions.values()):
            if transaction.status.is_prepared:
                self._send_markers(transaction)

    def unloaded(self) -> None:
        self._sender.give_up()

    def _record(self, transaction: Transaction) -> StateRecord:
        return transaction_record(transaction, self._settings().transaction_version)

    def _check_version(self, version: int) -> None:
        """What the newer clients do cannot be stored in the older records."""
        if version >= EPOCH_PER_TRANSACTION and self._settings().transaction_version < TAGGED_FROM:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)

    # --- looking ---

    def get(self, transactional_id: str) -> Transaction:
        found = self.transactions.get(transactional_id)
        if found is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return found

    def describe(self, transactional_id: str) -> Transaction:
        found = self.transactions.get(transactional_id)
        if found is None or found.status is Status.DEAD:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return found

    def _owned(self, transactional_id: str, producer: ProducerIdentity) -> Transaction:
        transaction = self.get(transactional_id)
        if transaction.producer_id != producer.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transaction.producer_epoch != producer.producer_epoch or is_nobody(producer):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return transaction

    # --- beginning ---

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdentity | None,
        spare_producer_id: int,
    ) -> Write[ProducerIdentity]:
        """An id and epoch for the owner; whoever had the one before is fenced. An open transaction is aborted first,
        and the client told to try again. `spare_producer_id` is used where a new id is needed.
        """
        if not 0 < timeout_ms <= self._settings().max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        now_ms = self._wall_ms()
        known = self.transactions.get(transactional_id)
        if known is None:
            return self._begin(Transaction.new(transactional_id, given(spare_producer_id), timeout_ms, now_ms))
        refuse_until_complete(known)
        if expected is not None and not may_be_owner(known, expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if known.status is Status.ONGOING:
            write = self._abort_without_owner(known, now_ms, spare_producer_id)
            return Write(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS), write.records, then=write.then)
        producer_id, epoch = self._next_identity(known, expected, spare_producer_id)
        return self._begin(known.reopened(producer_id, epoch, timeout_ms, now_ms))

    def _begin(self, begun: Transaction) -> Write[ProducerIdentity]:
        return Write(ProducerIdentity(begun.producer_id, begun.producer_epoch), [self._record(begun)])

    def _next_identity(
        self, known: Transaction, expected: ProducerIdentity | None, spare_producer_id: int
    ) -> ProducerIdentity:
        transactional_id = known.transactional_id
        if expected is not None and expected.producer_epoch != known.producer_epoch:
            if expected.producer_epoch != self._replaced_epochs.get(transactional_id):
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
            # It asks again, not having heard the answer.
            return ProducerIdentity(known.producer_id, known.producer_epoch)
        if expected is None:
            # Somebody else may have taken over: the owner before it has no second chance.
            self._replaced_epochs.pop(transactional_id, None)
        else:
            self._replaced_epochs[transactional_id] = known.producer_epoch
        if known.has_spent_epochs:
            return ProducerIdentity(given(spare_producer_id), 0)
        return ProducerIdentity(known.producer_id, known.producer_epoch + 1)

    # --- going on ---

    def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition], version: int
    ) -> Write[None]:
        self._check_version(version)
        refuse_until_complete(self.get(transactional_id))
        transaction = self._owned(transactional_id, producer)
        if transaction.status is Status.ONGOING and transaction.partitions.issuperset(partitions):
            return Write(None)
        extended = transaction.with_partitions(frozenset(partitions), self._wall_ms(), version)
        return Write(None, [self._record(extended)])

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether a transaction really covers what a producer is about to write: late writes must not hang it."""
        transaction = self._owned(transactional_id, producer)
        refuse_until_complete(transaction)
        covered = transaction.partitions if transaction.status is Status.ONGOING else frozenset()
        return {
            partition: ErrorCode.NONE if partition in covered else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    # --- ending ---

    def end(
        self, transactional_id: str, producer: ProducerIdentity, commit: bool, version: int, spare_producer_id: int
    ) -> Write[ProducerIdentity]:
        """Decides the transaction. With version 2 the answer holds the epoch (or id) for the next one."""
        self._check_version(version)
        if version < EPOCH_PER_TRANSACTION:
            transaction = self._owned(transactional_id, producer)
            refuse_until_complete(transaction)
            is_repeated = transaction.status.is_complete
            may_abort_nothing = False
        else:
            transaction = self.get(transactional_id)
            refuse_until_complete(transaction)
            is_repeated = repeats_end(transaction, producer)
            check_epoch_of_end(transaction, producer, is_repeated)
            may_abort_nothing = not commit
        status = transaction.status
        if status is Status.ONGOING or (may_abort_nothing and status.is_at_rest and not is_repeated):
            return self._decide(transaction, commit, version, spare_producer_id)
        if not is_repeated or status.commits != commit:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)
        told = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        if is_nobody(told):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return Write(told)

    def _decide(
        self, transaction: Transaction, commit: bool, version: int, spare_producer_id: int
    ) -> Write[ProducerIdentity]:
        decided = transaction.prepared(
            commit, self._wall_ms(), version, next_id(transaction, version, spare_producer_id)
        )
        write = self._prepare(transaction, decided)
        told = ProducerIdentity(decided.producer_id, decided.producer_epoch)
        if decided.next_producer_id != NO_PRODUCER_ID:
            told = ProducerIdentity(decided.next_producer_id, 0)
        return Write(told, write.records, then=write.then)

    def _abort_without_owner(self, transaction: Transaction, now_ms: int, spare_producer_id: int) -> Write[None]:
        """Aborts an open transaction under an epoch, or with an id to follow, that its producer does not have."""
        version = self._settings().transaction_version
        if version < EPOCH_PER_TRANSACTION:
            self._replaced_epochs.pop(transaction.transactional_id, None)
            return self._prepare(transaction, transaction.shut_out().prepared(False, now_ms, 0))
        following = next_id(transaction, version, spare_producer_id)
        return self._prepare(transaction, transaction.prepared(False, now_ms, version, following))

    def _prepare(self, before: Transaction, decided: Transaction) -> Write[None]:
        if decided.version >= EPOCH_PER_TRANSACTION:
            self._replaced_epochs[decided.transactional_id] = before.producer_epoch
        return Write(None, [self._record(decided)], then=lambda: self._send_markers(decided))

    def _send_markers(self, transaction: Transaction) -> None:
        self._sender.send(
            Markers(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                self.coordinator_epoch,
                transaction.status is Status.PREPARE_COMMIT,
                transaction.partitions,
                transaction.version,
            )
        )

    def markers_written(self, markers: Markers) -> Write[None]:
        transaction = self.transactions.get(markers.transactional_id)
        if transaction is None or not transaction.status.is_prepared:
            return Write(None)
        if (transaction.producer_id, transaction.producer_epoch) != (markers.producer_id, markers.producer_epoch):
            return Write(None)
        return Write(None, [self._record(transaction.completed(self._wall_ms()))])

    # --- time ---

    def overdue(self) -> list[str]:
        now_ms = self._wall_ms()
        return [one.transactional_id for one in self.transactions.values() if one.is_overdue(now_ms)]

    def abort_overdue(self, transactional_id: str, spare_producer_id: int) -> Write[bool]:
        """Aborts a transaction whose time is up."""
        transaction = self.transactions.get(transactional_id)
        now_ms = self._wall_ms()
        if transaction is None or not transaction.is_overdue(now_ms):
            return Write(False)
        write = self._abort_without_owner(transaction, now_ms, spare_producer_id)
        return Write(True, write.records, then=write.then)

    def expire_ids(self, at_most: int = EXPIRED_AT_ONCE) -> Write[int]:
        """Forgets ids that nobody has used for long: so many at most, since they go into one batch."""
        oldest = self._wall_ms() - self._settings().id_expiration_ms
        expired = [
            one.transactional_id
            for one in self.transactions.values()
            if one.status.is_at_rest and one.last_update_ms <= oldest
        ][:at_most]
        return Write(len(expired), [tombstone(transactional_id) for transactional_id in expired])


def is_nobody(producer: ProducerIdentity) -> bool:
    """Behind the last usable epoch there is one more, for markers and for fencing; no producer is given it."""
    return producer.producer_epoch > LAST_USABLE_EPOCH


def given(spare_producer_id: int) -> int:
    if spare_producer_id == NO_PRODUCER_ID:
        # Nobody had seen that one is needed when the request came: the next try brings it.
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return spare_producer_id


def next_id(transaction: Transaction, version: int, spare_producer_id: int) -> int:
    """The id for what follows the end of a transaction, where the present one has no epoch left for it."""
    if version < EPOCH_PER_TRANSACTION or not transaction.has_spent_epochs:
        return NO_PRODUCER_ID
    return given(spare_producer_id)


def may_be_owner(known: Transaction, expected: ProducerIdentity) -> bool:
    """A producer that recovers tells who it was: the present id, or the one whose epochs it has used up."""
    if expected.producer_id == known.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and expected.producer_epoch >= LAST_USABLE_EPOCH


def repeats_end(transaction: Transaction, producer: ProducerIdentity) -> bool:
    """The client did not hear the first answer: its epoch is the one that the end has already raised."""
    return producer.producer_epoch == transaction.producer_epoch - 1 or ended_with_a_new_id(transaction, producer)


def ended_with_a_new_id(transaction: Transaction, producer: ProducerIdentity) -> bool:
    return (
        producer == (transaction.previous_producer_id, LAST_USABLE_EPOCH)
        and transaction.producer_id != producer.producer_id
        and transaction.producer_epoch == 0
    )


def check_epoch_of_end(transaction: Transaction, producer: ProducerIdentity, is_repeated: bool) -> None:
    if transaction.producer_id != producer.producer_id and not ended_with_a_new_id(transaction, producer):
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_current = producer.producer_epoch == transaction.producer_epoch and not is_nobody(producer)
    if not is_current and not (is_repeated and transaction.status.is_complete):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)


def refuse_until_complete(transaction: Transaction) -> None:
    """What is decided has to be complete before anything else happens, whoever asks: only then it is known who may."""
    if transaction.status.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
