"""Before a transactional batch is taken: does the coordinator know that this transaction writes to this partition?

Without the question a write that arrives late, behind the end of its transaction, would open one that nobody ever
ends, and read_committed consumers would wait for it forever. Clients of transaction version 2 (Produce 12 and above,
TxnOffsetCommit 5 and above) do not announce their partitions: the broker adds them for them. A partition in which the
transaction is open already needs no question. If the transaction ends in a partition while the coordinator is being
asked, the answer is worth nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.storage.producer_state import ProducerEntry
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_SEQUENCE, TopicPartition
from moldau.wire.batch import parse_header
from moldau.wire.schema import Buffer
from moldau.work.turns import Work, pauses

if TYPE_CHECKING:
    from moldau.server.broker import Broker

ADDS_PARTITIONS_FROM = 12
ABORTABLE_IS_KNOWN_FROM = 11
NOT_ADDED = "Partition was not added to the transaction"
CANNOT_VERIFY = "Unable to verify the partition has been added to the transaction. Underlying error: "
#: A coordinator that cannot be asked now.
UNAVAILABLE = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)  # fmt: skip

#: A transactional batch on its way to a partition.
Claim = tuple[TopicPartition, Buffer]


class Question(NamedTuple):
    producer: ProducerIdentity
    partition: TopicPartition
    remembered: ProducerEntry | None
    """What the partition knew of the producer when the coordinator was asked."""


def question(
    broker: Broker,
    partition: TopicPartition,
    producer: ProducerIdentity,
    adds_partitions: bool,
    base_sequence: int = NO_SEQUENCE,
) -> Question | None:
    """What to ask, unless the transaction is open in the partition."""
    if not (adds_partitions or broker.config.transaction_partition_verification_enable):
        return None
    found = broker.partitions.find(*partition)
    if found is None or found.log is None:
        return None
    producers = found.log.producers
    if producers.has_ongoing_txn(*producer):
        return None
    producers.await_first(producer.producer_id, base_sequence)
    return Question(producer, partition, producers.latest(producer.producer_id))


def questions_of(broker: Broker, claims: Iterable[Claim], produce_version: int) -> Work[list[Question]]:
    paused = pauses()
    found = []
    for partition, records in claims:
        if next(paused):
            yield
        header = parse_header(records, 0)
        producer = ProducerIdentity(header.producer_id, header.producer_epoch)
        adds_partitions = produce_version >= ADDS_PARTITIONS_FROM
        asked = question(broker, partition, producer, adds_partitions, header.base_sequence)
        if asked is not None:
            found.append(asked)
    return found


async def ask(
    broker: Broker, transactional_id: str, questions: Sequence[Question], adds_partitions: bool
) -> dict[TopicPartition, KafkaError]:
    """The partitions that may not be written to, and why, as the coordinator says it."""
    refused: dict[TopicPartition, KafkaError] = {}
    by_producer: dict[ProducerIdentity, list[TopicPartition]] = {}
    for asked in questions:
        by_producer.setdefault(asked.producer, []).append(asked.partition)
    for producer, partitions in by_producer.items():
        try:
            if adds_partitions:
                await add_patiently(broker, transactional_id, producer, partitions)
            else:
                codes = await broker.transactions.verify_partitions(transactional_id, producer, partitions)
                refused |= {partition: KafkaError(code) for partition, code in codes.items() if code}
        except KafkaError as error:
            refused |= dict.fromkeys(partitions, error)
    for asked in questions:
        if asked.partition not in refused and has_ended_meanwhile(broker, asked):
            refused[asked.partition] = KafkaError(ErrorCode.INVALID_TXN_STATE)
    return refused


async def add_patiently(
    broker: Broker, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition]
) -> None:
    """The markers of the transaction before may still be under way: they rarely take long."""
    pause = broker.config.add_partitions_to_txn_retry_backoff_ms / 1000
    left = broker.config.add_partitions_to_txn_retry_backoff_max_ms / 1000
    while True:
        try:
            await broker.transactions.add_partitions(transactional_id, producer, partitions, version=2)
        except KafkaError as error:
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS or left <= 0:
                raise
        else:
            return
        await asyncio.sleep(pause)
        left -= pause


def has_ended_meanwhile(broker: Broker, asked: Question) -> bool:
    partition = broker.partitions.find(*asked.partition)
    if partition is None or partition.log is None:
        return False
    producers = partition.log.producers
    if producers.has_ongoing_txn(*asked.producer):
        return False
    return producers.latest(asked.producer.producer_id) is not asked.remembered


def as_produce_error(error: KafkaError, produce_version: int) -> KafkaError:
    """Coordinator trouble as a producer can take it: to be retried, or the end of the transaction."""
    code = error.code
    is_busy = code is ErrorCode.CONCURRENT_TRANSACTIONS and produce_version < ADDS_PARTITIONS_FROM
    if code in UNAVAILABLE or is_busy:
        return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, CANNOT_VERIFY + code.name)
    if code is ErrorCode.PRODUCER_FENCED:
        return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if code is ErrorCode.TRANSACTION_ABORTABLE and produce_version < ABORTABLE_IS_KNOWN_FROM:
        return KafkaError(ErrorCode.INVALID_TXN_STATE, NOT_ADDED)
    return error
