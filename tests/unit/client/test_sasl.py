"""The exchanges that prove who we are, against the examples of their standards."""

import base64

import pytest

from moldau.client import sasl
from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import SaslSettings

PENCIL = SaslSettings("SCRAM-SHA-256", "user", "pencil")
# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_plain() -> None:
    exchange = sasl.exchange(SaslSettings("PLAIN", "alice", "sécret"), lambda size: b"")
    assert next(exchange) == b"\0alice\0" + "sécret".encode()
    with pytest.raises(StopIteration):
        exchange.send(b"")


def test_scram_speaks_the_example_of_its_standard() -> None:
    exchange = sasl.scram(PENCIL, "sha256", NONCE)
    assert next(exchange) == f"n,,n=user,r={NONCE}".encode()
    assert exchange.send(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL.encode())


def test_a_broker_that_does_not_know_the_password_is_not_believed() -> None:
    exchange = sasl.scram(PENCIL, "sha256", NONCE)
    next(exchange)
    exchange.send(SERVER_FIRST.encode())
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        exchange.send(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("server_first", "problem"),
    [
        ("r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "iterations"),
    ],
)
def test_weak_or_foreign_challenges_are_refused(server_first: str, problem: str) -> None:
    exchange = sasl.scram(PENCIL, "sha256", NONCE)
    next(exchange)
    with pytest.raises(AuthenticationFailed, match=problem):
        exchange.send(server_first.encode())


def test_names_with_separators_are_escaped() -> None:
    assert next(sasl.scram(SaslSettings("SCRAM-SHA-512", "a=b,c", "x"), "sha512", "n")) == b"n,,n=a=3Db=2Cc,r=n"


class Scripted:
    """A conversation in which every message is told apart by a letter in front."""

    def __init__(self, tokens: int) -> None:
        self._left = tokens

    @property
    def complete(self) -> bool:
        return self._left == 0

    def step(self, token: bytes) -> bytes:
        self._left -= 1
        return b"" if self.complete else b"ticket after " + token

    def wrap(self, message: bytes) -> bytes:
        return b"w" + message

    def unwrap(self, message: bytes) -> bytes:
        return message.removeprefix(b"w")


def test_kerberos_takes_no_security_layer_and_acts_for_nobody_else() -> None:
    exchange = sasl.kerberos(Scripted(2))
    assert next(exchange) == b"ticket after "
    assert exchange.send(b"proof of the broker") == b""
    assert exchange.send(b"w" + bytes((7, 0, 1, 0))) == b"w" + bytes((1, 0, 0, 0))
    with pytest.raises(StopIteration):
        exchange.send(b"")


@pytest.mark.parametrize("offer", [bytes((6, 0, 1, 0)), b"", b"\1"])
def test_a_broker_that_wants_a_security_layer_is_told_to_use_tls(offer: bytes) -> None:
    exchange = sasl.kerberos(Scripted(1))
    assert next(exchange) == b""
    with pytest.raises(AuthenticationFailed, match="use SASL_SSL"):
        exchange.send(b"w" + offer)
