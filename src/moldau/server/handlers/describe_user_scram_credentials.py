"""DescribeUserScramCredentials, version 0: which users have SCRAM passwords, with how many iterations."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from moldau.metadata.controller.scram_users import MECHANISMS
from moldau.metadata.scram_users import ScramUserImage
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "
NOBODY = "Attempt to describe a user credential that does not exist: "


def handle(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(
            error_code=code,
            error_message=None,
            results=[DescribeUserScramCredentialsResult(error_code=code, error_message=None)],
        )
    users = broker.image.scram_users
    wanted = Counter(user.name for user in request.users or ()) or Counter(users.keys())
    return DescribeUserScramCredentialsResponse(
        results=[described(name, times, users.get(name)) for name, times in wanted.items()]
    )


def described(name: str, times: int, user: ScramUserImage | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=TWICE + name
        )
    if user is None:
        return DescribeUserScramCredentialsResult(
            user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=NOBODY + name
        )
    infos = [
        CredentialInfo(mechanism=number, iterations=user.credentials[mechanism].iterations)
        for number, mechanism in MECHANISMS.items()
        if mechanism in user.credentials
    ]
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)


API = Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, DescribeUserScramCredentialsRequest, handle)
