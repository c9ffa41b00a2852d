"""`moldau security token` against a broker that asks who is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moldau.client.connection import Connection
from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import ClientSettings, SaslSettings, parse_address
from tests.support.command import Ran, run
from tests.support.locked import LockedBroker

By = Callable[..., Ran]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    settings = {"delegation.token.secret.key": "one key"}
    with LockedBroker(tmp_path_factory.mktemp("tokens"), ("alice", "bob"), settings) as broker:
        yield broker
        assert "Traceback" not in broker.output(), broker.output()


@pytest.fixture
def by(locked: LockedBroker) -> By:
    def call(user: str, *arguments: object, stdin: str = "") -> Ran:
        login = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-secret",
        }
        options = [part for each in login.items() for part in ("-X", "=".join(each))]
        environment = {"MOLDAU_BOOTSTRAP_SERVERS": locked.login_address}
        return run("security", "token", *arguments, *options, stdin=stdin, environment=environment)

    return call


def lets_in(locked: LockedBroker, token: str, secret: str) -> bool:
    address = parse_address(locked.login_address)
    login = SaslSettings("SCRAM-SHA-256", token, secret, by_token=True)
    try:
        Connection(address, ClientSettings((address,), sasl=login)).close()
    except AuthenticationFailed:
        return False
    return True


def test_a_token_from_its_making_to_its_end(locked: LockedBroker, by: By) -> None:
    assert by("alice", "create", "--renewer", "bob", "--dry-run").out == (
        "would create a token of your own user, which User:bob may renew\n"
    )
    assert by("alice", "list", "-o", "json").document == []
    made = by("alice", "create", "--renewer", "bob", "--lifetime", "2d", "-o", "json").document
    token, secret = made["token"], made.pop("secret")
    assert made["owner"] == made["requester"] == "User:alice" and made["renewers"] == ["User:bob"]
    assert made["ends_ms"] - made["issued_ms"] == 2 * 86_400_000
    assert lets_in(locked, token, secret)

    listed = by("alice", "list", "-o", "json")
    assert listed.document == [made] and secret not in listed.out
    assert by("bob", "list", "--owner", "alice", "--secrets", "-o", "json").document == [made | {"secret": secret}]
    assert secret not in by("alice", "list").out and token in by("alice", "list").out

    assert f"would renew token {token} of User:alice" in by("bob", "renew", token, "--dry-run").out
    assert by("bob", "renew", token, "--for", "36h").out.startswith(f"token {token} of User:alice holds until 2")
    (renewed,) = by("bob", "list", "-o", "json").document
    assert renewed["expires_ms"] > made["expires_ms"]

    assert by("alice", "expire", token, "--dry-run").out == f"would end token {token} of User:alice at once\n"
    assert by("alice", "expire", token, stdin="n\n").code != 0
    assert by("alice", "list", "-o", "json").document != []
    assert by("alice", "expire", token, "--yes").out == f"token {token} of User:alice has ended\n"
    assert by("alice", "list", "-o", "json").document == []
    assert not lets_in(locked, token, secret)


def test_what_cannot_be_done_is_told(locked: LockedBroker, by: By) -> None:
    assert by("alice", "renew", "nothing").complaint.startswith("token 'nothing' does not exist")
    assert "is no duration" in by("alice", "create", "--lifetime", "long").complaint
    assert "may not do this" in by("alice", "create", "--owner", "bob").complaint
    open_listener = {"MOLDAU_BOOTSTRAP_SERVERS": locked.address}
    assert "log in first" in run("security", "token", "create", environment=open_listener).complaint
