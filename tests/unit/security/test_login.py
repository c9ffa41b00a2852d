"""The states of a connection that logs in: what is allowed when, and how a login ends."""

from __future__ import annotations

import pytest

from moldau.security.authentication.exchange import Identity, LoginRefused
from moldau.security.authentication.login import Login, LoginRules, OutOfTurn, State
from moldau.security.authentication.plain import PlainExchange

PASSWORDS = {"alice": "wonder", "bob": "builder"}
ANOTHER_ID = "Authentication failed: Client requested an authorization id that is different from username"
ALICE = b"\0alice\0wonder"


class Ending:
    """A mechanism whose credential ends at some time."""

    def __init__(self, ends_at_ms: int) -> None:
        self.ends_at_ms = ends_at_ms
        self.identity: Identity | None = None

    def respond(self, token: bytes) -> bytes:
        self.identity = Identity(token.decode(), self.ends_at_ms)
        return b"welcome"


def rules(**sessions: int) -> LoginRules:
    mechanisms = {"PLAIN": lambda: PlainExchange(PASSWORDS.get), "ENDING": lambda: Ending(5_000)}
    return LoginRules(mechanisms, sessions)


def logged_in(login: Login, token: bytes = ALICE, mechanism: str = "PLAIN", now: float = 0.0) -> Login:
    login.handshake(mechanism, 1)
    login.authenticate(token, now, 0)
    return login


def test_a_login_goes_through_its_states() -> None:
    login = Login(rules())
    assert login.state is State.ACCEPTED
    login.ask_versions()
    login.versions_told()
    assert login.state is State.HANDSHAKING
    assert login.handshake("PLAIN", 1)
    assert (login.state, login.bare_tokens) == (State.AUTHENTICATING, False)
    progress = login.authenticate(ALICE, 0.0, 0)
    assert progress.identity is not None
    assert (progress.identity.principal, progress.session_ms, progress.token) == ("User:alice", 0, b"")
    assert login.state is State.AUTHENTICATED
    assert not login.ends
    assert not login.has_expired(1e9)
    assert not login.begins_again(1e9)


def test_versions_are_asked_once_and_first() -> None:
    login = Login(rules())
    login.ask_versions()
    login.versions_told()
    with pytest.raises(OutOfTurn):
        login.ask_versions()
    assert login.state is State.FAILED


def test_a_token_without_a_handshake_is_out_of_turn() -> None:
    login = Login(rules())
    with pytest.raises(OutOfTurn):
        login.authenticate(ALICE, 0.0, 0)
    with pytest.raises(OutOfTurn):
        login.handshake("PLAIN", 1)


def test_a_second_handshake_is_out_of_turn() -> None:
    login = Login(rules())
    login.handshake("PLAIN", 1)
    with pytest.raises(OutOfTurn):
        login.handshake("PLAIN", 1)


def test_a_mechanism_that_is_not_offered_fails() -> None:
    login = Login(rules())
    assert not login.handshake("GSSAPI", 1)
    assert login.state is State.FAILED


def test_a_handshake_of_version_0_is_followed_by_bare_tokens() -> None:
    login = Login(rules())
    login.handshake("PLAIN", 0)
    assert login.bare_tokens
    login.authenticate(ALICE, 0.0, 0)
    assert not login.bare_tokens


@pytest.mark.parametrize(
    ("token", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wonder", "Authentication failed: Invalid username or password"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"alice\0wonder", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonder\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"bob\0alice\0wonder", ANOTHER_ID),
        (b"\xff\xfe", None),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)  # fmt: skip
def test_a_plain_token_that_is_refused_ends_the_login(token: bytes, told: str | None) -> None:
    login = Login(rules())
    login.handshake("PLAIN", 1)
    with pytest.raises(LoginRefused) as refused:
        login.authenticate(token, 0.0, 0)
    assert refused.value.told == told
    assert login.state is State.FAILED
    with pytest.raises(OutOfTurn):
        login.authenticate(ALICE, 0.0, 0)


def test_nothing_secret_is_in_the_reason() -> None:
    login = Login(rules())
    login.handshake("PLAIN", 1)
    with pytest.raises(LoginRefused) as refused:
        login.authenticate(b"\0alice\0mistyped", 0.0, 0)
    assert "mistyped" not in refused.value.reason
    assert "wonder" not in refused.value.reason


def test_a_session_ends_and_can_begin_again() -> None:
    login = logged_in(Login(rules(PLAIN=10_000)))
    assert login.ends
    assert not login.has_expired(9.9)
    assert login.begins_again(9.9)
    assert login.state is State.HANDSHAKING
    assert login.again == "re-authentication"
    logged_in(login, now=9.9)
    assert not login.has_expired(19.8)
    assert login.has_expired(19.9)
    assert login.state is State.EXPIRED


def test_whoever_begins_again_too_often_is_not_heard() -> None:
    login = logged_in(Login(rules(PLAIN=10_000)))
    assert login.begins_again(2.0)
    logged_in(login, now=2.0)
    assert not login.begins_again(2.9)
    assert login.begins_again(3.1)


def test_neither_user_nor_mechanism_changes_while_a_session_lasts() -> None:
    login = logged_in(Login(rules(PLAIN=10_000)))
    login.begins_again(2.0)
    login.handshake("PLAIN", 1)
    with pytest.raises(LoginRefused) as refused:
        login.authenticate(b"\0bob\0builder", 2.0, 0)
    assert refused.value.told == "Cannot change principals during re-authentication from User:alice: User:bob"

    login = logged_in(Login(rules(PLAIN=10_000, ENDING=10_000)))
    login.begins_again(2.0)
    assert login.handshake("ENDING", 1)
    with pytest.raises(LoginRefused) as refused:
        login.authenticate(b"alice", 2.0, 0)
    assert refused.value.told == "Cannot change SASL mechanism during re-authentication from 'PLAIN' to 'ENDING'"


@pytest.mark.parametrize(("longest", "expected"), [(0, 4_000), (3_000, 3_000), (60_000, 4_000)])
def test_a_session_is_no_longer_than_its_credential(longest: int, expected: int) -> None:
    login = Login(rules(ENDING=longest))
    login.handshake("ENDING", 1)
    progress = login.authenticate(b"alice", 100.0, 1_000)
    assert progress.session_ms == expected
    assert login.has_expired(100.0 + expected / 1000)
    assert Login(rules()).has_expired(0.0) is False
