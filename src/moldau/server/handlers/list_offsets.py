"""ListOffsets, versions 1 to 11: the earliest and latest offset, the first at or after a time, the one with the
largest time.

Tiered storage does not exist here: the earliest local offset is the earliest, and there is no latest tiered one.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.replication.partition import Partition
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import is_another_broker
from moldau.server.registry import Api
from moldau.storage.log import PartitionLog
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

if TYPE_CHECKING:
    from moldau.server.broker import Broker

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
KNOWN_FROM_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
NEVER = 2**15
NOT_AVAILABLE_FROM = 5
CONSUMER, DEBUGGER = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1

#: (offset, timestamp, leader epoch)
Found = tuple[int, int, int]
NOTHING: Found = (NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)


def handle(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    return begin(respond(broker, context, request))


def respond(broker: Broker, context: RequestContext, request: ListOffsetsRequest) -> Work[ListOffsetsResponse]:
    paused = pauses()
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    asked: dict[str, dict[int, list[ListOffsetsPartition]]] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            asked.setdefault(topic.name, {}).setdefault(wanted.partition_index, []).append(wanted)
            if next(paused):
                yield
    topics = []
    is_broker = is_another_broker(broker, context)  # how far groups are behind, which it tells in its metrics
    for name, partitions in asked.items():
        allowed = is_broker or broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name)
        answers = []
        for wanted, *repeated in partitions.values():
            if not allowed:
                answers.append(failed(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif repeated:
                answers.append(failed(wanted, ErrorCode.INVALID_REQUEST))
            else:
                answers.append(answer(broker, context, request, name, wanted))
            if next(paused):
                yield
        topics.append(ListOffsetsTopicResponse(name=name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def refused(request: ListOffsetsRequest, code: ErrorCode) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=[failed(wanted, code) for wanted in topic.partitions])
            for topic in request.topics
        ]
    )


def failed(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


def answer(
    broker: Broker, context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < 0 and context.api_version < KNOWN_FROM_VERSION.get(wanted.timestamp, NEVER):
        return failed(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = broker.partitions.get(topic, wanted.partition_index)
        # Tools that look closer may ask any replica.
        log = partition.served_log(wanted.current_leader_epoch, leader_only=request.replica_id != DEBUGGER)
        if request.replica_id == CONSUMER:
            if wanted.timestamp not in (EARLIEST, EARLIEST_LOCAL):
                partition.check_mark_is_known()
            partition.check_lease()
        offset, timestamp, epoch = find(partition, log, last_visible(partition, log, request), wanted.timestamp)
    except KafkaError as error:
        is_unknown = error.code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < NOT_AVAILABLE_FROM
        return failed(wanted, ErrorCode.LEADER_NOT_AVAILABLE if is_unknown else error.code)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, offset=offset, timestamp=timestamp, leader_epoch=epoch
    )


def last_visible(partition: Partition, log: PartitionLog, request: ListOffsetsRequest) -> int:
    if request.replica_id != CONSUMER:  # replicas, and tools that look at them, go by what is written
        return log.log_end_offset
    return partition.last_stable_offset() if request.isolation_level == READ_COMMITTED else partition.high_watermark


def find(partition: Partition, log: PartitionLog, end: int, timestamp: int) -> Found:
    if timestamp == LATEST:
        return end, NO_TIMESTAMP, log.leader_epochs.latest
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start_offset, NO_TIMESTAMP, log.leader_epochs.epoch_of(log.log_start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    if found is None or found[0] >= end:
        return NOTHING
    return found


API = Api(ApiKey.LIST_OFFSETS, 1, 11, ListOffsetsRequest, handle)
