"""CreateAcls, versions 1 to 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.acls import WantedAcl, create_acls
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.controller_requests import no_rules
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from moldau.wire.primitives import DecodeError

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NO_AUTHORIZER = "No Authorizer is configured."
UNKNOWN = 0


async def handle(broker: Broker, context: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    wanted = [
        WantedAcl(
            each.resource_type,
            each.resource_pattern_type,
            each.resource_name,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.creations
    ]
    if any(UNKNOWN in (each.resource, each.pattern, each.operation, each.permission) for each in wanted):
        raise DecodeError("access rules with unknown elements")
    if not broker.authorizer.allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return no_rules(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, needs(context, Operation.ALTER))
    if not broker.authorizer.keeps_rules:
        return no_rules(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    try:
        created = await broker.controller.decide(lambda image: create_acls(image, wanted, broker.controller.new_uuid))
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return no_rules(request, error.code, error.message)
    return CreateAclsResponse(results=[result(problem) for problem in created])


def result(problem: KafkaError | None) -> AclCreationResult:
    if problem is None:
        return AclCreationResult()
    return AclCreationResult(error_code=problem.code, error_message=problem.message)


API = Api(ApiKey.CREATE_ACLS, 1, 3, CreateAclsRequest, handle)
