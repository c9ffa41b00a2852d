"""AlterRoles, version 0, ours alone: roles come and go, and get permissions and members. All changes or none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.roles import alter_roles
from moldau.metadata.role_documents import decode_changes
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_roles import AlterRolesRequest, AlterRolesResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NO_AUTHORIZER = "No Authorizer is configured, so roles count for nothing."


async def handle(broker: Broker, context: RequestContext, request: AlterRolesRequest) -> AlterRolesResponse:
    try:
        if not broker.authorizer.allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, needs(context, Operation.ALTER))
        if not broker.authorizer.keeps_rules:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        changes = decode_changes(request.changes)
        await broker.controller.decide(lambda image: alter_roles(image, changes, validate_only=request.validate_only))
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return AlterRolesResponse(error_code=error.code, error_message=error.message or "")
    return AlterRolesResponse()


API = Api(ApiKey.ALTER_ROLES, 0, 0, AlterRolesRequest, handle, is_own=True)
