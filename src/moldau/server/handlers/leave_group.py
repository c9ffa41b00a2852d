"""LeaveGroup, versions 0 to 5: members leave, or are removed by an administrator; several at once from version 3."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import respond
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

BATCHED_FROM = 3


def handle(
    broker: Broker, context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    is_batched = context.api_version >= BATCHED_FROM
    if not is_batched:
        request.members = [MemberIdentity(member_id=request.member_id)]

    def pack(members: Sequence[MemberResponse]) -> LeaveGroupResponse:
        if is_batched:
            return LeaveGroupResponse(members=members)
        return LeaveGroupResponse(error_code=members[0].error_code)

    def refuse(error: KafkaError) -> LeaveGroupResponse:
        if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
            # There is no such group: then nobody is in it.
            return pack([unknown(member) for member in request.members])
        return LeaveGroupResponse(error_code=error.code)

    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        return refuse(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refuse(KafkaError(ErrorCode.INVALID_GROUP_ID))
    return respond(
        lambda: broker.groups.write(request.group_id, lambda machine, now: machine.classic.leave(request, now)),
        pack,
        refuse,
    )


def unknown(member: MemberIdentity) -> MemberResponse:
    return MemberResponse(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        error_code=ErrorCode.UNKNOWN_MEMBER_ID,
    )


API = Api(ApiKey.LEAVE_GROUP, 0, 5, LeaveGroupRequest, handle)
