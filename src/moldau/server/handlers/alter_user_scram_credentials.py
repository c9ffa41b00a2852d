"""AlterUserScramCredentials, version 0: sets and deletes the passwords of SCRAM users.

The client has salted and iterated the password already; what is kept of it cannot be used to log in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.scram_users import MECHANISMS, ScramChange, alter_scram_users
from moldau.security.authentication.scram import credential_of
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.credentials import ScramCredential
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    changes = [ScramChange(deletion.name, deletion.mechanism, None) for deletion in request.deletions]
    changes += [ScramChange(one.name, one.mechanism, credential(one)) for one in request.upsertions]
    if not broker.authorizer.allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        refusal = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, needs(context, Operation.ALTER))
        results: dict[str, KafkaError | None] = {change.user: refusal for change in changes}
    else:
        results = await broker.controller.decide(lambda image: alter_scram_users(image, changes))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
            )
            for user, refusal in results.items()
        ]
    )


def credential(upsertion: ScramCredentialUpsertion) -> ScramCredential:
    salt, salted = bytes(upsertion.salt), bytes(upsertion.salted_password)
    mechanism = MECHANISMS.get(upsertion.mechanism)
    if mechanism is None:
        return ScramCredential(salt, upsertion.iterations, b"", b"")
    return credential_of(mechanism, salt, upsertion.iterations, salted)


API = Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, AlterUserScramCredentialsRequest, handle)
