"""One shard of the transaction coordinator over a log in memory, and partitions that take records and markers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.machine import RecordContext, Timers, Write
from moldau.coordinators.runtime import CoordinatorRuntime
from moldau.coordinators.transactions.machine import (
    Markers,
    MarkerSender,
    ProducerIdentity,
    TransactionMachine,
    TransactionSettings,
)
from moldau.coordinators.transactions.records import transaction_record
from moldau.coordinators.transactions.state import EPOCH_PER_TRANSACTION, Transaction
from moldau.kernels import check_batch
from moldau.storage.batch_info import BatchInfo, Origin
from moldau.storage.producer_state import CompletedTxn, ProducerStates
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records import Record, build_batch
from tests.fakes.shard_log import FakeShardLog, Marker
from tests.fakes.timers import RecordingTimers

T = TypeVar("T")
EXPIRY_MS = 1 << 40


class FakePartition:
    """Values by offset, with the real rules for producers."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self.producers = ProducerStates(topic_partition, EXPIRY_MS)
        self.values: list[tuple[int, str] | None] = []
        """Producer id and value; None is a marker."""
        self._aborted: list[CompletedTxn] = []

    def next_sequence(self, producer: ProducerIdentity) -> int:
        entry = self.producers.latest(producer.producer_id)
        return 0 if entry is None or entry.epoch != producer.producer_epoch else entry.last_sequence + 1

    def write(self, producer: ProducerIdentity, value: str, sequence: int | None = None) -> None:
        if sequence is None:
            sequence = self.next_sequence(producer)
        batch = build_batch(
            [Record(value=value.encode())],
            transactional=True,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
        )
        self._append(batch, Origin.CLIENT, None)
        self.values.append((producer.producer_id, value))

    def write_marker(self, markers: Markers) -> None:
        if markers.transaction_version >= EPOCH_PER_TRANSACTION:
            self.producers.check_marker_epoch(markers.producer_id, markers.producer_epoch)
        marker = EndTransactionMarker(markers.commit, markers.coordinator_epoch)
        batch = build_end_transaction_batch(
            marker, producer_id=markers.producer_id, producer_epoch=markers.producer_epoch, timestamp=0
        )
        self._append(batch, Origin.COORDINATOR, marker)
        self.values.append(None)

    def _append(self, batch: bytes, origin: Origin, marker: EndTransactionMarker | None) -> None:
        info = BatchInfo(*check_batch(batch, 0, len(batch)))
        completed = self.producers.publish(self.producers.stage(info, len(self.values), origin, marker))
        self.producers.discard_staged()
        if completed is not None and completed.aborted:
            self._aborted.append(completed)

    def committed(self) -> list[str]:
        """What a read_committed reader sees."""
        self.producers.high_watermark_moved(len(self.values) + 1)
        end = self.producers.first_unstable_offset()
        return [
            found[1]
            for offset, found in enumerate(self.values[:end])
            if found is not None and not self._is_aborted(offset, found[0])
        ]

    def _is_aborted(self, offset: int, producer_id: int) -> bool:
        return any(
            one.producer_id == producer_id and one.first_offset <= offset < one.last_offset for one in self._aborted
        )


class TransactionShard(MarkerSender):
    """Lives, crashes and is loaded anew; markers wait until somebody delivers them."""

    def __init__(self, partitions: int = 2, transaction_version: int = 2, max_timeout_ms: int = 60_000) -> None:
        self.wall_ms = 1_000_000
        self.settings = TransactionSettings(max_timeout_ms, 1_000_000, transaction_version)
        self.log = FakeShardLog()
        self.partitions = {
            place: FakePartition(place) for place in (TopicPartition("t", index) for index in range(partitions))
        }
        self.markers: list[tuple[Markers, TopicPartition | None]] = []
        """Not delivered yet, one by one; None stands for `all of this transaction are`."""
        self.refused_markers: list[tuple[Markers, TopicPartition, KafkaError]] = []
        self._epoch = 0
        self._next_producer_id = 1
        self._start()

    def _start(self) -> None:
        self._epoch += 1
        timers = RecordingTimers()

        def new_machine(partition: int, shard_timers: Timers) -> TransactionMachine:
            return TransactionMachine(shard_timers, self, lambda: self.wall_ms, lambda: self.settings, self._epoch)

        self.runtime: CoordinatorRuntime[TransactionMachine] = CoordinatorRuntime(
            new_machine, timers, lambda: 0.0, lambda _: self._load()
        )
        self._load()

    def _load(self) -> None:
        shard = self.runtime.begin(0, self._epoch, self.log)
        for found in self.log.contents():
            assert not isinstance(found, Marker)
            self.runtime.replay(shard, [found])
        self.runtime.loaded(shard)

    @property
    def machine(self) -> TransactionMachine:
        (shard,) = self.runtime.shards()
        return shard.machine

    def transaction(self, transactional_id: str) -> Transaction:
        return self.machine.transactions[transactional_id]

    # --- events ---

    def crash(self) -> None:
        """The process dies: what is not committed is gone, and so are the markers under way."""
        self.log.forget()
        self.markers.clear()
        self._start()

    def send(self, markers: Markers) -> None:
        self.markers += [(markers, place) for place in sorted(markers.partitions)]
        self.markers.append((markers, None))

    def give_up(self) -> None:
        """What is on its way may still arrive."""

    def deliver(self, position: int = 0) -> None:
        """One marker; the news that all are there follows the last one."""
        markers, place = self.markers[position]
        if place is None:
            if any(other is markers for other, _ in self.markers[:position]):
                return
            self.markers.pop(position)
            self.all_written(markers)
            return
        self.markers.pop(position)
        try:
            self.partitions[place].write_marker(markers)
        except KafkaError as error:
            self.refused_markers.append((markers, place, error))

    def all_written(self, markers: Markers) -> None:
        self.runtime.write(0, lambda machine, _: machine.markers_written(markers))

    def settle(self) -> None:
        """Everything that is under way happens."""
        while self.log.under_way or self.markers:
            self.log.commit()
            while self.markers:
                self.deliver()

    # --- requests ---

    def new_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id

    def request(self, operation: Callable[[TransactionMachine], Write[T]]) -> Deferred[T]:
        """Errors that the machine raises at once come as the answer, too."""
        try:
            return self.runtime.write(0, lambda machine, _: operation(machine))
        except KafkaError as error:
            failed: Deferred[T] = Deferred()
            failed.fail(error)
            return failed

    def now(self, operation: Callable[[TransactionMachine], Write[T]]) -> T:
        """The answer once everything is written; raises the error."""
        deferred = self.request(operation)
        self.log.commit()
        outcome: list[tuple[T | None, KafkaError | None]] = []
        deferred.when_done(lambda value, error: outcome.append((value, error)))
        value, error = outcome[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # no error: there is a value

    def init(
        self, transactional_id: str = "id", timeout_ms: int = 1000, expected: ProducerIdentity | None = None
    ) -> ProducerIdentity:
        spare = self.new_producer_id()
        return self.now(lambda machine: machine.init_producer_id(transactional_id, timeout_ms, expected, spare))

    def add(self, producer: ProducerIdentity, *indexes: int, version: int = 2, transactional_id: str = "id") -> None:
        places = [TopicPartition("t", index) for index in indexes]
        self.now(lambda machine: machine.add_partitions(transactional_id, producer, places, version))

    def end(
        self, producer: ProducerIdentity, commit: bool, version: int = 2, transactional_id: str = "id"
    ) -> ProducerIdentity:
        spare = self.new_producer_id()
        return self.now(lambda machine: machine.end(transactional_id, producer, commit, version, spare))

    def abort_overdue(self) -> None:
        for transactional_id in self.machine.overdue():
            spare = self.new_producer_id()
            self.request(lambda machine, name=transactional_id, spare=spare: machine.abort_overdue(name, spare))  # type: ignore[misc]


def begin_at_epoch(shard: TransactionShard, epoch: int, transactional_id: str = "id") -> ProducerIdentity:
    """As if the producer had begun anew that often."""
    first = shard.init(transactional_id)
    record = transaction_record(replace(shard.transaction(transactional_id), producer_epoch=epoch), 2)
    shard.log.append([record], None, lambda _: None)
    shard.log.commit()
    shard.machine.replay(record, RecordContext(0, 0, None))
    return ProducerIdentity(first.producer_id, epoch)
