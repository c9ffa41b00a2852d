"""Delegation tokens, over our own client: librdkafka's admin client has no calls for them."""

from __future__ import annotations

from moldau.client.asking.tokens import DelegationToken, create, describe, expire, renew

__all__ = ["DelegationToken", "create", "describe", "expire", "renew"]
