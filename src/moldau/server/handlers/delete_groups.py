"""DeleteGroups, versions 0 to 2: groups without members go, with all that they have committed."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import gather, respond
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    names = dict.fromkeys(request.groups_names)
    parts = [delete(broker, context, name) for name in names]
    return gather(parts, lambda results: DeleteGroupsResponse(results=results))


def delete(
    broker: Broker, context: RequestContext, group_id: str
) -> DeletableGroupResult | Awaitable[DeletableGroupResult]:
    def refuse(error: KafkaError) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=group_id, error_code=error.code)

    if not broker.authorizer.allows(context, Operation.DELETE, Resource.GROUP, group_id):
        return refuse(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return respond(
        lambda: broker.groups.write(group_id, lambda machine, now: machine.removal.delete_group(group_id)),
        lambda _: DeletableGroupResult(group_id=group_id),
        refuse,
    )


API = Api(ApiKey.DELETE_GROUPS, 0, 2, DeleteGroupsRequest, handle)
