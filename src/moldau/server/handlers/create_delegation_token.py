"""CreateDelegationToken, versions 1 to 3: a token that stands for its owner for a while.

Whoever makes one for somebody else needs CREATE_TOKENS on that user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.delegation_tokens import create_token
from moldau.metadata.delegation_tokens import TokenEntry
from moldau.security.authentication.delegation import secret_of
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.server.token_requests import NEVER, owner_of, principal_of, with_owner
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.uuid_text import encode_uuid
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    requester, owner = context.client.principal, owner_of(context, request)
    try:
        if owner != requester and not broker.authorizer.allows(context, Operation.CREATE_TOKENS, Resource.USER, owner):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        key = broker.config.delegation_token_secret_key
        if key is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
        return with_owner(await created(broker, request, key, owner, requester), context, request)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        refused = CreateDelegationTokenResponse(
            error_code=error.code, issue_timestamp_ms=NEVER, expiry_timestamp_ms=NEVER, max_timestamp_ms=NEVER
        )
        return with_owner(refused, context, request)


async def created(
    broker: Broker, request: CreateDelegationTokenRequest, key: str, owner: str, requester: str
) -> CreateDelegationTokenResponse:
    config, now_ms = broker.config, broker.wall_ms()
    longest_ms, first_ms = config.delegation_token_max_lifetime_ms, config.delegation_token_expiry_time_ms
    if request.max_lifetime_ms > 0:
        longest_ms = min(longest_ms, request.max_lifetime_ms)
    renewers = tuple(principal_of(each.principal_type, each.principal_name) for each in request.renewers)
    ends_ms = now_ms + longest_ms
    entry = TokenEntry(owner, requester, renewers, now_ms, min(ends_ms, now_ms + first_ms), ends_ms)
    token_id = encode_uuid(broker.controller.new_uuid())
    await broker.controller.decide(lambda _: create_token(token_id, entry))
    return CreateDelegationTokenResponse(
        issue_timestamp_ms=entry.issued_ms,
        expiry_timestamp_ms=entry.expires_ms,
        max_timestamp_ms=entry.ends_ms,
        token_id=token_id,
        hmac=secret_of(key, token_id),
    )


API = Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, CreateDelegationTokenRequest, handle)
