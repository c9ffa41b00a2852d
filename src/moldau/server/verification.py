"""Before a transactional batch is taken: does the coordinator know that this transaction writes to this partition?

Without the question a write that arrives late, behind the end of its transaction, would open one that nobody ever
ends, and read_committed consumers would wait for it forever. Clients of transaction version 2 (Produce 12 and above,
TxnOffsetCommit 5 and above) do not announce their partitions: the broker adds them for them. A partition in which the
transaction is open already needs no question. If a transaction ends in a partition while the coordinator is being
asked, the answer is worth nothing any more. (With version 2 each transaction has an epoch of its own; the marker of the
one before may still arrive meanwhile, from a coordinator that is another broker, and means nothing.) While the one
before is being ended (a client need not wait for that) the coordinator has no answer: it is asked again, and only what
happens from then on counts.

When it is asked again decides how fast transactions follow each other. A coordinator that is this broker tells of the
end. Of another one's transaction this broker sees the marker alone, if there is one for its partitions: it waits for
that, and the coordinator, which hears of it and perhaps of others elsewhere, is asked until it has, soon and then less
and less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.storage.producer_state import ProducerEntry, ProducerStates
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_SEQUENCE, TopicPartition
from moldau.wire.batch import parse_header
from moldau.wire.schema import Buffer
from moldau.work.slices import Work, pauses

if TYPE_CHECKING:
    from moldau.server.broker import Broker

ADDS_PARTITIONS_FROM = 12
ABORTABLE_IS_KNOWN_FROM = 11
SOON_SECONDS = 0.001
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


#: What partitions know of a producer.
Remembered = Mapping[TopicPartition, ProducerEntry | None]


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
    producers = producers_of(broker, partition)
    if producers is None or producers.has_ongoing_txn(*producer):
        return None
    producers.await_first(producer.producer_id, base_sequence)
    return Question(producer, partition)


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
                remembered = await add_patiently(broker, transactional_id, producer, partitions)
            else:
                remembered = remembered_of(broker, producer, partitions)
                codes = await broker.transactions.questions.verify_partitions(transactional_id, producer, partitions)
                refused |= {partition: KafkaError(code) for partition, code in codes.items() if code}
        except KafkaError as error:
            refused |= dict.fromkeys(partitions, error)
        else:
            for partition in ended_since(broker, producer, remembered, adds_partitions):
                refused.setdefault(partition, KafkaError(ErrorCode.INVALID_TXN_STATE))
    return refused


async def add_patiently(
    broker: Broker, transactional_id: str, producer: ProducerIdentity, partitions: Sequence[TopicPartition]
) -> Remembered:
    """The markers of the transaction before may still be under way: they rarely take long. Returns what was remembered
    of the producer when the coordinator was asked with success.
    """
    clock = asyncio.get_running_loop().time
    longest = broker.config.add_partitions_to_txn_retry_backoff_ms / 1000
    soon = SOON_SECONDS
    deadline = clock() + broker.config.add_partitions_to_txn_retry_backoff_max_ms / 1000
    while True:
        remembered = remembered_of(broker, producer, partitions)
        try:
            await broker.transactions.questions.add_partitions(transactional_id, producer, partitions)
        except KafkaError as error:
            left = deadline - clock()
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS or left <= 0:
                raise
        else:
            return remembered
        if broker.transactions.questions.are_local(transactional_id):
            await broker.transactions.endings.wait(transactional_id, min(longest, left))
        elif is_open(remembered_of(broker, producer, partitions)):
            await broker.transactions.marked.wait(producer.producer_id, min(longest, left))
        else:
            await asyncio.sleep(min(soon, longest, left))
            soon *= 2


def is_open(remembered: Remembered) -> bool:
    """Whether a marker for one of the partitions is to come."""
    return any(entry is not None and entry.txn_first_offset >= 0 for entry in remembered.values())


def remembered_of(broker: Broker, producer: ProducerIdentity, partitions: Iterable[TopicPartition]) -> Remembered:
    found = {partition: producers_of(broker, partition) for partition in partitions}
    return {
        partition: producers.latest(producer.producer_id)
        for partition, producers in found.items()
        if producers is not None
    }


def producers_of(broker: Broker, partition: TopicPartition) -> ProducerStates | None:
    found = broker.partitions.find(*partition)
    return None if found is None or found.log is None else found.log.producers


def ended_since(
    broker: Broker, producer: ProducerIdentity, remembered: Remembered, ends_raise_epoch: bool
) -> list[TopicPartition]:
    """The partitions in which the transaction may have ended since; another batch may have begun it there."""
    ended = []
    for partition, entry in remembered.items():
        producers = producers_of(broker, partition)
        if producers is not None and producers.may_have_ended_since(
            entry, *producer, ends_raise_epoch=ends_raise_epoch
        ):
            ended.append(partition)
    return ended


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
