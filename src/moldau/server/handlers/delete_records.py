"""DeleteRecords, versions 0 to 2: moves a partition's log start offset up; -1 means up to the high watermark.

Answered when this broker, the only replica, has moved it. As in Apache Kafka the new start becomes durable with the
next checkpoint of start offsets: after a power cut or a kill records may reappear that were deleted shortly before.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.work.turns import Work, begin, pauses

if TYPE_CHECKING:
    from moldau.server.broker import Broker

UP_TO_HIGH_WATERMARK = -1
#: Each may rename the files of a few segments.
PARTITIONS_PER_TURN = 16


def handle(
    broker: Broker, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    return begin(respond(broker, context, request))


def respond(broker: Broker, context: RequestContext, request: DeleteRecordsRequest) -> Work[DeleteRecordsResponse]:
    """A partition that is named twice is answered once, for the last time it was named."""
    paused = pauses(PARTITIONS_PER_TURN)
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wanted.setdefault(topic.name, {})[partition.partition_index] = partition
            if next(paused):
                yield
    topics = []
    for name, partitions in wanted.items():
        answers = []
        for each in partitions.values():
            answers.append(delete(broker, context, name, each))
            if next(paused):
                yield
        topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)


def delete(
    broker: Broker, context: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    try:
        if not broker.authorizer.allows(context, Operation.DELETE, Resource.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        low_watermark = move_start(broker, topic, wanted.partition_index, wanted.offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=-1, error_code=error.code
        )
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)


def move_start(broker: Broker, topic: str, index: int, offset: int) -> int:
    partition = broker.partitions.get(topic, index)
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
