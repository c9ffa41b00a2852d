"""DescribeProducers, version 0: the idempotent and transactional producers that a partition remembers; every replica
answers.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.metadata.controller.topic_names import check_topic_name
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

if TYPE_CHECKING:
    from moldau.server.broker import Broker

UNKNOWN_TOPIC = "This server does not host this topic-partition."


def handle(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    return begin(respond(broker, context, request))


def respond(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> Work[DescribeProducersResponse]:
    paused = pauses()
    topics = []
    for topic in request.topics:
        allowed = broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, topic.name)
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(
                describe(broker, topic.name, index)
                if allowed
                else PartitionResponse(
                    partition_index=index,
                    error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    error_message="Topic authorization failed.",
                )
            )
            if next(paused):
                yield
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        if topic not in broker.image.topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)
        log = broker.partitions.get(topic, index).served_log(NO_EPOCH, leader_only=False)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.txn_first_offset,
        )
        for producer_id, entry in log.producers.items()
    ]
    return PartitionResponse(partition_index=index, active_producers=producers)


API = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, DescribeProducersRequest, handle)
