"""GSSAPI: the steps after the tickets, and the rules that make a user of a principal."""

from __future__ import annotations

import asyncio
import threading

import pytest

from moldau.security.authentication.exchange import LoginRefused, NotYet
from moldau.security.authentication.kerberos import (
    OFFER,
    BadRuleError,
    Elsewhere,
    KerberosExchange,
    TicketError,
    user_mapping,
)
from tests.support.loops import on_loop


class Library:
    """Takes `steps` tokens until it knows the client; what is wrapped stands in brackets."""

    def __init__(self, steps: int = 2, last: bytes = b"last") -> None:
        self.left, self.last = steps, last
        self.principal: str | None = None

    def step(self, token: bytes) -> bytes:
        if token != b"ticket":
            raise TicketError("a ticket for somebody else")
        self.left -= 1
        if self.left == 0:
            self.principal = "alice@EXAMPLE.COM"
            return self.last
        return b"more"

    def wrap(self, message: bytes) -> bytes:
        return b"[" + message + b"]"

    def unwrap(self, message: bytes) -> bytes:
        if message[:1] != b"[":
            raise TicketError("no wrapped message")
        return message[1:-1]


OFFERED = b"[" + OFFER + b"]"


def exchange(library: Library) -> KerberosExchange:
    return KerberosExchange(lambda: library, user_mapping(["DEFAULT"], "EXAMPLE.COM"))


def test_a_login_with_a_last_token_of_the_library_and_without() -> None:
    with_token = exchange(Library())
    assert [with_token.respond(token) for token in (b"ticket", b"ticket", b"")] == [b"more", b"last", OFFERED]
    without = exchange(Library(1, b""))
    assert without.respond(b"ticket") == OFFERED
    for one in (with_token, without):
        assert one.identity is None
        assert one.respond(b"[\x01\0\0\0somebody else]") == b""
        assert one.identity is not None
        assert one.identity.principal == "User:alice"
        with pytest.raises(LoginRefused):
            one.respond(b"")


@on_loop
async def test_the_library_is_at_work_in_threads_alone() -> None:
    threads: list[int] = []

    class Watched(Library):
        def __init__(self) -> None:
            super().__init__()
            threads.append(threading.get_ident())

        def step(self, token: bytes) -> bytes:
            threads.append(threading.get_ident())
            return super().step(token)

    rules = user_mapping(["DEFAULT"], "EXAMPLE.COM")
    one = Elsewhere(lambda: KerberosExchange(Watched, rules), asyncio.to_thread)
    answers = [await answered(one, token) for token in (b"ticket", b"ticket", b"", b"[\x01\0\0\0]")]
    assert answers == [b"more", b"last", OFFERED, b""]
    assert one.identity is not None
    assert one.identity.principal == "User:alice"
    assert len(threads) == 3
    assert threading.get_ident() not in threads


@on_loop
async def test_a_refusal_comes_back_from_the_thread() -> None:
    def no_key_table() -> Library:
        raise TicketError("no key table")

    for begin, reason in ((Library, "somebody else"), (no_key_table, "no key table")):
        one = Elsewhere(lambda begin=begin: KerberosExchange(begin, lambda _: None), asyncio.to_thread)  # type: ignore[misc]
        with pytest.raises(LoginRefused, match=reason):
            await answered(one, b"stolen")
        assert one.identity is None


async def answered(one: Elsewhere, token: bytes) -> bytes:
    """As the gate does it."""
    with pytest.raises(NotYet) as wait:
        one.respond(token)
    await wait.value.begin()
    return one.respond(token)


@pytest.mark.parametrize(
    "tokens",
    [
        [b"stolen"],
        [b""],
        [b"ticket", b"ticket", b"ticket"],
        [b"ticket", b"ticket", b"", b"\x01\0\0\0"],
        [b"ticket", b"ticket", b"", b"[\x02\0\0\0]"],
        [b"ticket", b"ticket", b"", b"[\x01]"],
    ],
)
def test_what_is_out_of_order_lets_nobody_in(tokens: list[bytes]) -> None:
    one = exchange(Library())
    for token in tokens[:-1]:
        one.respond(token)
    with pytest.raises(LoginRefused):
        one.respond(tokens[-1])
    assert one.identity is None


def test_a_key_table_that_cannot_be_used_is_told_at_the_first_message() -> None:
    def broken() -> Library:
        raise TicketError("keyTab /x: no key")

    one = KerberosExchange(broken, lambda principal: principal)
    with pytest.raises(LoginRefused, match="keyTab /x"):
        one.respond(b"ticket")


RULES = [
    "RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g",
    "RULE:[2:$1]",
    "RULE:[1:$1@$0](.*@OTHER\\.COM)s/@.*///L",
    "RULE:[1:$1@$0](.*@UPPER\\.COM)s/@.*//U",
    "DEFAULT",
]


@pytest.mark.parametrize(
    ("principal", "user"),
    [
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
        ("Alice@OTHER.COM", "alice"),
        ("Alice@UPPER.COM", "ALICE"),
        ("alice@EXAMPLE.COM", "alice"),
        ("alice@STRANGE.COM", None),
        ("alice", None),
        ("a/b/c@EXAMPLE.COM", None),
        ("", None),
    ],
)
def test_the_first_rule_that_fits_makes_the_user(principal: str, user: str | None) -> None:
    assert user_mapping(RULES, "EXAMPLE.COM")(principal) == user


@pytest.mark.parametrize("rule", ["RULE:", "RULE:[x:$1]", "default rule", "RULE:[1:$1](()", "RULE:[1:$1]s/(/x/"])
def test_a_rule_that_cannot_be_read_is_refused(rule: str) -> None:
    with pytest.raises(BadRuleError, match="Invalid rule"):
        user_mapping([rule], "EXAMPLE.COM")


def test_what_a_rule_makes_has_no_realm_left() -> None:
    assert user_mapping(["RULE:[1:$1@$0]"], "EXAMPLE.COM")("alice@EXAMPLE.COM") is None
