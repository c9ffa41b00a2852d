"""JoinGroup, versions 0 to 9: a member of a classic group joins, and learns the generation it is part of.

The answer comes when the group's rebalance is complete.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.coordinators.groups.classic_joins import Client
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import respond
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NO_PROTOCOL_IS_NULL_FROM = 7


def handle(
    broker: Broker, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    version = context.api_version

    def pack(answer: JoinGroupResponse) -> JoinGroupResponse:
        if not answer.protocol_name:
            answer.protocol_name = "" if version < NO_PROTOCOL_IS_NULL_FROM else None
        return answer

    def refuse(error: KafkaError) -> JoinGroupResponse:
        return pack(JoinGroupResponse(error_code=error.code, member_id=request.member_id))

    problem = problem_of(broker, context, request)
    if problem is not ErrorCode.NONE:
        return refuse(KafkaError(problem))
    client = Client(context.client_id, f"/{context.client.address}")
    return respond(
        lambda: broker.groups.write(
            request.group_id, lambda machine, now: machine.classic.join(request, client, version, now)
        ),
        pack,
        refuse,
    )


def problem_of(broker: Broker, context: RequestContext, request: JoinGroupRequest) -> ErrorCode:
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    config = broker.config
    if not config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return ErrorCode.NONE


API = Api(ApiKey.JOIN_GROUP, 0, 9, JoinGroupRequest, handle)
