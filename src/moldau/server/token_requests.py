"""What the requests about delegation tokens share: who may send them at all, and whose token it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.security.context import ANONYMOUS, RequestContext
from moldau.types.errors import ErrorCode
from moldau.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

USER = "User"
NEVER: Final = -1
"""The times of a token that there is not."""


def refusal_of(broker: Broker, context: RequestContext) -> ErrorCode | None:
    """Tokens are for who is known by something else than a token."""
    client = context.client
    security = broker.config.security.get(client.listener)
    unknown = security is None or security.protocol == "PLAINTEXT" or client.principal == ANONYMOUS
    if client.by_token or unknown:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return None


def principal_of(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def parts_of(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def owner_of(context: RequestContext, request: CreateDelegationTokenRequest) -> str:
    """For whom a token is asked: for whoever asks, or for somebody else."""
    if not request.owner_principal_name:
        return context.client.principal
    return principal_of(request.owner_principal_type or "", request.owner_principal_name)


def with_owner(
    answer: CreateDelegationTokenResponse, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    answer.principal_type, answer.principal_name = parts_of(owner_of(context, request))
    requester_kind, requester_name = parts_of(context.client.principal)
    answer.token_requester_principal_type, answer.token_requester_principal_name = requester_kind, requester_name
    return answer
