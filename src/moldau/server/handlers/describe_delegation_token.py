"""DescribeDelegationToken, versions 1 to 3: the tokens that a user owns, has asked for or may renew, and those that it
may describe, with their secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.delegation_tokens import TokenEntry
from moldau.security.authentication.delegation import secret_of
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.server.token_requests import parts_of, principal_of, refusal_of
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    refusal, key = refusal_of(broker, context), broker.config.delegation_token_secret_key
    if refusal is not None:
        return DescribeDelegationTokenResponse(error_code=refusal)
    if key is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = {principal_of(each.principal_type, each.principal_name) for each in request.owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            described(token_id, token.entry, secret_of(key, token_id))
            for token_id, token in broker.image.tokens.items()
            if (owners is None or any(map(token.entry.concerns, owners)))
            and may_describe(broker, context, token_id, token.entry)
        ]
    )


def may_describe(broker: Broker, context: RequestContext, token_id: str, token: TokenEntry) -> bool:
    allows = broker.authorizer.allows
    return (
        token.concerns(context.client.principal)
        or allows(context, Operation.DESCRIBE, Resource.DELEGATION_TOKEN, token_id)
        or allows(context, Operation.DESCRIBE_TOKENS, Resource.USER, token.owner)
    )


def described(token_id: str, token: TokenEntry, secret: bytes) -> DescribedDelegationToken:
    kind, name = parts_of(token.owner)
    requester_kind, requester_name = parts_of(token.requester)
    renewers = [parts_of(renewer) for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.ends_ms,
        token_id=token_id,
        hmac=secret,
        renewers=[DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, name in renewers],
    )


API = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, DescribeDelegationTokenRequest, handle)
