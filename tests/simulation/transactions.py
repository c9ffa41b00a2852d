"""A transactional producer that copies: records to two partitions and an offset of a group in each transaction, which
it commits, aborts or abandons; a reader of committed records; and what must be true of both.

Of a transaction its owner knows that it was committed, that it was aborted, or neither, where the answer was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from moldau.client.settings import Address
from moldau.types.errors import ErrorCode
from moldau.wire.control import ControlType, decode_control_type
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from moldau.wire.records import iter_batches, iter_records
from moldau.wire.schema import Message
from tests.simulation.calls import BACKOFF_SECONDS, GROUP, TOPIC, TRANSACTION, TROUBLE, ClientProcess, Cluster
from tests.simulation.courses import Work

COPY = "copy"
COPY_PARTITIONS = 2
OWNER = "copier"
COPY_GROUP = "copiers"
READ_COMMITTED = 1
PACE_SECONDS = 0.3
LATE = b"late"

#: The transaction's owner asks again.
PASSING = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
#: The transaction is lost, and its owner begins anew.
LOST = frozenset(
    (
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )
)


class Outcome(Enum):
    UNKNOWN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class TransactionLostError(Exception):
    """It cannot be committed by who asked."""


@dataclass(slots=True)
class Copied:
    """What is known of all transactions, and what a reader of committed records has seen."""

    outcomes: list[Outcome] = field(default_factory=list)
    seen: dict[int, list[int]] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)


class Copier:
    """Version 1 announces partitions and keeps its epoch; 2 leaves that to brokers, with a new epoch each time."""

    def __init__(
        self, process: ClientProcess, bootstrap: Sequence[Address], work: Work, replicas: int, copied: Copied
    ) -> None:
        self._process, self._cluster = process, Cluster(process, bootstrap, COPY)
        self._version, self._timeout_ms = work.transactions, work.transaction_timeout_ms
        self._replicas, self._copied = replicas, copied
        self._coordinators: dict[int, Address] = {}
        self._sequences: dict[int, int] = {}
        self._identity: Identity | None = None
        self.is_stopping = False
        self.active = 1
        process.run(self._run())

    async def _run(self) -> None:
        await self._cluster.create_topic(COPY_PARTITIONS, self._replicas)
        rng = self._process.scheduler.rng
        while not self.is_stopping:
            if self._identity is None:
                self._identity = await self._begin_anew()
            number = len(self._copied.outcomes)
            self._copied.outcomes.append(Outcome.ABORTED)  # as long as nobody has tried to commit it
            try:
                await self._transact(number, self._identity, rng.random())
            except TransactionLostError:
                self._identity = None
            self._process.scheduler.note("transaction", number, self._copied.outcomes[number].name)
            await asyncio.sleep(rng.random() * PACE_SECONDS)
        # what may still be open is decided
        await self._begin_anew()
        self.active -= 1

    async def _begin_anew(self) -> Identity:
        request = InitProducerIdRequest(transactional_id=OWNER, transaction_timeout_ms=self._timeout_ms)
        answer: InitProducerIdResponse = await self._until_told(
            TRANSACTION, OWNER, request, InitProducerIdResponse, lambda answer: [answer.error_code]
        )
        self._sequences.clear()
        return Identity(answer.producer_id, answer.producer_epoch)

    async def _transact(self, number: int, identity: Identity, chance: float) -> None:
        """`chance` decides what becomes of it: most are committed."""
        if self._version == 1:
            await self._announce(identity)
        for index in range(COPY_PARTITIONS):
            await self._produce(index, b"%d" % number, identity)
        await self._commit_offset(number + 1, identity)
        if chance < 0.1:
            sequences = dict(self._sequences)
            self._identity = await self._begin_anew()
            self._sequences = sequences
            await self._come_late(identity)
            self._sequences.clear()
        elif chance < 0.25:
            await self._end(identity, commits=False)
        else:
            self._copied.outcomes[number] = Outcome.UNKNOWN
            await self._end(identity, commits=True)
            self._copied.outcomes[number] = Outcome.COMMITTED

    async def _come_late(self, identity: Identity) -> None:
        """Somebody who was replaced, and does not know it, goes on."""
        end = EndTxnRequest(
            transactional_id=OWNER, producer_id=identity.producer_id, producer_epoch=identity.epoch, committed=True
        )
        try:
            await self._produce(0, LATE, identity, once=True)
        except TransactionLostError:
            pass
        else:
            self._process.scheduler.problems.append(f"{identity} was replaced and wrote {LATE!r}")
        try:
            where = await self._coordinator(TRANSACTION, OWNER)
            answer: EndTxnResponse = await self._cluster.call(where, end, EndTxnResponse, self._end_version)
        except TROUBLE:
            return
        if answer.error_code == 0:
            self._process.scheduler.problems.append(f"{identity} was replaced and committed")

    # --- steps ---

    @property
    def _end_version(self) -> int:
        return 4 if self._version == 1 else 5

    async def _announce(self, identity: Identity) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=OWNER,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=COPY, partitions=list(range(COPY_PARTITIONS)))],
        )

        def codes(answer: AddPartitionsToTxnResponse) -> list[int]:
            found = answer.results_by_topic_v3_and_below
            return [each.partition_error_code for topic in found for each in topic.results_by_partition]

        await self._until_told(TRANSACTION, OWNER, request, AddPartitionsToTxnResponse, codes, 3)
        offsets = AddOffsetsToTxnRequest(
            transactional_id=OWNER,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=COPY_GROUP,
        )
        await self._until_told(TRANSACTION, OWNER, offsets, AddOffsetsToTxnResponse, lambda told: [told.error_code], 3)

    async def _produce(self, index: int, value: bytes, identity: Identity, *, once: bool = False) -> None:
        sequence = self._sequences.get(index, 0)
        batch = self._process.batch(
            [value],
            transactional=True,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=sequence,
        )
        written = TopicProduceData(name=COPY, partition_data=[PartitionProduceData(index=index, records=bytes(batch))])
        request = ProduceRequest(transactional_id=OWNER, acks=-1, timeout_ms=2000, topic_data=[written])
        while True:
            where = self._cluster.leaders.get(index)
            if where is not None:
                code = await self._told(where, request)
                if code == ErrorCode.NONE:
                    if not once:
                        self._sequences[index] = sequence + 1
                    return
                if code in LOST or once:
                    raise TransactionLostError
                if code not in PASSING:
                    self._process.scheduler.problems.append(f"the copier was told {code.name} for {COPY}-{index}")
            await asyncio.sleep(BACKOFF_SECONDS)
            await self._cluster.refresh()

    async def _told(self, where: Address, request: ProduceRequest) -> ErrorCode:
        try:
            answer: ProduceResponse = await self._cluster.call(
                where, request, ProduceResponse, 11 if self._version == 1 else 12
            )
        except TROUBLE:
            return ErrorCode.NETWORK_EXCEPTION
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def _commit_offset(self, offset: int, identity: Identity) -> None:
        wanted = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=OWNER,
            group_id=COPY_GROUP,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[wanted])],
        )

        def codes(answer: TxnOffsetCommitResponse) -> list[int]:
            return [answer.topics[0].partitions[0].error_code]

        version = 4 if self._version == 1 else 5
        await self._until_told(GROUP, COPY_GROUP, request, TxnOffsetCommitResponse, codes, version)

    async def _end(self, identity: Identity, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=OWNER, producer_id=identity.producer_id, producer_epoch=identity.epoch, committed=commits
        )
        answer: EndTxnResponse = await self._until_told(
            TRANSACTION, OWNER, request, EndTxnResponse, lambda answer: [answer.error_code], self._end_version
        )
        if self._version == 2:
            self._identity = Identity(answer.producer_id, answer.producer_epoch)
            self._sequences.clear()

    # --- asking ---

    async def _until_told(
        self,
        kind: int,
        key: str,
        request: Message,
        answer_class: Any,
        codes: Callable[[Any], list[int]],
        version: int | None = None,
    ) -> Any:
        while True:
            try:
                where = await self._coordinator(kind, key)
                answer = await self._cluster.call(where, request, answer_class, version)
            except TROUBLE:
                self._coordinators.pop(kind, None)
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            told = {ErrorCode(code) for code in codes(answer)} - {ErrorCode.NONE}
            if not told:
                return answer
            if told & LOST and not isinstance(request, InitProducerIdRequest):
                raise TransactionLostError
            if not told <= PASSING:
                names = sorted(code.name for code in told)
                self._process.scheduler.problems.append(f"the copier was told {names} for {type(request).__name__}")
            if told - {ErrorCode.CONCURRENT_TRANSACTIONS}:
                self._coordinators.pop(kind, None)
            await asyncio.sleep(BACKOFF_SECONDS)

    async def _coordinator(self, kind: int, key: str) -> Address:
        if kind not in self._coordinators:
            self._coordinators[kind] = await self._cluster.coordinator(kind, key)
        return self._coordinators[kind]


class CommittedReader:
    def __init__(
        self, process: ClientProcess, bootstrap: Sequence[Address], copied: Copied, *, anywhere: bool = False
    ) -> None:
        self._process, self._cluster, self._copied = process, Cluster(process, bootstrap, COPY), copied
        self._anywhere = anywhere
        for index in range(COPY_PARTITIONS):
            copied.seen[index] = []
            process.run(self._read(index))

    async def _read(self, index: int) -> None:
        offset = 0
        while True:
            self._copied.positions[index] = offset
            where = self._cluster.reads_from(index, anywhere=self._anywhere)
            if where is None:
                await self._cluster.refresh()
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            wanted = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 16)
            request = FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=READ_COMMITTED,
                topics=[FetchTopic(topic=COPY, topic_id=self._cluster.topic_id, partitions=[wanted])],
            )
            try:
                answer: FetchResponse = await self._cluster.call(where, request, FetchResponse, 12)
            except TROUBLE:
                self._cluster.leaders.pop(index, None)
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            data = answer.responses[0].partitions[0]
            if data.error_code:
                self._cluster.leaders.pop(index, None)
                await asyncio.sleep(BACKOFF_SECONDS)
                continue
            for next_offset, value in committed_in(bytes(data.records or b""), data.aborted_transactions or []):
                if next_offset > offset:
                    offset = next_offset
                    if value is not None:
                        self._take(index, value)

    def _take(self, index: int, value: bytes) -> None:
        problems, seen = self._process.scheduler.problems, self._copied.seen[index]
        if value == LATE:
            problems.append(f"{COPY}-{index}: what somebody wrote who had been replaced was read")
            return
        number = int(value)
        if self._copied.outcomes[number] is Outcome.ABORTED:
            problems.append(f"{COPY}-{index}: transaction {number} was aborted, and is read as committed")
        if seen and number <= seen[-1]:
            problems.append(f"{COPY}-{index}: transaction {number} is read after {seen[-1]}")
        seen.append(number)


def committed_in(records: bytes, aborted: Sequence[AbortedTransaction]) -> Iterator[tuple[int, bytes | None]]:
    """Next offsets, and values that stand before them; of batches that are passed over, only the former."""
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    open_aborts: set[int] = set()
    for batch in iter_batches(records):
        header = batch.header
        while waiting and waiting[0].first_offset < header.next_offset:
            open_aborts.add(waiting.pop(0).producer_id)
        if header.is_control:
            kinds = [decode_control_type(record.key) for record in iter_records(batch)]
            if ControlType.ABORT in kinds:
                open_aborts.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborts):
            for record in iter_records(batch):
                yield record.offset + 1, record.value
        yield header.next_offset, None


def broken_atomicity(copied: Copied, group_offset: int) -> str | None:
    """Once everything is read: all partitions hold the same transactions, none that was committed is missing, and the
    offset is that of the last one."""
    first, *others = copied.seen.values()
    if any(each != first for each in others):
        apart = sorted(set(first).symmetric_difference(*others))
        return f"{COPY}: transactions {apart} are in some partitions only"
    committed = [number for number, outcome in enumerate(copied.outcomes) if outcome is Outcome.COMMITTED]
    missing = sorted(set(committed) - set(first))
    if missing:
        return f"{COPY}: transactions {missing} were committed, and are not read"
    wanted = first[-1] + 1 if first else -1
    if group_offset != wanted:
        return f"{COPY}: the last transaction committed offset {wanted}, and the group is told {group_offset}"
    return None
