"""AlterPartitionReassignments, versions 0 and 1: other replicas for partitions, or an end to a change under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.metadata.controller.reassignment import Reassigned, WantedReplicas, alter_reassignments
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

#: Kafka sends an empty message, not none, to a request without topics.
NOTHING_TO_SAY = ""


async def handle(
    broker: Broker, context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    if not may_access(broker, context, Operation.ALTER, None, ""):
        message = needs(context, Operation.ALTER)
        answer = each_partition(
            request,
            lambda topic, index: Reassigned(topic, index, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message),
        )
        answer.error_code, answer.error_message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, message
        return answer
    wanted = [
        WantedReplicas(topic.name, each.partition_index, None if each.replicas is None else tuple(each.replicas))
        for topic in request.topics
        for each in topic.partitions
    ]
    outcomes = await broker.controller.decide(
        lambda image: alter_reassignments(
            image,
            wanted,
            broker.config,
            allow_replication_factor_change=request.allow_replication_factor_change,
        )
    )
    results = iter(outcomes)
    return each_partition(request, lambda topic, index: next(results))


def each_partition(
    request: AlterPartitionReassignmentsRequest, outcome: Callable[[str, int], Reassigned]
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else NOTHING_TO_SAY,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[answer(outcome(topic.name, wanted.partition_index)) for wanted in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def answer(outcome: Reassigned) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=outcome.partition, error_code=outcome.code, error_message=outcome.message
    )


API = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, AlterPartitionReassignmentsRequest, handle)
