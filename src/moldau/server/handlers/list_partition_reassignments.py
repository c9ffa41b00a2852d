"""ListPartitionReassignments, version 0: the changes of replicas that are under way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.reassignment import list_reassignments
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if not may_access(broker, context, Operation.DESCRIBE, None, ""):
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            error_message=needs(context, Operation.DESCRIBE),
            topics=[
                OngoingTopicReassignment(
                    name=topic.name,
                    partitions=[OngoingPartitionReassignment(partition_index=each) for each in topic.partition_indexes],
                )
                for topic in request.topics or ()
            ],
        )
    wanted = None
    if request.topics is not None:
        wanted = [(topic.name, topic.partition_indexes) for topic in request.topics]
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(
                name=name,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=each.partition,
                        replicas=each.replicas,
                        adding_replicas=each.adding,
                        removing_replicas=each.removing,
                    )
                    for each in found
                ],
            )
            for name, found in list_reassignments(broker.image, wanted)
        ],
    )


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, ListPartitionReassignmentsRequest, handle)
