"""Delegation tokens come, are renewed and end, as Apache Kafka 4.3 does it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from moldau.metadata import paths
from moldau.metadata.controller.decision import Decision
from moldau.metadata.delegation_tokens import TokenEntry, TokenImage, encode_token
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Delete, Put
from moldau.types.errors import ErrorCode, KafkaError

USER: Final = "User:"
MOST_REMOVED_AT_ONCE: Final = 1000


def create_token(token_id: str, entry: TokenEntry) -> Decision[TokenEntry]:
    """Raises KafkaError if somebody is to renew it who is no user."""
    if not all(renewer.startswith(USER) for renewer in entry.renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    return Decision([Put(paths.delegation_token(token_id), encode_token(entry), ABSENT)], entry)


def renew_token(
    image: ClusterImage, token_id: str | None, principal: str, period_ms: int, longest_ms: int, now_ms: int
) -> Decision[int]:
    """When the token expires now. Raises KafkaError."""
    token = _changeable(image, token_id, principal, now_ms)
    lifetime_ms = min(longest_ms, period_ms) if period_ms > 0 else longest_ms
    return _until(token_id or "", token, min(token.entry.ends_ms, now_ms + lifetime_ms))


def expire_token(
    image: ClusterImage, token_id: str | None, principal: str, period_ms: int, now_ms: int
) -> Decision[int]:
    """A negative period ends the token at once. Raises KafkaError."""
    token = _changeable(image, token_id, principal, now_ms)
    if period_ms < 0:
        return Decision([Delete(paths.delegation_token(token_id or ""), token.version)], now_ms)
    return _until(token_id or "", token, min(token.entry.ends_ms, now_ms + period_ms))


def remove_expired(image: ClusterImage, now_ms: int) -> Decision[int]:
    """How many there were."""
    expired = [(token_id, token) for token_id, token in image.tokens.items() if token.entry.has_expired(now_ms)]
    operations = [
        Delete(paths.delegation_token(token_id), token.version) for token_id, token in expired[:MOST_REMOVED_AT_ONCE]
    ]
    return Decision(operations, len(operations))


def _changeable(image: ClusterImage, token_id: str | None, principal: str, now_ms: int) -> TokenImage:
    token = image.tokens.get(token_id or "")
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    if token.entry.has_expired(now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not token.entry.may_be_changed_by(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token


def _until(token_id: str, token: TokenImage, expires_ms: int) -> Decision[int]:
    changed = encode_token(replace(token.entry, expires_ms=expires_ms))
    return Decision([Put(paths.delegation_token(token_id), changed, token.version)], expires_ms)
