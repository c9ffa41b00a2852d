"""SASL OAUTHBEARER (RFC 7628): the client shows a token, which somebody that the broker trusts has given to it.

client     n,[a=<authorization>],^A auth=Bearer <token>^A [<key>=<value>^A ...] ^A
broker     nothing; or {"status":"invalid_token"}, to which the client answers ^A and is refused
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from moldau.security.authentication.exchange import Identity, LoginRefused
from moldau.security.authentication.scram import unescaped
from moldau.security.authentication.tokens import Judge, TokenRefused

ACKNOWLEDGED: Final = b"\x01"

_NAME = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_INITIAL = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:{_PAIR})+)\x01")
_BEARER = re.compile(r"bearer +([-_.a-zA-Z0-9]+)", re.IGNORECASE)


class OauthExchange:
    __slots__ = ("_judge", "_refused", "_seconds", "identity")

    def __init__(self, judge: Judge, seconds: Callable[[], float]) -> None:
        self._judge = judge
        self._seconds = seconds
        self._refused: tuple[str, str] | None = None
        self.identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        if self._refused is not None:
            raise LoginRefused(*self._refused)
        if self.identity is not None:
            raise LoginRefused("an OAUTHBEARER message after the last one")
        authorization, text = read_initial(token)
        try:
            found = self._judge(text, self._seconds())
        except TokenRefused as refusal:
            answer = {"status": refusal.status} | ({"scope": refusal.scope} if refusal.scope else {})
            told = json.dumps(answer, separators=(",", ":"))
            # Not the error itself, which holds on to the token: the client may take its time.
            self._refused = (refusal.reason, told)
            return told.encode()
        if authorization and authorization != found.principal:
            told = (
                f"Authentication failed: Client requested an authorization id ({authorization}) that is different "
                f"from the token's principal name ({found.principal})"
            )
            raise LoginRefused(f"user {found.principal!r} asked to act as {authorization!r}", told)
        self.identity = Identity(found.principal, found.expires_at_ms)
        return b""


def read_initial(message: bytes) -> tuple[str, str]:
    """Whom the client wants to act as, if anybody, and its token."""
    try:
        match = _INITIAL.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise LoginRefused("no first OAUTHBEARER message")
    pairs = dict(pair.split("=", 1) for pair in match[2].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise LoginRefused("no bearer token in the first OAUTHBEARER message")
    return unescaped(match[1] or ""), bearer[1]
