"""What `server/verification` needs of a broker, over the coordinator's shard and partitions in memory."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import cast

from moldau.coordinators.machine import Write
from moldau.coordinators.transactions.machine import Markers, ProducerIdentity
from moldau.server.broker import Broker
from moldau.server.coordination.asking import VERSION
from moldau.server.coordination.endings import Endings
from moldau.server.coordination.futures import answer_of
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from tests.fakes.transaction_shard import TransactionShard

LONG_MS = 1 << 30


class TellingShard(TransactionShard):
    """Tells who waits that a transaction is complete, as the broker's coordinator does."""

    def __init__(self, partitions: int, transaction_version: int) -> None:
        self.endings = Endings()
        super().__init__(partitions, transaction_version)

    def all_written(self, markers: Markers) -> None:
        super().all_written(markers)
        self.endings.tell(markers.transactional_id)


class VerifyingBroker:
    """Waits for events alone: its timers are set to never. `is_coordinator`: the shard is its own."""

    def __init__(self, shard: TellingShard, *, is_coordinator: bool = True) -> None:
        self._shard = shard
        self._is_coordinator = is_coordinator
        self.transactions = self
        self.questions = self
        self.partitions = self
        self.endings = shard.endings
        self.marked = Endings()
        self.config = SimpleNamespace(
            transaction_partition_verification_enable=True,
            add_partitions_to_txn_retry_backoff_ms=LONG_MS,
            add_partitions_to_txn_retry_backoff_max_ms=LONG_MS,
        )

    def as_broker(self) -> Broker:
        return cast(Broker, self)

    def find(self, topic: str, index: int) -> SimpleNamespace:
        return SimpleNamespace(log=self._shard.partitions[TopicPartition(topic, index)])

    def are_local(self, transactional_id: str) -> bool:
        return self._is_coordinator

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> None:
        await answer_of(
            self._shard.request(lambda machine: machine.add_partitions(transactional_id, producer, partitions, VERSION))
        )

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        return await answer_of(
            self._shard.request(
                lambda machine: Write(machine.verify_partitions(transactional_id, producer, partitions))
            )
        )
