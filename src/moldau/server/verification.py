"""Before a transactional batch is taken: does the coordinator know that this transaction writes to this partition?

Without the question a write that arrives late, behind the end of its transaction, would open one that nobody ever
ends, and read_committed consumers would wait for it forever. Clients of transaction version 2 (Produce 12 and above)
do not announce their partitions: the broker adds them for them. A partition in which the transaction is open already
needs no question.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.batch import parse_header
from moldau.wire.schema import Buffer

if TYPE_CHECKING:
    from moldau.server.broker import Broker

ADDS_PARTITIONS_FROM = 12

#: A transactional batch on its way to a partition.
Claim = tuple[TopicPartition, Buffer]


def needs_question(broker: Broker, claims: Iterable[Claim]) -> dict[ProducerIdentity, list[TopicPartition]]:
    """The partitions in which the producer's transaction is not open yet."""
    if not broker.config.transaction_partition_verification_enable:
        return {}
    found: dict[ProducerIdentity, list[TopicPartition]] = {}
    for topic_partition, records in claims:
        partition = broker.partitions.find(*topic_partition)
        header = parse_header(records, 0)
        if partition is None or partition.log is None:
            continue
        if not partition.log.producers.has_ongoing_txn(header.producer_id):
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
            found.setdefault(producer, []).append(topic_partition)
    return found


async def ask(
    broker: Broker, transactional_id: str, questions: dict[ProducerIdentity, list[TopicPartition]], produce_version: int
) -> dict[TopicPartition, ErrorCode]:
    """The partitions that may not be written to, and why."""
    refused: dict[TopicPartition, ErrorCode] = {}
    for producer, partitions in questions.items():
        try:
            if produce_version >= ADDS_PARTITIONS_FROM:
                await broker.transactions.add_partitions(transactional_id, producer, partitions, version=2)
            else:
                codes = await broker.transactions.verify_partitions(transactional_id, producer, partitions)
                refused |= {partition: code for partition, code in codes.items() if code}
        except KafkaError as error:
            refused |= dict.fromkeys(partitions, as_produce_error(error.code, produce_version))
    return refused


def as_produce_error(code: ErrorCode, produce_version: int) -> ErrorCode:
    """Coordinator trouble as a producer can take it: to be retried, or the end of the transaction."""
    if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and produce_version < ADDS_PARTITIONS_FROM:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and produce_version < ADDS_PARTITIONS_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return code
