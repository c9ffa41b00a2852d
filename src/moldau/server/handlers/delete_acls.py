"""DeleteAcls, versions 1 to 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.acls import DeletedAcls, delete_acls
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.controller_requests import no_rules_deleted
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME, Acl, AclFilter
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from moldau.wire.primitives import DecodeError

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NO_AUTHORIZER = "No Authorizer is configured."
UNKNOWN = 0


async def handle(broker: Broker, context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    filters = [
        AclFilter(
            each.resource_type_filter,
            each.pattern_type_filter,
            each.resource_name_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each in request.filters
    ]
    if any(UNKNOWN in (each.resource, each.pattern, each.operation, each.permission) for each in filters):
        raise DecodeError("filters of access rules with unknown elements")
    if not broker.authorizer.allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return no_rules_deleted(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, needs(context, Operation.ALTER))
    if not broker.authorizer.keeps_rules:
        return no_rules_deleted(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    try:
        deleted = await broker.controller.decide(lambda image: delete_acls(image, filters))
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return no_rules_deleted(request, error.code, error.message)
    return DeleteAclsResponse(filter_results=[result(each) for each in deleted])


def result(deleted: DeletedAcls) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=deleted.code, error_message=deleted.message, matching_acls=[matching(acl) for acl in deleted.acls]
    )


def matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


API = Api(ApiKey.DELETE_ACLS, 1, 3, DeleteAclsRequest, handle)
