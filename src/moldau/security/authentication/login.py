"""The states of a connection on a listener that asks who is there, as Apache Kafka has them.

    ACCEPTED          ApiVersions (once) or SaslHandshake
    HANDSHAKING       SaslHandshake
    AUTHENTICATING    tokens: SaslAuthenticate, or bare ones after a SaslHandshake of version 0
    AUTHENTICATED     everything; EXPIRED once its session has ended
    FAILED            nothing: the connection is closed

Where sessions end (`connections.max.reauth.ms`, a credential that ends), a SaslHandshake begins the same again while
the client stays who it was: neither the mechanism nor the user may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from moldau.security.authentication.exchange import Exchange, Identity, LoginRefused, Mechanism

SHORTEST_REAUTHENTICATION_SECONDS: Final = 1.0
"""A client that logs in again more often is refused."""


class State(Enum):
    ACCEPTED = "accepted"
    HANDSHAKING = "handshaking"
    AUTHENTICATING = "authenticating"
    AUTHENTICATED = "authenticated"
    EXPIRED = "expired"
    FAILED = "failed"


class OutOfTurn(Exception):
    """A request that this state does not allow: the connection is closed without an answer."""


@dataclass(frozen=True, slots=True)
class LoginRules:
    """What one listener offers: mechanisms in the order in which clients are told, and how long a login holds."""

    mechanisms: Mapping[str, Mechanism]
    longest_session_ms: Mapping[str, int] = field(default_factory=dict)
    """By mechanism; a session without end where there is none or 0."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A token for the client; `identity` once it is known who it is, with the length of the session (0: no end)."""

    token: bytes
    identity: Identity | None = None
    session_ms: int = 0


class Login:
    """Of one connection. `bare_tokens` tells that frames are tokens now, without a header."""

    __slots__ = (
        "_began_again", "_exchange", "_expires_at", "_identity", "_mechanism", "_refusal", "_rules", "bare_tokens",
        "state",
    )  # fmt: skip

    def __init__(self, rules: LoginRules) -> None:
        self._rules = rules
        self._exchange: Exchange | None = None
        self._identity: Identity | None = None
        self._mechanism = ""
        self._refusal: LoginRefused | None = None
        self._expires_at: float | None = None
        self._began_again: float | None = None
        self.bare_tokens = False
        self.state = State.ACCEPTED

    @property
    def offered(self) -> tuple[str, ...]:
        return tuple(self._rules.mechanisms)

    @property
    def mechanism(self) -> str:
        return self._mechanism

    @property
    def ends(self) -> bool:
        """Whether this session has an end."""
        return self._expires_at is not None

    @property
    def again(self) -> str:
        """For messages: what is going on."""
        return "authentication" if self._identity is None else "re-authentication"

    # --- before it is known who is there ---

    def ask_versions(self) -> None:
        """Raises OutOfTurn unless ApiVersions may be asked."""
        if self.state is not State.ACCEPTED:
            raise self._fail(f"ApiVersions while {self.state.value}")

    def versions_told(self) -> None:
        self.state = State.HANDSHAKING

    def handshake(self, mechanism: str, version: int) -> bool:
        """Whether the mechanism is offered; the connection has failed if not. Raises OutOfTurn."""
        if self.state not in (State.ACCEPTED, State.HANDSHAKING):
            raise self._fail(f"SaslHandshake while {self.state.value}")
        begin = self._rules.mechanisms.get(mechanism)
        if begin is None:
            self.state = State.FAILED
            return False
        if self._identity is not None and mechanism != self._mechanism:
            told = f"Cannot change SASL mechanism during re-authentication from '{self._mechanism}' to '{mechanism}'"
            self._refusal = LoginRefused(told, told)
        self._exchange = begin()
        if self._identity is None:
            self._mechanism = mechanism
        self.bare_tokens = version == 0
        self.state = State.AUTHENTICATING
        return True

    def authenticate(self, token: bytes, now: float, wall_ms: int) -> Progress:
        """Raises LoginRefused, after which the connection has failed; NotYet, which changes nothing; OutOfTurn."""
        if self.state is not State.AUTHENTICATING or self._exchange is None:
            raise self._fail(f"a SASL token while {self.state.value}")
        try:
            if self._refusal is not None:
                raise self._refusal
            answer = self._exchange.respond(token)
            if self._exchange.identity is None:
                return Progress(answer)
            identity = self._unchanged(self._exchange.identity)
        except LoginRefused:
            self.state = State.FAILED
            self._exchange = None
            raise
        self._identity, self._exchange = identity, None
        self.state = State.AUTHENTICATED
        self.bare_tokens = False
        session_ms = self._session_ms(identity, wall_ms)
        self._expires_at = None if session_ms is None else now + session_ms / 1000
        return Progress(answer, identity, session_ms or 0)

    def refuse(self, request: str) -> OutOfTurn:
        """Some other request came while nobody was logged in."""
        return self._fail(f"{request} while {self.state.value}")

    # --- afterwards ---

    def begins_again(self, now: float) -> bool:
        """Whether a SaslHandshake starts a new login; else it is answered like any request out of place."""
        if self._expires_at is None:
            return False
        if self._began_again is not None and now - self._began_again < SHORTEST_REAUTHENTICATION_SECONDS:
            return False
        self._began_again = now
        self.state = State.HANDSHAKING
        return True

    def has_expired(self, now: float) -> bool:
        if self._expires_at is None or now < self._expires_at:
            return False
        self.state = State.EXPIRED
        return True

    def _unchanged(self, identity: Identity) -> Identity:
        before = self._identity
        if before is not None and before.principal != identity.principal:
            told = f"Cannot change principals during re-authentication from {before.principal}: {identity.principal}"
            raise LoginRefused(told, told)
        return identity

    def _session_ms(self, identity: Identity, wall_ms: int) -> int | None:
        longest = self._rules.longest_session_ms.get(self._mechanism, 0)
        limits = [longest] if longest > 0 else []
        if identity.expires_at_ms is not None:
            limits.append(max(identity.expires_at_ms - wall_ms, 1))
        return min(limits, default=None)

    def _fail(self, reason: str) -> OutOfTurn:
        self.state = State.FAILED
        self._exchange = None
        return OutOfTurn(reason)
