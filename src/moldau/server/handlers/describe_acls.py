"""DescribeAcls, versions 1 to 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME, Acl, AclFilter, Pattern
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from moldau.wire.primitives import DecodeError

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NO_AUTHORIZER = "No Authorizer is configured on the broker"
UNKNOWN = 0


def handle(broker: Broker, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    wanted = AclFilter(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    if UNKNOWN in (wanted.resource, wanted.pattern, wanted.operation, wanted.permission):
        raise DecodeError("a filter of access rules with unknown elements")
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return DescribeAclsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=needs(context, Operation.DESCRIBE)
        )
    if not broker.authorizer.keeps_rules:
        return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    resources: dict[tuple[Resource, str, Pattern], list[AclDescription]] = {}
    for known in broker.image.acls.values():
        acl = known.acl
        if wanted.matches(acl):
            resources.setdefault((acl.resource, acl.name, acl.pattern), []).append(described(acl))
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
            for (kind, name, pattern), acls in resources.items()
        ],
    )


def described(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
    )


API = Api(ApiKey.DESCRIBE_ACLS, 1, 3, DescribeAclsRequest, handle)
