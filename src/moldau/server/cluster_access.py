"""Who may act for the cluster: other brokers, and whoever an authorizer gives the same right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.config_access import CLUSTER

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def acts_for_cluster(broker: Broker, context: RequestContext) -> bool:
    return broker.authorizer.allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER)
