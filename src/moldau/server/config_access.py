"""Who may see and who may change the settings of what: topics and groups by their names, all else by the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.config_resources import ResourceType
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext

if TYPE_CHECKING:
    from moldau.server.broker import Broker

CLUSTER = "kafka-cluster"


def may_access(
    broker: Broker, context: RequestContext, operation: Operation, kind: ResourceType | None, name: str
) -> bool:
    """Whether the client may describe or alter these settings; `kind` None means anything that the cluster has."""
    match kind:
        case ResourceType.TOPIC:
            return broker.authorizer.allows(context, operation, Resource.TOPIC, name)
        case ResourceType.GROUP:
            return broker.authorizer.allows(context, operation, Resource.GROUP, name)
        case _:
            return broker.authorizer.allows(context, operation, Resource.CLUSTER, CLUSTER)
