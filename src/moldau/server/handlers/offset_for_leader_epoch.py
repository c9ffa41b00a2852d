"""OffsetForLeaderEpoch, versions 2 to 4: where the history of a leader epoch ends in this broker's log."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    return begin(respond(broker, context, request))


def respond(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Work[OffsetForLeaderEpochResponse]:
    paused = pauses()
    topics = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            answers.append(answer(broker, context, topic.topic, wanted))
            if next(paused):
                yield
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


def may_describe(broker: Broker, context: RequestContext, topic: str) -> bool:
    """Followers ask too: whoever may act for the cluster."""
    authorizer = broker.authorizer
    return authorizer.allows(
        context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, audited=False
    ) or authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic)


def answer(broker: Broker, context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    if not may_describe(broker, context, topic):
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        partition = broker.partitions.get(topic, wanted.partition)
        epoch, end_offset = partition.served_log(wanted.current_leader_epoch).epoch_end_offset(wanted.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, OffsetForLeaderEpochRequest, handle)
