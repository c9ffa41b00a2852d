"""Who may use the proxy: names and passwords that are the cluster's, and those of a password file."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from moldau.web.passwords import hash_password
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.rest import V2, Answer, Proxy

pytestmark = pytest.mark.xdist_group("rest")

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORDS = {"ann": "a b:c", "bob": "bob", "root": "r"}
USERS = f"{MODULE} " + " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items()) + ";"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which a broker wants a login."""
    port = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.client.plain.sasl.jaas.config": USERS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:root;User:ann;User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": 0,
    }
    with Broker(tmp_path_factory.mktemp("broker"), settings) as broker:
        add_scram_users(broker.address)
        yield f"127.0.0.1:{port}"


def add_scram_users(address: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    users = [UserScramCredentialUpsertion(name, info, text.encode()) for name, text in PASSWORDS.items()]
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.alter_user_scram_credentials(users).values():
        future.result(30)


PER_USER = {
    "client.security.protocol": "SASL_PLAINTEXT",
    "client.sasl.mechanism": "PLAIN",
    "client.credentials.from.http": "true",
    "client.credentials.max": "2",
    "client.timeout.ms": "3000",
}


def basic(name: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_credentials_of_requests_log_in_at_the_cluster(locked: str, tmp_path: Path, name: str, mechanism: str) -> None:
    with Proxy(tmp_path, locked, {**PER_USER, "client.sasl.mechanism": mechanism}) as proxy:

        def ask(user: str, password: str, method: str, path: str, body: object = None, kind: str = V2) -> Answer:
            return proxy.ask(method, path, body, kind, Authorization=basic(user, password))

        nobody = proxy.ask("GET", "/topics")
        assert nobody.code == 40101 and nobody.headers["www-authenticate"].startswith("Basic")
        assert ask("ann", "wrong", "GET", "/topics").code == 40101
        assert ask("ann", "a b:c", "GET", "/topics").status == 200
        cluster = ask("ann", "a b:c", "GET", "/v3/clusters").body["data"][0]["cluster_id"]
        path = f"/v3/clusters/{cluster}/topics"
        assert (
            ask("ann", "a b:c", "POST", path, {"topic_name": name, "partitions_count": 1}, "application/json").status
            == 201
        )
        json_kind = "application/vnd.kafka.json.v2+json"
        records = {"records": [{"value": 1}]}
        assert ask("ann", "a b:c", "POST", f"/topics/{name}", records, json_kind).status == 200
        assert ask("ann", "a b:c", "GET", f"{path}/-/partitions/-/reassignment").status == 200
        # Bob is known, and may do nothing.
        assert ask("bob", "bob", "GET", "/topics").body == []
        assert ask("bob", "bob", "POST", f"/topics/{name}", records, json_kind).status in (403, 404)
        assert ask("bob", "bob", "GET", f"{path}/{name}").code in (40301, 40403)
        made = ask("ann", "a b:c", "POST", f"/consumers/{name}", {"format": "json"})
        # An instance is its maker's.
        assert ask("bob", "bob", "DELETE", made.body["base_uri"]).code == 40403
        assert ask("ann", "a b:c", "DELETE", made.body["base_uri"]).status == 204
        # A third user takes the place of the one who was silent longest.
        assert ask("root", "r", "GET", "/topics").status == 200
        assert ask("bob", "bob", "GET", "/topics").status == 200
        assert "a b:c" not in proxy.log() and base64.b64encode(b"ann:a b:c").decode() not in proxy.log()


def test_clients_of_users_with_instances_are_kept(locked: str, tmp_path: Path, name: str) -> None:
    """At most two users at a time; of the two who were there, one has an instance, and was silent longer."""
    with Proxy(tmp_path, locked, PER_USER) as proxy:
        ann, bob, root = (basic(user, password) for user, password in PASSWORDS.items())
        made = proxy.ask("POST", f"/consumers/{name}", {"format": "json"}, V2, Authorization=ann)
        subscription = f"{made.body['base_uri']}/subscription"
        for user in (bob, root, bob):
            assert proxy.ask("GET", "/topics", Authorization=user).status == 200
        assert proxy.ask("GET", subscription, Authorization=ann).body == {"topics": []}
        assert proxy.ask("DELETE", made.body["base_uri"], None, V2, Authorization=ann).status == 204


def test_roles_of_the_password_file(locked: str, tmp_path: Path) -> None:
    """SX-17, at the REST proxy."""
    users = tmp_path / "users"
    lines = [f"{name}: {hash_password(name, os.urandom(16))},{name}" for name in ("read", "write", "admin")]
    users.write_text("\n".join(lines))
    settings = {
        "client.security.protocol": "SASL_PLAINTEXT",
        "client.sasl.mechanism": "PLAIN",
        "client.sasl.jaas.config": f'{MODULE} username="ann" password="a b:c";',
        "authentication.method": "BASIC",
        "authentication.password.file": str(users),
    }
    with Proxy(tmp_path, locked, settings) as proxy:

        def status(user: str, method: str, path: str, body: object = None, kind: str = "application/json") -> int:
            return proxy.ask(method, path, body, kind, Authorization=basic(user, user)).status

        assert proxy.ask("GET", "/topics").status == 401
        assert proxy.ask("GET", "/ready").status == 200
        assert status("read", "GET", "/topics") == 200
        cluster = proxy.ask("GET", "/v3/clusters", Authorization=basic("read", "read")).body["data"][0]["cluster_id"]
        path = f"/v3/clusters/{cluster}/topics"
        wish = {"topic_name": "roles", "partitions_count": 1}
        assert [status(user, "POST", path, wish) for user in ("read", "write", "admin")] == [403, 403, 201]
        records = {"records": [{"value": 1}]}
        kind = "application/vnd.kafka.json.v2+json"
        assert [status(user, "POST", "/topics/roles", records, kind) for user in ("read", "write")] == [403, 200]
