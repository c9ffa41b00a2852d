"""ExpireDelegationToken, versions 1 to 2: a token ends sooner, or at once.

Its owner and those whom the owner has named may ask for that; the token is named by its secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.delegation_tokens import expire_token
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.server.token_requests import NEVER
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    principal, secret, now_ms = context.client.principal, bytes(request.hmac), broker.wall_ms()
    key = broker.config.delegation_token_secret_key
    if key is None:
        return refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    try:
        expires_ms = await broker.controller.decide(
            lambda image: expire_token(
                image,
                broker.token_secrets.token_with(image.tokens, key, secret),
                principal,
                request.expiry_time_period_ms,
                now_ms,
            )
        )
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return refused(error.code)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


def refused(code: ErrorCode) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)


API = Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, ExpireDelegationTokenRequest, handle)
