"""AlterPartitionReassignments, versions 0 and 1: other replicas for partitions, or an end to a change under way.

On one broker the only replicas that a partition can be given are those it has, so that a reassignment is complete when
it is accepted, and none is ever under way that could be cancelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.metadata.controller.assignments import check_chosen_replicas
from moldau.metadata.image import ClusterImage
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

#: Kafka sends an empty message, not none, to a request without topics.
NOTHING_TO_SAY = ""
NOT_PERMITTED = "Cluster authorization failed."


def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    if not may_access(broker, context, Operation.ALTER, None, ""):
        answer = each_partition(request, refuse)
        answer.error_code, answer.error_message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NOT_PERMITTED
        return answer
    return each_partition(request, lambda topic, wanted: reassign(broker.image, topic, wanted))


def each_partition(
    request: AlterPartitionReassignmentsRequest, act: Callable[[str, ReassignablePartition], None]
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else NOTHING_TO_SAY,
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[outcome(act, topic.name, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def outcome(
    act: Callable[[str, ReassignablePartition], None], topic: str, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    code, message = ErrorCode.NONE, None
    try:
        act(topic, wanted)
    except KafkaError as error:
        code, message = error.code, error.message
    return ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=code, error_message=message)


def refuse(topic: str, wanted: ReassignablePartition) -> None:
    raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, NOT_PERMITTED)


def reassign(image: ClusterImage, topic: str, wanted: ReassignablePartition) -> None:
    if topic not in image.topics:
        raise unknown(f"Unable to find a topic named {topic}.")
    if image.partition(topic, wanted.partition_index) is None:
        raise unknown(f"Unable to find partition {topic}:{wanted.partition_index}.")
    if wanted.replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_chosen_replicas(image, wanted.replicas, None)


def unknown(message: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


API = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, AlterPartitionReassignmentsRequest, handle)
