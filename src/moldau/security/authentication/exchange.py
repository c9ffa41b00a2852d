"""What a SASL mechanism is on the broker's side: a conversation of tokens that ends with a name, or is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class LoginRefused(Exception):
    """`told` is for the client; None says no more than that its credentials are not valid. `reason` is for the log."""

    def __init__(self, reason: str, told: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.told = told


class NotYet(Exception):
    """The answer needs something that takes too long for an event loop. Nothing has changed: the same token is given
    once more when what `begin` starts is done."""

    def __init__(self, begin: Callable[[], Awaitable[object]]) -> None:
        super().__init__("not yet")
        self.begin = begin


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a mechanism has recognised."""

    name: str
    expires_at_ms: int | None = None
    """When the credential itself ends, by the wall clock."""
    by_token: bool = False
    """Whether a delegation token stood for the user."""

    @property
    def principal(self) -> str:
        return f"User:{self.name}"


class Exchange(Protocol):
    """One conversation; `identity` is there once it is complete."""

    identity: Identity | None

    def respond(self, token: bytes) -> bytes:
        """The answer to the client's token. Raises LoginRefused, NotYet."""
        ...


Mechanism = Callable[[], Exchange]
"""Begins a conversation."""
