"""SyncGroup, versions 0 to 5: the leader hands in the assignment of its generation, everybody learns their own."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import respond
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

PROTOCOL_IS_REQUIRED_FROM = 5


def handle(
    broker: Broker, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    def refuse(error: KafkaError) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=error.code)

    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        return refuse(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if context.api_version >= PROTOCOL_IS_REQUIRED_FROM and None in (request.protocol_type, request.protocol_name):
        return refuse(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    if not request.group_id:
        return refuse(KafkaError(ErrorCode.INVALID_GROUP_ID))
    return respond(
        lambda: broker.groups.write(request.group_id, lambda machine, now: machine.classic.sync(request, now)),
        lambda answer: answer,
        refuse,
    )


API = Api(ApiKey.SYNC_GROUP, 0, 5, SyncGroupRequest, handle)
