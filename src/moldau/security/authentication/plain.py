"""SASL PLAIN (RFC 4616): [authorization id] NUL user NUL password, in one token."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from moldau.security.authentication.exchange import Identity, LoginRefused

PasswordOf = Callable[[str], str | None]
"""The password of a user, None where there is no such user."""

INVALID = "Authentication failed: Invalid username or password"


class PlainExchange:
    __slots__ = ("_password_of", "identity")

    def __init__(self, password_of: PasswordOf) -> None:
        self._password_of = password_of
        self.identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise LoginRefused("the PLAIN token is no UTF-8") from None
        if len(parts) != 3:
            told = f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            raise LoginRefused(f"a PLAIN token of {len(parts)} parts", told)
        authorization, user, password = parts
        if not user:
            raise LoginRefused("no user name", "Authentication failed: username not specified")
        if not password:
            raise LoginRefused(f"no password for user {user!r}", "Authentication failed: password not specified")
        expected = self._password_of(user)
        # An unknown user costs the same comparison as a known one.
        matches = hmac.compare_digest(
            password.encode(), (expected if expected is not None else password + "?").encode()
        )
        if not matches:
            raise LoginRefused(f"no user {user!r} with this password", INVALID)
        if authorization and authorization != user:
            told = "Authentication failed: Client requested an authorization id that is different from username"
            raise LoginRefused(f"user {user!r} asked to act as {authorization!r}", told)
        self.identity = Identity(user)
        return b""
