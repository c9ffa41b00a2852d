"""ListGroups, versions 0 to 5: all groups that this broker coordinates, by state (from version 4) and type (5)."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import chain
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import gather, gather_in_turns, respond
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

LISTED_AT_ONCE = 100


def handle(
    broker: Broker, context: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    runtime = broker.groups.runtime
    if runtime.is_loading():
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}

    def of_shard(partition: int) -> list[ListedGroup] | Awaitable[list[ListedGroup]]:
        return respond(
            lambda: runtime.read(partition, lambda machine, now: machine.descriptions.list(states, types)),
            lambda groups: groups,
            none_here,
        )

    def pack(shards: list[list[ListedGroup]]) -> ListGroupsResponse:
        sees_all = broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
        groups = list(chain.from_iterable(shards))
        if not sees_all:
            groups = [
                group
                for group in groups
                if broker.authorizer.allows(context, Operation.DESCRIBE, Resource.GROUP, group.group_id)
            ]
        return ListGroupsResponse(groups=groups)

    shards = runtime.shards()
    if sum(len(shard.machine.tables.groups) for shard in shards) <= LISTED_AT_ONCE:
        return gather([of_shard(shard.partition) for shard in shards], pack)
    return gather_in_turns((of_shard(shard.partition) for shard in shards), pack)


def none_here(error: KafkaError) -> list[ListedGroup]:
    """Another broker has taken over the shard: its groups are that one's to list."""
    return []


API = Api(ApiKey.LIST_GROUPS, 0, 5, ListGroupsRequest, handle)
