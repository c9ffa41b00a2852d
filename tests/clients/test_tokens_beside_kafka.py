"""The four APIs of delegation tokens, asked by users who logged in, with and without the rights: the same requests to
Apache Kafka and to this broker, at each version, give the same answers.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from moldau.client.connection import Connection
from moldau.client.settings import Address, ClientSettings, SaslSettings
from moldau.types.acls import Operation, Pattern, Permission, Resource
from moldau.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from moldau.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from moldau.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from moldau.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from tests.peers.apache_kafka import ApacheKafka
from tests.support.broker import Broker
from tests.support.process import BrokerProcess, free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live

NAMES = ("admin", "alice", "bob", "carol")
USERS = " ".join(f'user_{name}="{name}-secret"' for name in NAMES)
MODULES = "org.apache.kafka.common.security"
HOUR_MS = 3_600_000
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.client.plain.sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule required {USERS};",
    "listener.name.client.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "the key of all brokers",
}
Said = list[tuple[str, Any]]


class Place:
    """A broker, its users, and what it has answered; tokens are named in the order in which they were made."""

    def __init__(self, port: int, version: int, stack: ExitStack) -> None:
        self.address, self.version = Address("127.0.0.1", port), version
        self.users = {
            name: stack.enter_context(self._login(SaslSettings("PLAIN", name, f"{name}-secret"))) for name in NAMES
        }
        self._stack = stack
        self.names: dict[str, str] = {}
        self.secrets: dict[str, bytes] = {"none": b"", "unknown": b"unknown"}
        self.said: Said = []

    def _login(self, sasl: SaslSettings) -> Connection:
        return Connection(self.address, ClientSettings((self.address,), sasl=sasl))

    def _call(self, user: str, request: Any, answer: Any) -> Any:
        return self.users[user].call(request, answer, max_version=min(self.version, request.LAST_VERSION))

    def create(self, user: str, token: str, *renewers: str, lifetime_ms: int = -1, owner: str | None = None) -> None:
        request = CreateDelegationTokenRequest(
            owner_principal_type="User" if owner else None,
            owner_principal_name=owner,
            renewers=[CreatableRenewers(**dict(zip(KEYS, each.split(":"), strict=True))) for each in renewers],
            max_lifetime_ms=lifetime_ms,
        )
        made = self._call(user, request, CreateDelegationTokenResponse)
        self.names[made.token_id], self.secrets[token] = token, bytes(made.hmac)
        since = made.issue_timestamp_ms
        self.said.append((
            f"{user} makes {token}",
            (made.error_code, made.principal_type, made.principal_name, made.token_requester_principal_type,
             made.token_requester_principal_name, made.expiry_timestamp_ms - since, made.max_timestamp_ms - since,
             bool(made.token_id), len(made.hmac)),
        ))  # fmt: skip
        if made.error_code == 0:
            self.wait(lambda: made.token_id in {each.token_id for each in self.tokens("admin", None).tokens})

    def change(self, user: str, token: str, period_ms: int) -> None:
        """Both renewed and let expire."""
        renewed = self._call(
            user, RenewDelegationTokenRequest(hmac=self.secrets[token], renew_period_ms=period_ms),
            RenewDelegationTokenResponse,
        )  # fmt: skip
        self.said.append((f"{user} renews {token}", (renewed.error_code, renewed.expiry_timestamp_ms > 0)))
        ends = self._call(
            user, ExpireDelegationTokenRequest(hmac=self.secrets[token], expiry_time_period_ms=period_ms),
            ExpireDelegationTokenResponse,
        )  # fmt: skip
        self.said.append((f"{user} lets {token} expire", (ends.error_code, ends.expiry_timestamp_ms > 0)))

    def tokens(self, user: str, owners: tuple[str, ...] | None) -> Any:
        named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners or ()]
        request = DescribeDelegationTokenRequest(owners=None if owners is None else named)
        return self._call(user, request, DescribeDelegationTokenResponse)

    def describe(self, user: str, *owners: str, everybody: bool = False) -> None:
        answer = self.tokens(user, None if everybody else owners)
        found = sorted(
            (
                self.names[each.token_id], each.principal_type, each.principal_name,
                each.token_requester_principal_type, each.token_requester_principal_name,
                sorted(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
                bytes(each.hmac) == self.secrets[self.names[each.token_id]], each.max_timestamp - each.issue_timestamp,
            )
            for each in answer.tokens
            if each.token_id in self.names
        )  # fmt: skip
        self.said.append((f"{user} asks for {'all' if everybody else owners}", (answer.error_code, found)))

    def allow(self, user: str, operation: Operation, resource: Resource, name: str) -> None:
        rule = AclCreation(
            resource_type=resource, resource_name=name, resource_pattern_type=Pattern.LITERAL,
            principal=f"User:{user}", host="*", operation=operation, permission_type=Permission.ALLOW,
        )  # fmt: skip
        admin = self.users["admin"]
        (made,) = admin.call(CreateAclsRequest(creations=[rule]), CreateAclsResponse).results
        self.said.append((f"{operation.name} on {resource.name} for {user}", made.error_code))
        wanted = DescribeAclsRequest(
            resource_type_filter=resource, resource_name_filter=name, pattern_type_filter=Pattern.LITERAL,
            principal_filter=f"User:{user}", host_filter=None, operation=operation, permission_type=Permission.ALLOW,
        )  # fmt: skip
        self.wait(lambda: admin.call(wanted, DescribeAclsResponse).resources)

    def wait(self, look: Callable[[], object]) -> None:
        wait_until(lambda: bool(look()), "the broker knows it")

    def delegate(self, token: str) -> None:
        token_id = next(key for key, name in self.names.items() if name == token)
        secret = base64.b64encode(self.secrets[token]).decode()
        login = SaslSettings("SCRAM-SHA-256", token_id, secret, by_token=True)
        self.users["delegate"] = self._stack.enter_context(self._login(login))


KEYS = ("principal_type", "principal_name")


def play(place: Place) -> Said:
    place.create("alice", "first", "User:bob", lifetime_ms=10 * HOUR_MS)
    place.create("alice", "refused", "Group:bob")
    place.create("alice", "second", lifetime_ms=1000 * HOUR_MS)
    for user in ("carol", "bob", "alice"):
        for token in ("first", "none", "unknown"):
            place.change(user, token, HOUR_MS)
        place.describe(user, everybody=True)
        place.describe(user, "alice")
        place.describe(user, "carol", "bob")
        place.describe(user)
    place.change("alice", "first", -2)
    if place.version >= 3:
        place.create("carol", "third", owner="alice")
        place.allow("carol", Operation.CREATE_TOKENS, Resource.USER, "User:alice")
        place.create("carol", "third", "User:bob", owner="alice")
        place.create("carol", "fourth", owner="bob")
        place.change("carol", "third", HOUR_MS)
        place.describe("carol", everybody=True)
        place.allow("bob", Operation.DESCRIBE_TOKENS, Resource.USER, "User:alice")
        place.describe("bob", everybody=True)
    (second,) = (key for key, name in place.names.items() if name == "second")
    place.allow("carol", Operation.DESCRIBE, Resource.DELEGATION_TOKEN, second)
    place.describe("carol", everybody=True)
    place.describe("carol", "alice")
    place.change("carol", "second", HOUR_MS)
    place.delegate("second")
    place.create("delegate", "never")
    place.change("delegate", "second", HOUR_MS)
    place.describe("delegate", everybody=True)
    return place.said


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Of Apache Kafka and of ours."""
    plain, theirs, controller, ours = free_port(), free_port(), free_port(), free_port()
    protocols = "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    kafkas = f"PLAINTEXT://127.0.0.1:{plain},CLIENT://127.0.0.1:{theirs}"
    kafka: BrokerProcess = ApacheKafka(
        tmp_path_factory.mktemp("kafka"),
        {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{kafkas},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": protocols,
            "advertised.listeners": kafkas,
            **SETTINGS,
        },
        port=plain,
    )
    moldau = Broker(
        tmp_path_factory.mktemp("moldau"),
        {
            "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:{ours}",
            "listener.security.protocol.map": protocols,
            **SETTINGS,
        },
    )
    with kafka, moldau:
        yield theirs, ours


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_same_is_answered(ports: tuple[int, int], version: int) -> None:
    with ExitStack() as stack:
        theirs, ours = (play(Place(port, version, stack)) for port in ports)
    assert ours == theirs
    assert len({repr(answer) for _, answer in theirs}) > 10
