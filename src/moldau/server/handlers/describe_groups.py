"""DescribeGroups, versions 0 to 6: the state and the members of classic groups.

Before version 6 a group that does not exist is described as dead, without an error.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.coordinators.groups.describe import DEAD
from moldau.security.authorizer import Operation, Resource, authorized_operations
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import gather, gather_in_turns, respond
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NOT_FOUND_IS_AN_ERROR_FROM = 6
DESCRIBED_AT_ONCE = 4


def handle(
    broker: Broker, context: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    with_operations = request.include_authorized_operations
    parts = (describe(broker, context, group_id, with_operations) for group_id in request.groups)
    if len(request.groups) > DESCRIBED_AT_ONCE:
        return gather_in_turns(parts, lambda groups: DescribeGroupsResponse(groups=groups))
    return gather(list(parts), lambda groups: DescribeGroupsResponse(groups=groups))


def describe(
    broker: Broker, context: RequestContext, group_id: str, with_operations: bool
) -> DescribedGroup | Awaitable[DescribedGroup]:
    def with_authorized(group: DescribedGroup) -> DescribedGroup:
        if with_operations and not group.error_code:
            group.authorized_operations = authorized_operations(broker.authorizer, context, Resource.GROUP, group_id)
        return group

    def refuse(error: KafkaError) -> DescribedGroup:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            return DescribedGroup(group_id=group_id, error_code=error.code)
        if context.api_version < NOT_FOUND_IS_AN_ERROR_FROM:
            return with_authorized(DescribedGroup(group_id=group_id, group_state=DEAD))
        return DescribedGroup(group_id=group_id, group_state=DEAD, error_code=error.code, error_message=error.message)

    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.GROUP, group_id):
        return refuse(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return respond(
        lambda: broker.groups.read(group_id, lambda machine, now: machine.descriptions.describe(group_id)),
        with_authorized,
        refuse,
    )


API = Api(ApiKey.DESCRIBE_GROUPS, 0, 6, DescribeGroupsRequest, handle)
