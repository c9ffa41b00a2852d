"""Asks the coordinator of a transaction, wherever it is, whether a partition belongs to it, or to add the partition.

Questions to other brokers are collected: one request per coordinator is under way, and what comes meanwhile goes with
the next, each transaction once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, Protocol

from moldau.coordinators.sharding import partition_for
from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.metadata.image import ClusterImage
from moldau.server.coordination.markers import by_topic
from moldau.server.peers.peer import Lane, PeerLostError, Peers
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

log = logging.getLogger("moldau.server.coordination")

#: The epoch of the producer rises with every transaction, and brokers add the partitions.
VERSION: Final = 2

Codes = dict[TopicPartition, ErrorCode]


class LocalTransactions(Protocol):
    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition], version: int
    ) -> None: ...

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Codes: ...


class Asked(NamedTuple):
    transaction: AddPartitionsToTxnTransaction
    codes: asyncio.Future[Codes]


class CoordinatorQuestions:
    def __init__(
        self,
        broker_id: int,
        topic: str,
        local: LocalTransactions,
        image: Callable[[], ClusterImage],
        peers: Peers | None = None,
    ) -> None:
        """`topic` is the one behind the coordinators. Without `peers` this broker coordinates everything."""
        self._broker_id = broker_id
        self._topic = topic
        self._local = local
        self._image = image
        self._peers = peers
        self._collected: dict[int, list[Asked]] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}

    async def add_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> None:
        """Raises KafkaError."""
        coordinator = self._coordinator(transactional_id)
        if coordinator is None or self._peers is None:
            await self._local.add_partitions(transactional_id, producer, partitions, VERSION)
            return
        codes = await self._ask(coordinator, self._peers, transactional_id, producer, partitions, verify_only=False)
        refusal = next((code for code in codes.values() if code), None)
        if refusal is not None:
            raise KafkaError(refusal)

    async def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Collection[TopicPartition]
    ) -> Codes:
        """Raises KafkaError."""
        coordinator = self._coordinator(transactional_id)
        if coordinator is None or self._peers is None:
            return await self._local.verify_partitions(transactional_id, producer, partitions)
        return await self._ask(coordinator, self._peers, transactional_id, producer, partitions, verify_only=True)

    def are_local(self, transactional_id: str) -> bool:
        """Whether this broker coordinates the transaction. Raises KafkaError."""
        return self._coordinator(transactional_id) is None or self._peers is None

    def _coordinator(self, transactional_id: str) -> int | None:
        """The other broker that coordinates this transaction; None where it is this one, or nobody can be yet."""
        topic = self._image().topics.get(self._topic)
        if topic is None or not transactional_id:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        if leader < 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return None if leader == self._broker_id else leader

    # --- other brokers ---

    async def _ask(
        self,
        coordinator: int,
        peers: Peers,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool,
    ) -> Codes:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            verify_only=verify_only,
            topics=[
                AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in by_topic(partitions).items()
            ],
        )
        asked = Asked(transaction, asyncio.get_running_loop().create_future())
        self._collected.setdefault(coordinator, []).append(asked)
        if coordinator not in self._asking:
            task = asyncio.get_running_loop().create_task(self._ask_collected(coordinator, peers))
            self._asking[coordinator] = task
        return await asked.codes

    async def _ask_collected(self, coordinator: int, peers: Peers) -> None:
        try:
            while batch := self._next_batch(coordinator):
                answers: dict[str, Codes] = {}
                problem = ErrorCode.COORDINATOR_NOT_AVAILABLE
                try:
                    answer = await peers.get(coordinator).call(
                        AddPartitionsToTxnRequest(transactions=[asked.transaction for asked in batch]),
                        AddPartitionsToTxnResponse,
                        Lane.TRANSACTIONS,
                    )
                    problem = ErrorCode(answer.error_code) or problem
                    answers = codes_of(answer)
                except PeerLostError as error:
                    log.info("%d transactions could not be asked about: %s", len(batch), error)
                except Exception:
                    log.exception("%d transactions could not be asked about", len(batch))
                finally:
                    tell(batch, answers, problem)
        finally:
            del self._asking[coordinator]

    def _next_batch(self, coordinator: int) -> list[Asked]:
        """Each transaction once: answers are told apart by its id."""
        batch: dict[str, Asked] = {}
        later: list[Asked] = []
        for asked in self._collected.pop(coordinator, ()):
            if asked.codes.done():
                continue
            if asked.transaction.transactional_id in batch:
                later.append(asked)
            else:
                batch[asked.transaction.transactional_id] = asked
        if later:
            self._collected[coordinator] = later
        return list(batch.values())


def codes_of(answer: AddPartitionsToTxnResponse) -> dict[str, Codes]:
    return {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    }


def tell(batch: Sequence[Asked], answers: dict[str, Codes], problem: ErrorCode) -> None:
    for asked in batch:
        codes = answers.get(asked.transaction.transactional_id)
        if asked.codes.done():
            continue
        if codes is None:
            asked.codes.set_exception(KafkaError(problem))
        else:
            asked.codes.set_result(codes)
