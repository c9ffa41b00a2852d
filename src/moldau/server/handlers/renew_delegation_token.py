"""RenewDelegationToken, versions 1 to 2: a token holds longer, though never beyond its end.

Its owner and those whom the owner has named may ask for that; the token is named by its secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.delegation_tokens import renew_token
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.server.token_requests import NEVER
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    principal, secret, now_ms = context.client.principal, bytes(request.hmac), broker.wall_ms()
    key = broker.config.delegation_token_secret_key
    if key is None:
        return refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    longest_ms = broker.config.delegation_token_expiry_time_ms
    try:
        expires_ms = await broker.controller.decide(
            lambda image: renew_token(
                image,
                broker.token_secrets.token_with(image.tokens, key, secret),
                principal,
                request.renew_period_ms,
                longest_ms,
                now_ms,
            )
        )
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return refused(error.code)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def refused(code: ErrorCode) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)


API = Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, RenewDelegationTokenRequest, handle)
