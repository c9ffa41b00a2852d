"""Delegation tokens: made, renewed, used and ended, over our own client and Kafka's."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.cli.kafka.connecting import close_all
from moldau.cli.kafka.entry import run
from moldau.client.connection import Connection
from moldau.client.errors import AuthenticationFailed, ConnectionLost
from moldau.client.settings import Address, ClientSettings, SaslSettings
from moldau.types.acls import Operation, Pattern, Permission, Resource
from moldau.types.errors import ErrorCode
from moldau.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from moldau.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from moldau.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from tests.peers.apache_kafka import TOOLS, java_tool
from tests.support.broker import Broker
from tests.support.names import own_name
from tests.support.process import free_port
from tests.support.waiting import wait_until

DAY_MS = 86_400_000
USERS = " ".join(f"user_{name}={name}-secret" for name in ("admin", "alice", "bob", "carol", "dave"))


class Tokens:
    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.settings: dict[str, object] = {
            "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.client.plain.sasl.jaas.config": f"PlainLoginModule required {USERS};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:ANONYMOUS",
            "connection.failed.authentication.delay.ms": 10,
            "delegation.token.secret.key": "the key of all brokers",
            "delegation.token.expiry.check.interval.ms": 100,
        }
        self.broker = Broker(folder / "broker", self.settings)

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port)

    def login(self, sasl: SaslSettings) -> Connection:
        return Connection(self.address, ClientSettings((self.address,), sasl=sasl))

    def user(self, name: str) -> Connection:
        return self.login(SaslSettings("PLAIN", name, f"{name}-secret"))

    def by_token(self, made: CreateDelegationTokenResponse, mechanism: str = "SCRAM-SHA-512") -> Connection:
        secret = base64.b64encode(made.hmac).decode()
        return self.login(SaslSettings(mechanism, made.token_id, secret, by_token=True))

    def file(self, name: str) -> Path:
        file = self.folder / f"{name}.properties"
        module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        file.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} username="{name}" password="{name}-secret";\n'
        )
        return file


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokens]:
    made = Tokens(tmp_path_factory.mktemp("tokens"))
    made.broker.start()
    yield made
    close_all()
    assert made.broker.stop() == 0, made.broker.output()
    assert "Traceback" not in made.broker.output(), made.broker.output()


def create(
    connection: Connection, lifetime_ms: int = -1, renewers: tuple[str, ...] = (), owner: str | None = None
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else None,
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type="User", principal_name=name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    return connection.call(request, CreateDelegationTokenResponse)


def renew(connection: Connection, secret: bytes, period_ms: int = -1) -> RenewDelegationTokenResponse:
    request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
    return connection.call(request, RenewDelegationTokenResponse)


def expire(connection: Connection, secret: bytes, period_ms: int = -1) -> ExpireDelegationTokenResponse:
    request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
    return connection.call(request, ExpireDelegationTokenResponse)


def described(connection: Connection, *owners: str, everybody: bool = False) -> list[str]:
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    request = DescribeDelegationTokenRequest(owners=None if everybody else named)
    answer = connection.call(request, DescribeDelegationTokenResponse)
    assert answer.error_code == 0
    return [token.token_id for token in answer.tokens]


def lets_in(tokens: Tokens, made: CreateDelegationTokenResponse) -> bool:
    try:
        tokens.by_token(made).close()
    except AuthenticationFailed:
        return False
    return True


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_stands_for_its_owner_also_after_a_crash(tokens: Tokens, mechanism: str) -> None:
    with tokens.user("alice") as alice:
        made = create(alice, renewers=("bob",))
    assert (made.error_code, made.principal_type, made.principal_name) == (0, "User", "alice")
    assert made.max_timestamp_ms - made.issue_timestamp_ms == 7 * DAY_MS
    assert made.expiry_timestamp_ms - made.issue_timestamp_ms == DAY_MS
    tokens.broker.kill()
    tokens.broker.start()
    with tokens.by_token(made, mechanism) as delegate:
        assert delegate.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id
        # Who came with a token has no business with tokens.
        refused = {create(delegate).error_code, renew(delegate, bytes(made.hmac)).error_code}
        refused |= {expire(delegate, bytes(made.hmac)).error_code}
        answer = delegate.call(DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse)
        assert refused | {answer.error_code} == {ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}


def test_a_wrong_secret_or_an_unknown_token_lets_nobody_in(tokens: Tokens) -> None:
    with tokens.user("alice") as alice:
        made = create(alice)
    secret = base64.b64encode(made.hmac).decode()
    for name, password, by_token in (
        (made.token_id, secret[:-4] + "AAA=", True),
        (made.token_id, secret, False),
        ("alice", secret, True),
        ("alice", "alice-secret", True),
        ("no-such-token", secret, True),
    ):
        with pytest.raises(AuthenticationFailed):
            tokens.login(SaslSettings("SCRAM-SHA-256", name, password, by_token=by_token))


def test_owner_and_renewers_renew_and_nobody_else(tokens: Tokens) -> None:
    with tokens.user("alice") as alice, tokens.user("bob") as bob, tokens.user("carol") as carol:
        made = create(alice, 10 * DAY_MS, ("bob",))
        assert made.max_timestamp_ms - made.issue_timestamp_ms == 7 * DAY_MS
        secret = bytes(made.hmac)
        assert renew(carol, secret).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert expire(carol, secret).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert renew(bob, secret + b"x").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        assert expire(bob, b"").error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        before = time.time_ns() // 1_000_000
        renewed = renew(bob, secret, 3_600_000)
        assert renewed.error_code == 0
        assert 0 <= renewed.expiry_timestamp_ms - before - 3_600_000 < 60_000
        sooner = expire(alice, secret, 60_000)
        assert 0 <= sooner.expiry_timestamp_ms - before - 60_000 < 60_000
        assert lets_in(tokens, made)
        assert expire(alice, secret).error_code == 0
        assert not lets_in(tokens, made)
        assert renew(alice, secret).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_renewal_never_goes_beyond_the_end(tokens: Tokens) -> None:
    with tokens.user("alice") as alice:
        made = create(alice, 60_000)
        assert made.expiry_timestamp_ms == made.max_timestamp_ms
        assert renew(alice, bytes(made.hmac), DAY_MS).expiry_timestamp_ms == made.max_timestamp_ms


def test_an_expired_token_ends_its_sessions_and_is_removed(tokens: Tokens) -> None:
    with tokens.user("alice") as alice:
        made = create(alice, 1_500)
        with tokens.by_token(made) as delegate:
            assert made.token_id in described(alice, "alice")

            def is_cut_off() -> bool:
                try:
                    delegate.call(MetadataRequest(topics=[]), MetadataResponse)
                except ConnectionLost:
                    return True
                return False

            wait_until(is_cut_off, "the session ends with the token")
        assert not lets_in(tokens, made)
        wait_until(lambda: made.token_id not in described(alice, "alice"), "the token is removed")


def test_tokens_are_shown_to_owner_renewer_and_who_may_describe_them(tokens: Tokens) -> None:
    with tokens.user("alice") as alice, tokens.user("bob") as bob, tokens.user("carol") as carol:
        made = create(alice, renewers=("bob",)).token_id
        assert made in described(alice, everybody=True)
        assert made in described(bob, "alice")
        assert made in described(bob, "bob")
        assert made not in described(alice, "carol")
        assert described(alice) == []
        assert described(carol, everybody=True) == []
    with tokens.user("admin") as admin:
        assert made in described(admin, "alice")


def test_who_may_makes_tokens_for_others(tokens: Tokens) -> None:
    with tokens.user("bob") as bob, tokens.user("admin") as admin:
        assert create(bob, owner="alice").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        made = create(admin, owner="alice")
        assert (made.principal_name, made.token_requester_principal_name) == ("alice", "admin")
        odd = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type="Group", principal_name="x")], max_lifetime_ms=-1
        )
        assert admin.call(odd, CreateDelegationTokenResponse).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert lets_in(tokens, made)


@contextmanager
def granted(tokens: Tokens, user: str, operation: Operation, resource: Resource, name: str) -> Iterator[None]:
    """By somebody else's rule, not as a super user."""
    rule = AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=Pattern.LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )
    same = DeleteAclsFilter(
        resource_type_filter=resource,
        resource_name_filter=name,
        pattern_type_filter=Pattern.LITERAL,
        principal_filter=f"User:{user}",
        host_filter="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    )
    with tokens.user("admin") as admin:
        (made,) = admin.call(CreateAclsRequest(creations=[rule]), CreateAclsResponse).results
        assert made.error_code == 0
        yield
        (removed,) = admin.call(DeleteAclsRequest(filters=[same]), DeleteAclsResponse).filter_results
        assert [each.resource_name for each in removed.matching_acls] == [name]


def test_the_right_to_make_tokens_is_that_for_one_user(tokens: Tokens) -> None:
    with tokens.user("dave") as dave:
        with granted(tokens, "dave", Operation.CREATE_TOKENS, Resource.USER, "User:alice"):
            made = create(dave, owner="alice")
            assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (0, "alice", "dave")
            assert create(dave, owner="bob").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        for wrong in (Operation.DESCRIBE_TOKENS, Operation.CREATE_TOKENS):
            name = "User:alice" if wrong is Operation.DESCRIBE_TOKENS else "alice"
            with granted(tokens, "dave", wrong, Resource.USER, name):
                assert create(dave, owner="alice").error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert lets_in(tokens, made)


def test_who_has_asked_for_a_token_sees_it_and_does_not_change_it(tokens: Tokens) -> None:
    with tokens.user("dave") as dave, tokens.user("alice") as alice:
        with granted(tokens, "dave", Operation.CREATE_TOKENS, Resource.USER, "User:alice"):
            made = create(dave, owner="alice")
        assert made.token_id in described(dave, everybody=True)
        assert made.token_id in described(dave, "dave")
        assert made.token_id in described(dave, "alice")
        assert made.token_id in described(alice, "dave")
        secret = bytes(made.hmac)
        assert renew(dave, secret).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert expire(dave, secret).error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (renew(alice, secret).error_code, expire(alice, secret).error_code) == (0, 0)


def test_the_right_to_see_tokens_is_for_one_user_or_one_token(tokens: Tokens) -> None:
    with tokens.user("alice") as alice, tokens.user("bob") as bob, tokens.user("carol") as carol:
        first, second, other = create(alice).token_id, create(alice).token_id, create(bob).token_id
        with granted(tokens, "carol", Operation.DESCRIBE_TOKENS, Resource.USER, "User:alice"):
            seen = described(carol, everybody=True)
            assert {first, second} <= set(seen)
            assert other not in seen
            assert other not in described(carol, "bob")
        with granted(tokens, "carol", Operation.DESCRIBE, Resource.DELEGATION_TOKEN, first):
            assert described(carol, everybody=True) == described(carol, "alice") == [first]
        with granted(tokens, "carol", Operation.CREATE_TOKENS, Resource.USER, "User:alice"):
            assert described(carol, everybody=True) == []


def test_nobody_unknown_asks_for_tokens(tokens: Tokens) -> None:
    host, _, port = tokens.broker.address.rpartition(":")
    address = Address(host, int(port))
    with Connection(address, ClientSettings((address,))) as anonymous:
        assert create(anonymous).error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_without_a_key_there_are_no_tokens(tokens: Tokens, tmp_path: Path) -> None:
    other = Tokens(tmp_path)
    del other.settings["delegation.token.secret.key"]
    with Broker(tmp_path / "other", other.settings), other.user("alice") as alice:
        codes = {create(alice).error_code, renew(alice, b"x").error_code, expire(alice, b"x").error_code}
        found = alice.call(DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse)
        assert codes | {found.error_code} == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}


# --- the tool ---


def told(capsys: pytest.CaptureFixture[str], tokens: Tokens, user: str, *arguments: str) -> str:
    common = ["--bootstrap-server", str(tokens.address), "--command-config", str(tokens.file(user))]
    assert run("kafka-delegation-tokens.sh", [*common, *arguments]) == 0
    close_all()
    return capsys.readouterr().out


def test_the_tool_says_what_kafkas_says(tokens: Tokens, capsys: pytest.CaptureFixture[str]) -> None:
    made = told(capsys, tokens, "alice", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    lines = made.splitlines()
    assert lines[0] == "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1"
    token_id = lines[1].removeprefix("Created delegation token with tokenId : ")
    headings = "TOKENID         HMAC                           OWNER           REQUESTER       RENEWERS"
    assert lines[2:4] == ["", f"{headings}                  ISSUEDATE       EXPIRYDATE      MAXDATE        "]
    row = lines[5].split()
    assert row[0] == token_id
    assert row[2:5] == ["User:alice", "User:alice", "[User:bob]"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d", cell) for cell in row[5:])
    secret = row[1]
    renewed = told(capsys, tokens, "bob", "--renew", "--renew-time-period", "-1", "--hmac", secret)
    assert renewed.splitlines()[0] == f"Calling renew token operation with hmac :{secret} , renew-time-period :-1"
    assert renewed.splitlines()[1].startswith("Completed renew operation. New expiry date : ")
    shown = told(capsys, tokens, "bob", "--describe", "--owner-principal", "User:alice")
    assert shown.startswith("Calling describe token operation for owners: [User:alice]\nTotal number of tokens : ")
    assert token_id in shown
    ended = told(capsys, tokens, "alice", "--expire", "--expiry-time-period", "-1", "--hmac", secret)
    assert "Completed expire operation. New expiry date : " in ended
    assert token_id not in told(capsys, tokens, "alice", "--describe")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--create", "--renew"], "Command must include exactly one action: --create, --renew, --expire or --describe"),
        (["--create"], 'Missing required argument "[max-life-time-period]"'),
        (["--renew", "--renew-time-period", "1"], 'Missing required argument "[hmac]"'),
        (["--describe", "--hmac", "x"], "can't be used with option"),
        (["--create", "--max-life-time-period", "x"], "Cannot parse argument 'x'"),
        (["--renew", "--renew-time-period", "1", "--hmac", "!"], "The hmac cannot be read"),
        (["--renew", "--renew-time-period", "1", "--hmac", "AAAA"], "DelegationTokenNotFoundException"),
    ],
)
def test_what_the_tool_cannot_do_is_told(
    tokens: Tokens, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    common = ["--bootstrap-server", str(tokens.address), "--command-config", str(tokens.file("alice"))]
    assert run("kafka-delegation-tokens", [*common, *arguments]) == 1
    close_all()
    assert said in capsys.readouterr().err


@pytest.mark.live
def test_javas_tool_and_client_use_tokens(tokens: Tokens) -> None:
    common = ("--bootstrap-server", tokens.address, "--command-config", tokens.file("alice"))
    made = java_tool(TOOLS + "DelegationTokenCommand", *common, "--create", "--max-life-time-period", -1).stdout
    row = made.splitlines()[-1].split()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    file = tokens.folder / "token.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={module} username="{row[0]}" password="{row[1]}" tokenauth="true";\n'
    )
    client = ("--bootstrap-server", tokens.address, "--command-config", file)
    java_tool(TOOLS + "TopicCommand", *client, "--list")
    denied = java_tool(TOOLS + "TopicCommand", *client, "--create", "--topic", own_name("x"), check=False)
    assert "Authorization failed" in denied.stdout
