"""DeleteRecords, versions 0 to 2: moves a partition's log start offset up; -1 means up to the high watermark.

Answered when every replica that lives has moved it, or the request's time is up. As in Apache Kafka the new start
becomes durable with the next checkpoint of start offsets: after a power cut or a kill records may reappear that were
deleted shortly before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.replication.partition import Partition
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_OFFSET
from moldau.wire.apis import ApiKey
from moldau.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

if TYPE_CHECKING:
    from moldau.server.broker import Broker

UP_TO_HIGH_WATERMARK = -1
#: Each may rename the files of a few segments.
PARTITIONS_PER_TURN = 16


class StartWait:
    """One partition's answer, while followers learn of the new start."""

    __slots__ = ("answer", "is_over", "offset", "partition")

    def __init__(self, partition: Partition, offset: int, answer: DeleteRecordsPartitionResult) -> None:
        self.partition, self.offset, self.answer = partition, offset, answer
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition.start_waits.add(offset, self)

    def time_is_up(self) -> None:
        if not self.is_over.done():
            self.partition.start_waits.discard(self.offset, self)
            self._refuse(ErrorCode.REQUEST_TIMED_OUT)

    def reached(self) -> None:
        self.answer.low_watermark = self.partition.low_watermark()
        self.is_over.set_result(None)

    def ended(self, code: ErrorCode) -> None:
        self._refuse(code)
        self.is_over.set_result(None)

    def starved(self) -> bool:
        return False

    def _refuse(self, code: ErrorCode) -> None:
        self.answer.low_watermark, self.answer.error_code = NO_OFFSET, code


Begun = tuple[DeleteRecordsResponse, list[StartWait]]


def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    begun = begin(respond(broker, context, request))
    if isinstance(begun, Awaitable):
        return finish(begun, request.timeout_ms)
    response, waits = begun
    return finish(begun, request.timeout_ms) if waits else response


async def finish(begun: Begun | Awaitable[Begun], timeout_ms: int) -> DeleteRecordsResponse:
    response, waits = await begun if isinstance(begun, Awaitable) else begun
    if waits:
        await asyncio.wait([wait.is_over for wait in waits], timeout=timeout_ms / 1000)
    for wait in waits:
        wait.time_is_up()
    return response


def respond(broker: Broker, context: RequestContext, request: DeleteRecordsRequest) -> Work[Begun]:
    """A partition that is named twice is answered once, for the last time it was named."""
    paused = pauses(PARTITIONS_PER_TURN)
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wanted.setdefault(topic.name, {})[partition.partition_index] = partition
            if next(paused):
                yield
    topics, waits = [], []
    for name, partitions in wanted.items():
        answers = []
        for each in partitions.values():
            answer, wait = delete(broker, context, name, each)
            answers.append(answer)
            if wait is not None:
                waits.append(wait)
            if next(paused):
                yield
        topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    return DeleteRecordsResponse(topics=topics), waits


def delete(
    broker: Broker, context: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> tuple[DeleteRecordsPartitionResult, StartWait | None]:
    answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=NO_OFFSET)
    try:
        if not broker.authorizer.allows(context, Operation.DELETE, Resource.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = broker.partitions.get(topic, wanted.partition_index)
        start = move_start(partition, wanted.offset)
    except KafkaError as error:
        answer.error_code = error.code
        return answer, None
    answer.low_watermark = partition.low_watermark()
    return answer, StartWait(partition, start, answer) if answer.low_watermark < start else None


def move_start(partition: Partition, offset: int) -> int:
    log = partition.leader_log()
    if not log.config.deletes:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    if offset == UP_TO_HIGH_WATERMARK:
        offset = partition.high_watermark
    if offset < 0 or offset > partition.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if offset > log.log_start_offset:
        log.advance_log_start(offset)
    return log.log_start_offset


API = Api(ApiKey.DELETE_RECORDS, 0, 2, DeleteRecordsRequest, handle)
