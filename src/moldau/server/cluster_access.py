"""Who may act for the cluster: other brokers, and whoever an authorizer gives the same right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource, authorized_operations
from moldau.security.context import RequestContext
from moldau.types.acls import CLUSTER_NAME
from moldau.wire.apis import ApiKey

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def needs(context: RequestContext, operation: Operation) -> str:
    """What Apache Kafka says when it refuses a request as a whole; it prints the request, we name it."""
    return f"Request {ApiKey(context.api_key).name} needs {operation.name} permission."


def cluster_operations(broker: Broker, context: RequestContext) -> int:
    """What the client may do with the cluster; nothing is told to one that may not describe it."""
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return authorized_operations(broker.authorizer, context, Resource.CLUSTER, CLUSTER_NAME)


def acts_for_cluster(broker: Broker, context: RequestContext) -> bool:
    return broker.authorizer.allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)


def is_where_brokers_are(broker: Broker, context: RequestContext) -> bool:
    """On the listener that brokers use among themselves, which others may not even reach."""
    return context.client.listener == broker.config.inter_broker_listener_name


def is_another_broker(broker: Broker, context: RequestContext) -> bool:
    """It may act for the cluster and has said who it is: what brokers ask of each other takes no further right."""
    return context.client.broker_id is not None and is_where_brokers_are(broker, context)
