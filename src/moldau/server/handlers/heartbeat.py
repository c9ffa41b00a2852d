"""Heartbeat, versions 0 to 4: a member of a classic group is there, and learns whether it must join again.

The commonest request of a busy cluster: it writes nothing, and is answered at once.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import respond
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.group_id:
        return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    return respond(
        lambda: broker.groups.write(request.group_id, lambda machine, now: machine.classic.heartbeat(request, now)),
        pack,
        refuse,
    )


def pack(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def refuse(error: KafkaError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error.code)


API = Api(ApiKey.HEARTBEAT, 0, 4, HeartbeatRequest, handle)
