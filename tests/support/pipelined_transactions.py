"""A transactional producer that waits for no answer before it must: the first requests of a transaction leave together
with the end of the last one, so that they always arrive while its markers are under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from moldau.client.connection import Connection
from moldau.client.settings import ClientSettings, parse_address
from moldau.types.errors import ErrorCode
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from moldau.wire.records import Record, build_batch
from moldau.wire.schema import Message
from tests.support.admin import SECONDS

#: By transaction version, the last versions of the requests (topic names, not ids, in Produce).
LAST_VERSIONS: dict[int, dict[type[Message], int]] = {
    1: {ProduceRequest: 11, TxnOffsetCommitRequest: 4, EndTxnRequest: 4, AddPartitionsToTxnRequest: 3},
    2: {ProduceRequest: 12},
}
TRY_AGAIN = frozenset((
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
))  # fmt: skip
#: The highest epoch that a producer is given; what goes on from there has another id.
LAST_EPOCH = 32766
NOBODY = (-1, -1)
#: What a request to be sent is: the message, its answer's class, and where the answer has its error code.
Question = tuple[Message, type[Message], Callable[[Any], int]]


def connected(address: str) -> Connection:
    return Connection(parse_address(address), ClientSettings((parse_address(address),)))


class PipelinedProducer:
    """One transactional id; each transaction has a record in each of some partitions, and an offset of a group."""

    def __init__(self, address: str, transactional_id: str, version: int, topic: str, partitions: int) -> None:
        self._id, self._version, self._topic, self._partitions = transactional_id, version, topic, partitions
        self.group = f"group of {transactional_id}"
        self._connection = connected(address)
        self._find_coordinators()
        self.producer: tuple[int, int] = NOBODY
        self.begin_anew()

    def begin_anew(self, recovering: bool = False) -> None:
        """As a process that starts, or as one that tells who it was. An open transaction is given up."""
        (started,) = self._until_taken([self._init(self.producer if recovering else NOBODY)])
        self.producer = (started.producer_id, started.producer_epoch)
        self._sequence = 0
        self._wants_commit: bool | None = None
        """Of the transaction that is open; None if none is."""

    def reconnect(self, address: str) -> None:
        """To a broker that was started again; what is open stays so."""
        self._connection.close()
        self._connection = connected(address)
        self._find_coordinators()

    def end_of(self, producer: tuple[int, int], commit: bool) -> EndTxnResponse:
        """What an owner is told, whoever that is by now."""
        request = self._end_request(producer, commit)
        return self._connection.call(request, EndTxnResponse, max_version=self._last_version(request))

    def __enter__(self) -> PipelinedProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def transaction(self, value: bytes, offset: int, commit: bool) -> None:
        """Ends the last one, begins and fills this one."""
        ending = self._ended()
        if self._version == 1:
            self._until_taken([*ending, self._partitions_added(), self._group_added()])
            ending = []
        self._until_taken(
            [*ending, *(self._records(index, value) for index in range(self._partitions)), self._offset(offset)]
        )
        self._sequence += 1
        self._wants_commit = commit

    def finish(self) -> None:
        self._until_taken(self._ended())

    def _ended(self) -> list[Question]:
        """The request for the end of what is open; what follows is sent as if it were answered already."""
        if self._wants_commit is None:
            return []
        asked, self._wants_commit = self._end(self._wants_commit), None
        if self._version == 1:
            return [asked]
        producer_id, epoch = self.producer
        if epoch < LAST_EPOCH:
            self.producer, self._sequence = (producer_id, epoch + 1), 0
            return [asked]
        # The id that goes on from here stands in the answer alone.
        (answer,) = self._until_taken([asked])
        self.producer, self._sequence = (answer.producer_id, answer.producer_epoch), 0
        return []

    def _until_taken(self, questions: Sequence[Question]) -> list[Any]:
        """Sends all before it reads any answer; what is told to try again is sent again, anything else fails."""
        answers: dict[int, Any] = {}
        deadline = time.monotonic() + SECONDS
        while len(answers) < len(questions):
            assert time.monotonic() < deadline, f"{self._id} is told to try again for {SECONDS:g} s"
            under_way = [
                (number, self._connection.send(message, answer_class, max_version=self._last_version(message)), code_of)
                for number, (message, answer_class, code_of) in enumerate(questions)
                if number not in answers
            ]
            for number, pending, code_of in under_way:
                answer = self._connection.receive(pending)
                code = ErrorCode(code_of(answer))
                if code is ErrorCode.NONE:
                    answers[number] = answer
                elif code not in TRY_AGAIN:
                    raise AssertionError(f"{type(questions[number][0]).__name__} of {self._id}: {code.name}")
        return [answers[number] for number in range(len(questions))]

    def _last_version(self, message: Message) -> int | None:
        return LAST_VERSIONS[self._version].get(type(message))

    # --- requests ---

    def _coordinator(self, kind: int, key: str) -> Question:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return request, FindCoordinatorResponse, lambda answer: answer.coordinators[0].error_code

    def _find_coordinators(self) -> None:
        self._until_taken([self._coordinator(0, self.group), self._coordinator(1, self._id)])

    def _init(self, known_as: tuple[int, int]) -> Question:
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=60_000,
            producer_id=known_as[0],
            producer_epoch=known_as[1],
        )
        return request, InitProducerIdResponse, lambda answer: answer.error_code

    def _records(self, index: int, value: bytes) -> Question:
        producer_id, epoch = self.producer
        batch = build_batch(
            [Record(value=value)],
            transactional=True,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequence,
        )
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=index, records=batch)])
        request = ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=30_000, topic_data=[data])
        return request, ProduceResponse, lambda answer: answer.responses[0].partition_responses[0].error_code

    def _offset(self, offset: int) -> Question:
        producer_id, epoch = self.producer
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._topic, partitions=[partition])],
        )
        return request, TxnOffsetCommitResponse, lambda answer: answer.topics[0].partitions[0].error_code

    def _partitions_added(self) -> Question:
        producer_id, epoch = self.producer
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=list(range(self._partitions)))],
        )
        return (
            request,
            AddPartitionsToTxnResponse,
            lambda answer: max(
                one.partition_error_code for one in answer.results_by_topic_v3_and_below[0].results_by_partition
            ),
        )

    def _group_added(self) -> Question:
        producer_id, epoch = self.producer
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id, producer_id=producer_id, producer_epoch=epoch, group_id=self.group
        )
        return request, AddOffsetsToTxnResponse, lambda answer: answer.error_code

    def _end(self, commit: bool) -> Question:
        return self._end_request(self.producer, commit), EndTxnResponse, lambda answer: answer.error_code

    def _end_request(self, producer: tuple[int, int], commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self._id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
