"""SASL GSSAPI (RFC 4752): Kerberos. After the tickets were checked the broker offers a security layer, of which it
knows none, and the client takes it.

client     tokens of the Kerberos library, answered until both sides know each other
broker     wrapped: one byte with the layers that are offered (1: none), three with a size
client     wrapped: the layer, a size, [whom to act as: who the ticket names it is, as with Kafka, whatever stands here]

And the rules that make a user of a principal (`sasl.kerberos.principal.to.local.rules`), as Hadoop writes them:
DEFAULT, RULE:[<parts>:<format>](<regex>)s/<from>/<to>/g with /L or /U behind it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from moldau.security.authentication.exchange import Exchange, Identity, LoginRefused, NotYet

NO_LAYER: Final = 1
OFFER: Final = bytes((NO_LAYER, 0, 0, 0))

_PRINCIPAL = re.compile(r"([^/@]+)(?:/([^/@]+))?@([^/@]+)")
_RULE = re.compile(
    r"RULE:\[(\d+):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU])?|(DEFAULT)", re.IGNORECASE
)


class TicketError(Exception):
    """What the Kerberos library says of a token."""


class Context(Protocol):
    """The library's side of one conversation; all of them raise TicketError."""

    @property
    def principal(self) -> str | None:
        """Who the client is, once that is known."""
        ...

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


RunBlocking = Callable[[Callable[[], bytes | LoginRefused]], Awaitable[bytes | LoginRefused]]


class Elsewhere:
    """Answers from a thread, one after the other: the library reads the key table and computes, and whoever does so on
    an event loop keeps everybody waiting. Implements Exchange."""

    __slots__ = ("_answer", "_begin", "_exchange", "_run_blocking", "identity")

    def __init__(self, begin: Callable[[], Exchange], run_blocking: RunBlocking) -> None:
        self._begin = begin
        self._run_blocking = run_blocking
        self._exchange: Exchange | None = None
        self._answer: bytes | LoginRefused | None = None
        self.identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        answer, self._answer = self._answer, None
        if answer is None:
            raise NotYet(lambda: self._find(token))
        if isinstance(answer, LoginRefused):
            raise answer
        self.identity = None if self._exchange is None else self._exchange.identity
        return answer

    async def _find(self, token: bytes) -> None:
        self._answer = await self._run_blocking(lambda: self._respond(token))

    def _respond(self, token: bytes) -> bytes | LoginRefused:
        try:
            if self._exchange is None:
                self._exchange = self._begin()
            return self._exchange.respond(token)
        except LoginRefused as refusal:
            return LoginRefused(refusal.reason, refusal.told)


class BadRuleError(ValueError):
    """A rule that cannot be read."""


class KerberosExchange:
    __slots__ = ("_context", "_offered", "_user_of", "identity")

    def __init__(self, begin: Callable[[], Context], user_of: Callable[[str], str | None]) -> None:
        try:
            self._context: Context | TicketError = begin()
        except TicketError as error:  # the key table: told at the first message
            self._context = error
        self._user_of = user_of
        self._offered = False
        self.identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        if isinstance(self._context, TicketError):
            raise LoginRefused(str(self._context))
        if self.identity is not None:
            raise LoginRefused("a GSSAPI message after the last one")
        try:
            if self._context.principal is None:
                answer = self._context.step(token)
                return answer or self._offer()
            if not self._offered:
                if token:
                    raise LoginRefused("a GSSAPI token after the last one")
                return self._offer()
            return self._finish(self._context.unwrap(token))
        except TicketError as error:
            raise LoginRefused(str(error)) from None

    def _offer(self) -> bytes:
        assert not isinstance(self._context, TicketError)
        if self._context.principal is None:
            return b""
        self._offered = True
        return self._context.wrap(OFFER)

    def _finish(self, chosen: bytes) -> bytes:
        assert not isinstance(self._context, TicketError)
        principal = self._context.principal or ""
        if len(chosen) < len(OFFER) or chosen[0] != NO_LAYER:
            raise LoginRefused(f"{principal} chose a security layer that was not offered")
        user = self._user_of(principal)
        if user is None:
            raise LoginRefused(f"no rule of sasl.kerberos.principal.to.local.rules makes a user of {principal}")
        self.identity = Identity(user)
        return b""


def user_mapping(rules: Sequence[str], realm: str) -> Callable[[str], str | None]:
    """Gives the user that a principal is; None where no rule fits. Raises BadRuleError."""
    parsed = [_parsed(rule.strip()) for rule in rules if rule.strip()]

    def user_of(principal: str) -> str | None:
        match = _PRINCIPAL.fullmatch(principal)
        if match is None:
            return None
        first, second, own_realm = match.groups()
        parts = [own_realm, first] if second is None else [own_realm, first, second]
        return next((user for rule in parsed if (user := _applied(rule, parts, realm)) is not None), None)

    return user_of


def _parsed(rule: str) -> re.Match[str]:
    match = _RULE.fullmatch(rule)
    if match is None:
        raise BadRuleError(f"Invalid rule: {rule}")
    try:
        for expression in (match[3], match[4]):
            re.compile(expression or "")
    except re.error as error:
        raise BadRuleError(f"Invalid rule: {rule}: {error}") from None
    return match


def _applied(rule: re.Match[str], parts: Sequence[str], realm: str) -> str | None:
    if rule[8]:
        return parts[1] if parts[0] == realm else None
    if len(parts) - 1 != int(rule[1]):
        return None
    base = re.sub(r"\$(\d)", lambda found: parts[int(found[1])] if int(found[1]) < len(parts) else "", rule[2])
    if rule[3] is not None and not re.fullmatch(rule[3], base):
        return None
    if rule[4] is not None:
        replacement = re.sub(r"\$(\d)", r"\\\1", rule[5] or "")
        base = re.sub(rule[4], replacement, base, count=0 if rule[6] else 1)
    if not base or re.search(r"[/@]", base):
        return None
    return {"L": base.lower(), "U": base.upper()}.get((rule[7] or "").upper(), base)
