"""The users of a password file."""

from __future__ import annotations

import pytest

from moldau.web import passwords
from moldau.web.passwords import Users, hash_password, read_user


def users() -> Users:
    line = f"alice: {hash_password('secret', b'salt')},read"
    return Users({"alice": read_user(line, "here")})


def test_who_is_there_is_known_by_the_password() -> None:
    those = users()
    assert those.known("alice", "secret") is None, "nobody has checked it yet"
    found = those.check("alice", "secret")
    assert found is not None and found == those.known("alice", "secret")
    assert those.check("alice", "wrong") is None
    assert those.known("alice", "wrong") is None
    assert Users({}).check("alice", "secret") is None


@pytest.mark.parametrize("password", ["secret", "wrong"])
def test_who_is_not_there_is_answered_no_sooner(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    """Else the time of a refusal would tell which names there are."""
    costs: list[tuple[int, ...]] = []

    def counted(text: str, salt: bytes, *cost: int) -> bytes:
        costs.append(cost)
        return slow(text, salt, *cost)

    slow, those = passwords.scrypt, users()
    monkeypatch.setattr(passwords, "scrypt", counted)
    assert those.check("alice", "wrong") is None
    assert those.check("bob", password) is None, "though it may be the password of another"
    assert those.known("bob", password) is None
    of_alice, of_bob = costs
    assert of_alice == of_bob
