"""Who may see and who may change the settings of what: topics and groups by their names, all else by the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.config_resources import ResourceType
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.logins import check_change as check_logins
from moldau.server.peers.login import check_change as check_peer_login
from moldau.types.acls import CLUSTER_NAME

if TYPE_CHECKING:
    from moldau.config.broker import BrokerConfig
    from moldau.server.broker import Broker


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
            return broker.authorizer.allows(context, operation, Resource.CLUSTER, CLUSTER_NAME)


def try_out(broker: Broker, changed: BrokerConfig) -> None:
    """Before it is stored: a key store that cannot be used is refused, as by Kafka, and so is a key table, since a
    broker may find them when it starts again. Raises KafkaError."""
    check_logins(broker.config, changed)
    check_peer_login(broker.config, changed)
    if any(each.is_encrypted for each in changed.security.values()):
        from moldau.server.certificates import check_change

        check_change(broker.config, changed)
