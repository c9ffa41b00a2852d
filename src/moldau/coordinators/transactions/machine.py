"""The transaction coordinator's state machine: one partition of `__transaction_state`.

A transaction ends in three steps: the decision is written (PREPARE_…) and answered; markers go to every partition it
touched; when all are there the end is written (COMPLETE_…). What was prepared before a crash is finished after it:
`loaded` asks for the markers again, which a partition takes twice without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from moldau.coordinators.machine import ProducerStamp, RecordContext, StateRecord, Timers, Write
from moldau.coordinators.transactions.records import read_record, tombstone, transaction_record
from moldau.coordinators.transactions.state import Transaction, TransactionStatus
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_PRODUCER_ID, TopicPartition

Status = TransactionStatus


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


class MarkerSender:
    """What a machine asks for: markers to be written somewhere. The answer comes as the operation `markers_written`."""

    def send(self, markers: Markers) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int
    id_expiration_ms: int


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
        #: Ids whose fate is being written or whose markers are under way: nothing else may happen to them.
        self._ending: set[str] = set()

    # --- durable state ---

    def replay(self, record: StateRecord, context: RecordContext) -> None:
        transactional_id, transaction = read_record(record)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        known = self.transactions.get(transactional_id)
        if known is not None and known.producer_id == transaction.producer_id:
            # The epoch before this one is not in the record.
            moved = transaction.producer_epoch == known.producer_epoch + 1
            transaction = replace(transaction, last_epoch=known.producer_epoch if moved else known.last_epoch)
        self.transactions[transactional_id] = transaction

    def replay_end_of_transaction(self, producer: ProducerStamp, committed: bool) -> None:
        """This topic holds no transactional batches."""

    def loaded(self, now: float) -> None:
        for transaction in tuple(self.transactions.values()):
            if transaction.status.is_prepared:
                self._send_markers(transaction)

    def unloaded(self) -> None:
        self._ending.clear()

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
        if transaction.producer_epoch != producer.producer_epoch:
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
            new = Transaction(transactional_id, spare_producer_id, 0, timeout_ms, last_update_ms=now_ms)
            return Write(ProducerIdentity(spare_producer_id, 0), [transaction_record(new)])
        if expected is not None and not may_begin_anew(known, expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if transactional_id in self._ending or known.status.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.status is Status.ONGOING:
            return self._fence(known, now_ms)
        if expected is not None and expected != ProducerIdentity(known.producer_id, known.producer_epoch):
            again = known.with_same_epoch(timeout_ms, now_ms)
            return Write(ProducerIdentity(again.producer_id, again.producer_epoch), [transaction_record(again)])
        new = known.with_new_epoch(timeout_ms, now_ms, spare_producer_id)
        return Write(ProducerIdentity(new.producer_id, new.producer_epoch), [transaction_record(new)])

    def _fence(self, known: Transaction, now_ms: int) -> Write[ProducerIdentity]:
        """Aborts the open transaction under an epoch that nobody has."""
        _, write = self._prepare(known.fenced(), False, now_ms, min(known.version, 1), NO_PRODUCER_ID)
        return Write(KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS), write.records, then=write.then)

    # --- going on ---

    def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition], version: int
    ) -> Write[None]:
        transaction = self._owned(transactional_id, producer)
        if transactional_id in self._ending or transaction.status.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if transaction.status is Status.ONGOING and transaction.partitions.issuperset(partitions):
            return Write(None)
        return Write(
            None, [transaction_record(transaction.with_partitions(frozenset(partitions), self._wall_ms(), version))]
        )

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether a transaction really covers what a producer is about to write: late writes must not hang it."""
        transaction = self._owned(transactional_id, producer)
        if transactional_id in self._ending or transaction.status.is_prepared:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
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
        transaction = self.get(transactional_id)
        if version >= 2 and is_repeated_end(transaction, producer, commit):
            if transaction.status.is_prepared:
                raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            return Write(ProducerIdentity(transaction.producer_id, transaction.producer_epoch))
        transaction = self._owned(transactional_id, producer)
        if transactional_id in self._ending:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        self._check_end(transaction, commit, version)
        if transaction.status in (Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT) and version < 2:
            return Write(ProducerIdentity(transaction.producer_id, transaction.producer_epoch))
        prepared, write = self._prepare(transaction, commit, self._wall_ms(), version, spare_producer_id)
        told = ProducerIdentity(prepared.producer_id, prepared.producer_epoch)
        if prepared.next_producer_id != NO_PRODUCER_ID:
            told = ProducerIdentity(prepared.next_producer_id, 0)
        return Write(told, write.records, then=write.then)

    def _check_end(self, transaction: Transaction, commit: bool, version: int) -> None:
        status = transaction.status
        if status is Status.ONGOING:
            return
        if status is Status.PREPARE_COMMIT:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS if commit else ErrorCode.INVALID_TXN_STATE)
        if status is Status.PREPARE_ABORT:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE if commit else ErrorCode.CONCURRENT_TRANSACTIONS)
        if version >= 2 and not commit:
            # Nothing was added: the abort only takes the next epoch.
            return
        matching = Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT
        if version >= 2 or status is not matching:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE)

    def _prepare(
        self, transaction: Transaction, commit: bool, now_ms: int, version: int, spare: int
    ) -> tuple[Transaction, Write[None]]:
        if transaction.status is not Status.ONGOING:
            transaction = transaction.with_partitions(frozenset(), now_ms, version)
        prepared = transaction.prepared(commit, now_ms, version, spare)
        self._ending.add(prepared.transactional_id)
        return prepared, Write(None, [transaction_record(prepared)], then=lambda: self._send_markers(prepared))

    def _send_markers(self, transaction: Transaction) -> None:
        self._ending.add(transaction.transactional_id)
        self._sender.send(
            Markers(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                self.coordinator_epoch,
                transaction.status is Status.PREPARE_COMMIT,
                transaction.partitions,
            )
        )

    def markers_written(self, markers: Markers) -> Write[None]:
        transaction = self.transactions.get(markers.transactional_id)
        self._ending.discard(markers.transactional_id)
        if transaction is None or not transaction.status.is_prepared:
            return Write(None)
        if (transaction.producer_id, transaction.producer_epoch) != (markers.producer_id, markers.producer_epoch):
            return Write(None)
        return Write(None, [transaction_record(transaction.completed(self._wall_ms()))])

    # --- time ---

    def overdue(self) -> list[str]:
        now_ms = self._wall_ms()
        return [one.transactional_id for one in self.transactions.values() if one.is_overdue(now_ms)]

    def abort_overdue(self, transactional_id: str) -> Write[bool]:
        """Aborts a transaction whose time is up, under an epoch that its producer does not have."""
        transaction = self.transactions.get(transactional_id)
        now_ms = self._wall_ms()
        if transaction is None or transactional_id in self._ending or not transaction.is_overdue(now_ms):
            return Write(False)
        fenced = transaction if transaction.has_spent_epochs else transaction.fenced()
        _, write = self._prepare(fenced, False, now_ms, min(transaction.version, 1), NO_PRODUCER_ID)
        return Write(True, write.records, then=write.then)

    def expire_ids(self) -> Write[int]:
        """Forgets ids that nobody has used for long."""
        oldest = self._wall_ms() - self._settings().id_expiration_ms
        expired = [
            one.transactional_id
            for one in self.transactions.values()
            if one.status.is_at_rest and one.last_update_ms <= oldest and one.transactional_id not in self._ending
        ]
        return Write(len(expired), [tombstone(transactional_id) for transactional_id in expired])


def may_begin_anew(known: Transaction, expected: ProducerIdentity) -> bool:
    """A producer that recovers tells who it was: the present owner, or the one just before it, if nobody else came
    between.
    """
    if expected.producer_id == known.producer_id:
        return expected.producer_epoch in (known.producer_epoch, known.last_epoch)
    return expected.producer_id == known.previous_producer_id and known.producer_epoch == 0


def is_repeated_end(transaction: Transaction, producer: ProducerIdentity, commit: bool) -> bool:
    """The client did not hear the first answer: its epoch is the one that the end has already raised."""
    if commit:
        same_fate = transaction.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)
    else:
        same_fate = transaction.status in (Status.PREPARE_ABORT, Status.COMPLETE_ABORT)
    if not same_fate:
        return False
    if producer.producer_id == transaction.producer_id:
        return producer.producer_epoch == transaction.producer_epoch - 1
    return producer.producer_id == transaction.previous_producer_id and transaction.producer_epoch == 0
