"""Access rules over our own client: made, found, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.asking.answers import refuse
from moldau.types.acls import Acl, AclFilter, Operation, Pattern, Permission, Resource

if TYPE_CHECKING:
    from moldau.cli.connection import Connection


def create(cluster: Connection, acls: Sequence[Acl]) -> None:
    from moldau.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse

    creations = [
        AclCreation(
            resource_type=acl.resource,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in acls
    ]
    for result in cluster.wire().any(CreateAclsRequest(creations=creations), CreateAclsResponse).results:
        refuse(result.error_code, result.error_message)


def find(cluster: Connection, wanted: AclFilter) -> list[Acl]:
    from moldau.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = cluster.wire().any(request, DescribeAclsResponse)
    refuse(answer.error_code, answer.error_message)
    return [
        Acl(
            Resource(resource.resource_type),
            Pattern(resource.pattern_type),
            resource.resource_name,
            each.principal,
            each.host,
            Operation(each.operation),
            Permission(each.permission_type),
        )
        for resource in answer.resources
        for each in resource.acls
    ]


def delete(cluster: Connection, filters: Sequence[AclFilter]) -> list[Acl]:
    """Those that were deleted."""
    from moldau.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse

    wanted = [
        DeleteAclsFilter(
            resource_type_filter=each.resource,
            resource_name_filter=each.name,
            pattern_type_filter=each.pattern,
            principal_filter=each.principal,
            host_filter=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in filters
    ]
    deleted = []
    for result in cluster.wire().any(DeleteAclsRequest(filters=wanted), DeleteAclsResponse).filter_results:
        refuse(result.error_code, result.error_message)
        deleted += [
            Acl(
                Resource(each.resource_type),
                Pattern(each.pattern_type),
                each.resource_name,
                each.principal,
                each.host,
                Operation(each.operation),
                Permission(each.permission_type),
            )
            for each in result.matching_acls
        ]
    return deleted
