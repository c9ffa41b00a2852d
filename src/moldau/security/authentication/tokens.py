"""What a bearer token (a JSON Web Token, RFC 7519) is checked for: who signed it, for whom, for how long.

    <header>.<claims>.<signature>      each base64url; header and claims are JSON

Signed tokens are checked with the public keys of whoever gives them out (a JWKS, RFC 7517). An unsigned one (algorithm
`none`) is taken only where a listener was told to, for development.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from moldau.security.authentication.exchange import LoginRefused

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Those with a public and a private key: with a shared one whoever may check tokens could make them."""
UNSIGNED: Final = "none"


class TokenRefused(LoginRefused):
    """`status` and `scope` are what the client is told (RFC 7628)."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Token:
    principal: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class TokenRules:
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: frozenset[str] = frozenset()
    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    """It has to be for one of them; for anybody where there is none."""
    clock_skew_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key of a JWKS, and the one algorithm that it is for, if that is said."""

    key_id: str | None
    algorithm: str | None
    public: Any


Judge = Callable[[str, float], Token]
"""Judges a token at a time in seconds; raises TokenRefused."""
KeysOf = Callable[[str | None], Sequence[VerificationKey]]
"""The keys that may have signed a token whose header names this key, or none."""


def judge_signed(rules: TokenRules, keys_of: KeysOf, text: str, now: float) -> Token:
    from jwt.api_jws import PyJWS
    from jwt.exceptions import PyJWTError

    header = _read_part("header", text.split(".")[0])
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenRefused(f"a token with the algorithm {str(algorithm)[:20]!r}")
    if key_id is not None and not isinstance(key_id, str):
        raise TokenRefused("a token whose header names no key that can be read")
    reason = f"no key {str(key_id)[:60]!r} is known, which the token names" if key_id else "no key fits the token"
    for key in keys_of(key_id):
        if key.algorithm not in (None, algorithm):
            continue
        try:
            found = PyJWS().decode_complete(text, key.public, algorithms=[algorithm])
        except (PyJWTError, TypeError, ValueError) as error:  # a TypeError: the key is for another algorithm
            reason = f"the token is not what one of the known keys has signed: {error}"
        else:
            return judge_claims(rules, _claims(found["payload"]), now)
    raise TokenRefused(reason)


def judge_unsigned(rules: TokenRules, text: str, now: float) -> Token:
    parts = text.split(".")
    if len(parts) != 3:
        raise TokenRefused(f"a token of {len(parts)} parts")
    algorithm = _read_part("header", parts[0]).get("alg")
    if algorithm != UNSIGNED or parts[2]:
        raise TokenRefused("a signed token, where unsigned ones are expected")
    return judge_claims(rules, _read_part("claims", parts[1]), now)


def judge_claims(rules: TokenRules, claims: Mapping[str, Any], now: float) -> Token:
    skew = rules.clock_skew_seconds
    expires_at = _time(claims, "exp")
    if expires_at is None:
        raise TokenRefused("a token without an end (exp)")
    if now - skew >= expires_at:
        raise TokenRefused(f"the token has expired {now - expires_at:.0f} s ago")
    issued_at, begins_at = _time(claims, "iat"), _time(claims, "nbf")
    if begins_at is not None and now + skew < begins_at:
        raise TokenRefused(f"the token is valid in {begins_at - now:.0f} s only")
    if issued_at is not None and issued_at > expires_at:
        raise TokenRefused("the token ends before it begins")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused(f"the token is issued by {str(claims.get('iss'))[:100]!r}, expected is {rules.issuer!r}")
    if rules.audiences and not set(rules.audiences) & set(_texts(claims.get("aud"))):
        expected = ", ".join(rules.audiences)
        raise TokenRefused(f"the token is for {str(claims.get('aud'))[:100]!r}, expected is {expected}")
    missing = rules.required_scopes - set(scopes_of(claims.get(rules.scope_claim)))
    if missing:
        wanted = " ".join(sorted(rules.required_scopes))
        raise TokenRefused(f"the token lacks the scope {', '.join(sorted(missing))}", "insufficient_scope", wanted)
    principal = claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise TokenRefused(f"the claim {rules.principal_claim!r} of the token names nobody")
    try:
        principal.encode()
    except UnicodeEncodeError:  # half a character, which JSON can write and nothing else
        raise TokenRefused(f"the claim {rules.principal_claim!r} of the token is no text") from None
    return Token(principal.strip(), round(expires_at * 1000))


def scopes_of(claim: object) -> list[str]:
    """One text with spaces between them, or a list."""
    return claim.split() if isinstance(claim, str) else _texts(claim)


def _texts(claim: object) -> list[str]:
    if isinstance(claim, str):
        return [claim]
    return [each for each in claim if isinstance(each, str)] if isinstance(claim, Collection) else []


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise TokenRefused(f"the claim {name} of the token is no time")
    return float(value)


def _read_part(name: str, text: str) -> Mapping[str, Any]:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRefused(f"the {name} of the token cannot be read") from None
    return _object(name, data)


def _claims(payload: bytes) -> Mapping[str, Any]:
    return _object("claims", payload)


def _object(name: str, data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefused(f"the {name} of the token cannot be read")
    return found
