"""DescribeRoles, version 0, ours alone: all roles with what they permit and whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.role_documents import encode_roles
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_roles import DescribeRolesRequest, DescribeRolesResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NO_AUTHORIZER = "No Authorizer is configured, so roles count for nothing."


def handle(broker: Broker, context: RequestContext, _request: DescribeRolesRequest) -> DescribeRolesResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        refusal = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeRolesResponse(error_code=refusal, error_message=needs(context, Operation.DESCRIBE))
    if not broker.authorizer.keeps_rules:
        return DescribeRolesResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    roles = {name: role.entry for name, role in broker.image.roles.items()}
    return DescribeRolesResponse(roles=encode_roles(roles))


API = Api(ApiKey.DESCRIBE_ROLES, 0, 0, DescribeRolesRequest, handle, is_own=True)
