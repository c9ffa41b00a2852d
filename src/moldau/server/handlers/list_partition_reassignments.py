"""ListPartitionReassignments, version 0: the changes of replicas that are under way.

On one broker there is never any: a partition's replicas cannot be others than they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if not may_access(broker, context, Operation.DESCRIBE, None, ""):
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
        )
    return ListPartitionReassignmentsResponse(error_message=None)


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, ListPartitionReassignmentsRequest, handle)
