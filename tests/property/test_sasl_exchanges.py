"""SASL exchanges under hostile input: nobody gets in without the password, and nothing but a refusal ever comes out."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.client import sasl
from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import SaslSettings
from moldau.security.authentication.exchange import LoginRefused
from moldau.security.authentication.plain import PlainExchange
from moldau.security.authentication.scram import ScramExchange, ScramUser, credential_of, salted, unescaped

MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
SALT = b"0123456789abcdef"
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
CREDENTIALS = {
    mechanism: credential_of(mechanism, SALT, 4096, salted(algorithm, "pencil", SALT, 4096))
    for mechanism, algorithm in MECHANISMS.items()
}


def random_bytes(count: int) -> bytes:
    return bytes(range(count))


def scram(mechanism: str, name: str = "user") -> ScramExchange:
    users = {name: ScramUser(CREDENTIALS[mechanism], name)}
    return ScramExchange(mechanism, lambda user, by_token: None if by_token else users.get(user), random_bytes)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(MECHANISMS)), NAMES)
def test_client_and_broker_agree_whatever_the_name(mechanism: str, name: str) -> None:
    exchange = scram(mechanism, name)
    client = sasl.exchange(SaslSettings(mechanism, name, "pencil"), random_bytes)
    message = next(client)
    while True:
        try:
            message = client.send(exchange.respond(message))
        except StopIteration:
            break
    assert exchange.identity is not None
    assert exchange.identity.name == name


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(MECHANISMS)), st.text(max_size=20).filter(lambda text: text != "pencil"))
def test_another_password_is_refused(mechanism: str, password: str) -> None:
    exchange = scram(mechanism)
    client = sasl.exchange(SaslSettings(mechanism, "user", password), random_bytes)
    final = client.send(exchange.respond(next(client)))
    with contextlib.suppress(LoginRefused):
        exchange.respond(final)
    assert exchange.identity is None


def first_and_final(mechanism: str) -> tuple[ScramExchange, bytes]:
    """An exchange after its first message, and the final message that it would accept."""
    exchange = scram(mechanism)
    client = sasl.exchange(SaslSettings(mechanism, "user", "pencil"), random_bytes)
    return exchange, client.send(exchange.respond(next(client)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_final_message_with_any_byte_changed_is_refused(data: st.DataObject) -> None:
    exchange, final = first_and_final("SCRAM-SHA-256")
    position = data.draw(st.integers(0, len(final) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != final[position]))
    changed = final[:position] + bytes([byte]) + final[position + 1 :]
    try:
        exchange.respond(changed)
    except LoginRefused:
        assert exchange.identity is None
    else:
        # Base64 leaves bits of the last character unused: the proof itself must be the same.
        assert proof_in(changed) == proof_in(final)


def proof_in(message: bytes) -> bytes:
    return base64.b64decode(message.rpartition(b",p=")[2])


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(MECHANISMS)), st.lists(st.binary(max_size=200) | st.text(max_size=100), max_size=4))
def test_garbage_is_refused_and_nothing_else(mechanism: str, messages: list[bytes | str]) -> None:
    for exchange in (scram(mechanism), PlainExchange({"user": "pencil"}.get)):
        for message in messages:
            with contextlib.suppress(LoginRefused):
                exchange.respond(message.encode() if isinstance(message, str) else message)
        assert exchange.identity is None


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["n,,", "y,,", "p=tls-unique,,", "n,a=user,", "n,a=other,", ""]),
    st.sampled_from(["n=user", "n=", "n=us=er", "n=us=2Cer", "m=x,n=user", ""]),
    st.sampled_from([",r=abc", ",r=", ",r=a,b", ",r=abc,tokenauth=true", ",r=abc,x=y", ""]),
)
def test_first_messages_are_accepted_or_refused(header: str, name: str, rest: str) -> None:
    exchange = scram("SCRAM-SHA-256")
    accepted = True
    try:
        answer = exchange.respond((header + name + rest).encode())
        assert answer.startswith(b"r=abc")
    except LoginRefused:
        accepted = False
    assert accepted == (header in ("n,,", "n,a=user,") and name == "n=user" and rest in (",r=abc", ",r=abc,x=y"))


def test_what_is_kept_of_a_first_message_is_bounded() -> None:
    scram("SCRAM-SHA-256").respond(b"n,,n=user,r=" + b"x" * 1000)
    with pytest.raises(LoginRefused, match="5000012 bytes"):
        scram("SCRAM-SHA-256").respond(b"n,,n=user,r=" + b"x" * 5_000_000)


def test_a_replayed_final_message_does_not_fit_a_new_exchange() -> None:
    _, final = first_and_final("SCRAM-SHA-256")
    users = {"user": ScramUser(CREDENTIALS["SCRAM-SHA-256"], "user")}
    later = ScramExchange("SCRAM-SHA-256", lambda user, by_token: users.get(user), lambda count: b"x" * count)
    client = sasl.exchange(SaslSettings("SCRAM-SHA-256", "user", "pencil"), random_bytes)
    later.respond(next(client))
    with pytest.raises(LoginRefused, match="nonce"):
        later.respond(final)
    assert later.identity is None


def test_a_broker_without_the_password_is_found_out() -> None:
    exchange = scram("SCRAM-SHA-256")
    client = sasl.exchange(SaslSettings("SCRAM-SHA-256", "user", "pencil"), random_bytes)
    client.send(exchange.respond(next(client)))
    with pytest.raises(AuthenticationFailed):
        client.send(b"v=" + base64.b64encode(b"x" * 32))


@given(NAMES)
def test_escaping_goes_there_and_back(name: str) -> None:
    assert unescaped(sasl.escape(name)) == name
