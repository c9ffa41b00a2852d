"""DescribeTopicPartitions, version 0: topics with their partitions, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from moldau.metadata.image import NO_LEADER, TopicImage
from moldau.security.authorizer import Operation, Resource, authorized_operations
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_topic_partitions import (
    CursorInResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Awaitable[DescribeTopicPartitionsResponse]:
    return begin(respond(broker, context, request))


def respond(
    broker: Broker, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Work[DescribeTopicPartitionsResponse]:
    image, paused = broker.image, pauses()
    limit = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    names = sorted({topic.name for topic in request.topics} if request.topics else set(image.topics))
    first_partition = 0
    if request.cursor is not None:
        cursor = request.cursor
        names = [name for name in names if name >= cursor.topic_name]
        starts_there = names[:1] == [cursor.topic_name]
        if cursor.partition_index < 0 or (request.topics and not starts_there):
            return refused(request)
        first_partition = cursor.partition_index if starts_there else 0
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    hidden: list[DescribeTopicPartitionsResponseTopic] = []
    for position, name in enumerate(names):
        if next(paused):
            yield
        if not broker.authorizer.allows(
            context, Operation.DESCRIBE, Resource.TOPIC, name, audited=bool(request.topics)
        ):
            if request.topics:
                hidden.append(not_described(name))
            continue
        if limit == 0:
            return DescribeTopicPartitionsResponse(
                topics=[*answers, *hidden], next_cursor=CursorInResponse(topic_name=name)
            )
        topic = image.topics.get(name)
        if topic is None:
            answers.append(unknown(broker, context, name))
            continue
        start = first_partition if position == 0 else 0
        answer = yield from describe(broker, context, topic, start, limit, paused)
        answers.append(answer)
        limit -= len(answer.partitions)
        reached = start + len(answer.partitions)
        if reached < len(topic.partitions):
            next_cursor = CursorInResponse(topic_name=name, partition_index=reached)
            return DescribeTopicPartitionsResponse(topics=[*answers, *hidden], next_cursor=next_cursor)
    return DescribeTopicPartitionsResponse(topics=[*answers, *hidden])


def not_described(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Of a topic that the client has named, but may not hear of: not even whether it is there."""
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """The cursor is none that we can have given for these topics."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )


def unknown(broker: Broker, context: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    valid = broker.controller.is_valid_name(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        topic_authorized_operations=authorized_operations(broker.authorizer, context, Resource.TOPIC, name),
    )


def describe(
    broker: Broker, context: RequestContext, topic: TopicImage, start: int, limit: int, paused: Iterator[bool]
) -> Work[DescribeTopicPartitionsResponseTopic]:
    partitions = []
    for index, partition in enumerate(topic.partitions[start : start + limit], start):
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=partition.elr,
                last_known_elr=[] if partition.last_known_leader == NO_LEADER else [partition.last_known_leader],
                offline_replicas=broker.offline_replicas(topic.name, index, partition),
            )
        )
        if next(paused):
            yield
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=authorized_operations(broker.authorizer, context, Resource.TOPIC, topic.name),
    )


API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, DescribeTopicPartitionsRequest, handle)
