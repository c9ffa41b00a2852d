"""Delegation tokens, over our own client: librdkafka has no calls for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moldau.client.asking.answers import Wired, refuse


@dataclass(frozen=True, slots=True)
class DelegationToken:
    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int


def create(asks: Wired, renewers: Sequence[str], longest_ms: int, owner: str | None = None) -> DelegationToken:
    from moldau.wire.messages.create_delegation_token import (
        CreatableRenewers,
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
    )

    kind, _, name = (owner or "").partition(":")
    wanted = [each.partition(":") for each in renewers]
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, _, name in wanted],
        max_lifetime_ms=longest_ms,
    )
    made = asks.wire().any(request, CreateDelegationTokenResponse)
    refuse(made.error_code)
    return DelegationToken(
        made.token_id,
        bytes(made.hmac),
        f"{made.principal_type}:{made.principal_name}",
        f"{made.token_requester_principal_type}:{made.token_requester_principal_name}",
        tuple(renewers),
        made.issue_timestamp_ms,
        made.expiry_timestamp_ms,
        made.max_timestamp_ms,
    )


def renew(asks: Wired, hmac: bytes, period_ms: int) -> int:
    """Until when it holds now."""
    from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer = asks.wire().any(request, RenewDelegationTokenResponse)
    refuse(answer.error_code)
    return answer.expiry_timestamp_ms


def expire(asks: Wired, hmac: bytes, period_ms: int) -> int:
    from moldau.wire.messages.expire_delegation_token import (
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
    )

    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    answer = asks.wire().any(request, ExpireDelegationTokenResponse)
    refuse(answer.error_code)
    return answer.expiry_timestamp_ms


def describe(asks: Wired, owners: Sequence[str]) -> list[DelegationToken]:
    """Those of these owners; all that the user may see where none is named."""
    from moldau.wire.messages.describe_delegation_token import (
        DescribeDelegationTokenOwner,
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )

    wanted = [each.partition(":") for each in owners]
    named = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, _, name in wanted]
    answer = asks.wire().any(DescribeDelegationTokenRequest(owners=named or None), DescribeDelegationTokenResponse)
    refuse(answer.error_code)
    return [
        DelegationToken(
            token.token_id,
            bytes(token.hmac),
            f"{token.principal_type}:{token.principal_name}",
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
        )
        for token in answer.tokens
    ]
