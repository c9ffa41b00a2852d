"""The transaction coordinator of this broker: a service over `__transaction_state`, its markers and its clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from moldau.config.broker import BrokerConfig
from moldau.coordinators.machine import Timers, Write
from moldau.coordinators.transactions.machine import (
    Markers,
    MarkerSender,
    ProducerIdentity,
    TransactionMachine,
    TransactionSettings,
)
from moldau.coordinators.transactions.state import EPOCH_PER_TRANSACTION, Transaction
from moldau.metadata.controller.features import TRANSACTION_VERSION
from moldau.metadata.image import ClusterImage
from moldau.server.appends import AppendQueue, RunBlocking
from moldau.server.coordination.asking import CoordinatorQuestions
from moldau.server.coordination.endings import Endings
from moldau.server.coordination.futures import answer_of
from moldau.server.coordination.loop_timers import SECOND_CHANCE_SECONDS
from moldau.server.coordination.marker_routing import MarkerRouter
from moldau.server.coordination.service import CoordinatorService
from moldau.server.partition_table import PartitionTable
from moldau.server.peers.peer import Peers
from moldau.server.producer_ids import ProducerIds
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_PRODUCER_ID, TopicPartition
from moldau.types.internal_topics import TRANSACTIONS_TOPIC

log = logging.getLogger("moldau.server.coordination")


T = TypeVar("T")

#: The life of the shard that is written to has ended.
LOST: Final = frozenset((ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))


class LocalMarkers(MarkerSender):
    """Sends the markers of one shard and tells its machine when all are written."""

    def __init__(self, coordinator: TransactionCoordinator, partition: int) -> None:
        self._coordinator = coordinator
        self._partition = partition
        self._sending: set[asyncio.Task[None]] = set()

    def send(self, markers: Markers) -> None:
        task = self._coordinator.send_markers(self._partition, markers)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def give_up(self) -> None:
        for task in tuple(self._sending):
            task.cancel()


class TransactionCoordinator:
    def __init__(
        self,
        timers: Timers,
        partitions: PartitionTable,
        appends: AppendQueue,
        run_blocking: RunBlocking,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        monotonic: Callable[[], float],
        wall_ms: Callable[[], int],
        producer_ids: ProducerIds,
        markers: MarkerRouter,
        broker_id: int,
        peers: Peers | None = None,
    ) -> None:
        self._producer_ids = producer_ids
        self._markers = markers
        self.endings = Endings()
        """Of the transactions of this coordinator."""
        self.marked = Endings()
        """Of others' transactions in partitions of this broker."""
        #: For partitions of this broker in transactions of any coordinator.
        self.questions = CoordinatorQuestions(broker_id, TRANSACTIONS_TOPIC, self, image, peers)
        self._sending: set[asyncio.Task[None]] = set()

        def settings() -> TransactionSettings:
            current = config()
            level = image().features.levels.get(TRANSACTION_VERSION, 0)
            return TransactionSettings(
                current.transaction_max_timeout_ms, current.transactional_id_expiration_ms, level
            )

        def new_machine(partition: int, shard_timers: Timers) -> TransactionMachine:
            epoch = partitions.get(TRANSACTIONS_TOPIC, partition).leader_epoch
            return TransactionMachine(shard_timers, LocalMarkers(self, partition), wall_ms, settings, epoch)

        self.service: CoordinatorService[TransactionMachine] = CoordinatorService(
            TRANSACTIONS_TOPIC,
            new_machine,
            timers,
            partitions,
            appends,
            run_blocking,
            monotonic,
            wall_ms,
            checks_lease=True,
        )

    # --- requests ---

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None
    ) -> ProducerIdentity:
        spare = await self._spare_producer_id(transactional_id)
        return await self._write(
            transactional_id,
            lambda machine: machine.init_producer_id(transactional_id, timeout_ms, expected, spare),
        )

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition], version: int
    ) -> None:
        await self._write(
            transactional_id, lambda machine: machine.add_partitions(transactional_id, producer, partitions, version)
        )

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        return await self._write(
            transactional_id,
            lambda machine: Write(machine.verify_partitions(transactional_id, producer, partitions)),
        )

    async def end(
        self, transactional_id: str, producer: ProducerIdentity, commit: bool, version: int
    ) -> ProducerIdentity:
        spare = await self._spare_producer_id(transactional_id) if version >= EPOCH_PER_TRANSACTION else NO_PRODUCER_ID
        return await self._write(
            transactional_id, lambda machine: machine.end(transactional_id, producer, commit, version, spare)
        )

    async def describe(self, transactional_id: str) -> Transaction:
        return await self._write(transactional_id, lambda machine: Write(machine.describe(transactional_id)))

    def all_transactions(self) -> list[Transaction]:
        return [one for shard in self.service.runtime.shards() for one in shard.machine.transactions.values()]

    async def _spare_producer_id(self, transactional_id: str) -> int:
        """An id in case that one is needed: for a new transactional id, or one whose epochs are spent. Where none is
        needed the caller is not suspended, so that nothing changes before its request is served.
        """
        machine = self.service.machine_of(transactional_id)
        known = None if machine is None else machine.transactions.get(transactional_id)
        if known is not None and not known.has_spent_epochs:
            return NO_PRODUCER_ID
        return await self._producer_ids.next()

    async def _write(self, transactional_id: str, operation: Callable[[TransactionMachine], Write[T]]) -> T:
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return await answer_of(self.service.write(transactional_id, lambda machine, _: operation(machine)))

    # --- markers ---

    async def write_marker(self, markers: Markers, partition: TopicPartition) -> ErrorCode:
        """On behalf of another coordinator."""
        code = await self._markers.write(markers, partition)
        self.marked.tell(markers.producer_id)
        return code

    def send_markers(self, partition: int, markers: Markers) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._write_markers(partition, markers))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return task

    async def _write_markers(self, partition: int, markers: Markers) -> None:
        try:
            await self._markers.write_all(markers)
            while not await self._complete(partition, markers):
                await self._markers.something_changes()
        except Exception:
            log.exception("the transaction of %s stays open until its coordinator is loaded", markers.transactional_id)

    async def _complete(self, partition: int, markers: Markers) -> bool:
        """False if the end could not be written down, as with too few replicas in sync. Nobody but us would try it
        again, and until it stands there its owner is told to wait."""
        try:
            written = self.service.runtime.write(partition, lambda machine, _: machine.markers_written(markers))
            # The machine takes the next transaction from here on; its records follow those of the end.
            self.endings.tell(markers.transactional_id)
            await answer_of(written)
        except KafkaError as error:
            log.info("the end of the transaction of %s: %s", markers.transactional_id, error)
            # The shard was lost meanwhile: whoever loads it sends the markers again.
            return error.code in LOST
        return True

    # --- duties ---

    async def abort_overdue(self) -> None:
        overdue = [one for shard in self.service.runtime.shards() for one in shard.machine.overdue()]
        if overdue:
            # After a stall what the clients have sent meanwhile is heard first: perhaps it ends the transaction.
            await asyncio.sleep(SECOND_CHANCE_SECONDS)
        for transactional_id in overdue:
            await self._abort_quietly(transactional_id)

    async def expire_ids(self) -> None:
        for shard in self.service.runtime.shards():
            try:
                while await self._expire_some(shard.partition):
                    pass
            except KafkaError as error:
                log.info("expiry of transactional ids: %s", error)

    async def _expire_some(self, partition: int) -> int:
        return await answer_of(self.service.runtime.write(partition, lambda machine, _: machine.expire_ids()))

    async def _abort_quietly(self, transactional_id: str) -> None:
        try:
            spare = await self._spare_producer_id(transactional_id)
            if await self._write(transactional_id, lambda machine: machine.abort_overdue(transactional_id, spare)):
                log.info("transaction of %s timed out and is aborted", transactional_id)
        except KafkaError as error:
            log.info("abort of %s: %s", transactional_id, error)

    async def stop(self) -> None:
        for task in tuple(self._sending):
            task.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self.service.stop()
