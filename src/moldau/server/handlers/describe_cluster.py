"""DescribeCluster, versions 0 to 2: cluster id, controller and brokers.

Endpoint type 2 (controllers) is refused as Apache Kafka's brokers do: there is no separate controller listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import OPERATIONS_NOT_ASKED
from moldau.security.context import RequestContext
from moldau.server.cluster_access import cluster_operations
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

BROKERS, CONTROLLERS = 1, 2
MISMATCH = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"


def handle(broker: Broker, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=MISMATCH if known else f"Unsupported endpoint type {request.endpoint_type}",
        )
    operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(broker, context)
    return DescribeClusterResponse(
        cluster_id=broker.image.cluster_id or "",
        controller_id=broker.controller_id,
        brokers=described_brokers(broker, context.client.listener, request.include_fenced_brokers),
        cluster_authorized_operations=operations,
    )


def described_brokers(broker: Broker, listener: str, with_fenced: bool) -> list[DescribeClusterBroker]:
    found = []
    for each in broker.image.brokers.values():
        endpoint = each.listeners.get(listener)
        if endpoint is not None and (with_fenced or not each.fenced):
            found.append(
                DescribeClusterBroker(
                    broker_id=each.id, host=endpoint.host, port=endpoint.port, rack=each.rack, is_fenced=each.fenced
                )
            )
    return found


API = Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, DescribeClusterRequest, handle)
