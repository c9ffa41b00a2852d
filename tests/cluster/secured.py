"""Clusters whose brokers talk to each other behind a lock of their own, over the ZooKeeper of the tests' cluster.

Clients log in on the listener CLIENTS with SCRAM; brokers use BROKERS, whatever that asks for. An authorizer refuses
all that is not allowed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.cluster.local_cluster import LocalCluster, Process
from moldau.cli.kafka.entry import run
from moldau.client.connection import Connection
from moldau.client.settings import Address, ClientSettings, SaslSettings, TlsSettings
from moldau.tls.authority import Authority, issue, open_authority
from tests.cluster.looking import QUIET
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

CLUSTER_ID = "bG9ja2VkLWNsdXN0ZXItMQ"
SCRAM = "SCRAM-SHA-512"
BROKER_LOGIN = ("broker", "between,brokers=")
ADMIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": SCRAM, "sasl.username": "admin",
         "sasl.password": "admin-secret"}  # fmt: skip
ALICE = ADMIN | {"sasl.username": "alice", "sasl.password": "alice-secret"}
"""Has a login and no rights."""


@dataclass(frozen=True, slots=True)
class Locked:
    cluster: LocalCluster
    authority: Authority
    settings: Mapping[str, str]

    def admin(self, **more: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.cluster.bootstrap, **ADMIN, **QUIET, **more})

    def log_of(self, broker: Process) -> str:
        return self.cluster.log_file(broker).read_text(errors="replace")

    def inner_address(self, broker: Process) -> Address:
        """Where it listens for other brokers: the port is the system's choice, which its ready line tells."""
        line = next(line for line in reversed(self.log_of(broker).splitlines()) if " ready at " in line)
        inner = next(part for part in line.split() if "://" in part and not part.startswith("CLIENTS://"))
        host, _, port = inner.partition("://")[2].rpartition(":")
        return Address(host, int(port))

    def intruder(self, broker: Process, login: tuple[str, str] | None, keys: Path | None = None) -> Connection:
        """A client on the listener of the brokers."""
        encrypted = self.settings["listener.security.protocol.map"].split("BROKERS:")[1].endswith("SSL")
        tls = TlsSettings(
            ca_file=str(self.authority.certificate_file),
            certificate_file=None if keys is None else str(keys),
            key_file=None if keys is None else str(keys),
        )
        sasl = None if login is None else SaslSettings(SCRAM, *login)
        address = self.inner_address(broker)
        return Connection(address, ClientSettings((address,), tls=tls if encrypted else None, sasl=sasl))


def make(locked: Locked, topic: str, partitions: int = 4) -> None:
    client = locked.admin()
    client.create_topics([NewTopic(topic, partitions, 2)])[topic].result(30)
    wait_until(lambda: in_sync(locked, topic) == {2}, "both brokers are in sync", 60)


def in_sync(locked: Locked, topic: str) -> set[int]:
    found = locked.admin().list_topics(topic, timeout=20).topics[topic]
    return {len(each.isrs) if each.leader > 0 else 0 for each in found.partitions.values()}


def now() -> datetime:
    return datetime.now(UTC)


def common_settings(folder: Path, authority: Authority) -> dict[str, str]:
    keys = issue(authority, "broker", now(), ("127.0.0.1", "localhost"))
    return {
        "listeners": "CLIENTS://{address},BROKERS://127.0.0.1:0",
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": SCRAM,
        "sasl.mechanism.inter.broker.protocol": SCRAM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:broker",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.location": str(authority.certificate_file),
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "delegation.token.secret.key": "one key for all",
        "connection.failed.authentication.delay.ms": "10",
    }


@contextmanager
def locked_cluster(
    running: LocalCluster, folder: Path, name: str, settings: Mapping[str, str], *, without: Collection[str] = ()
) -> Iterator[Locked]:
    """Two brokers under a chroot of their own, whose users exist before the first of them starts."""
    authority = open_authority(folder, now())
    chosen = {
        "zookeeper.connect": f"{running.zookeeper_connect}/{name}",
        **common_settings(folder, authority),
        **settings,
    }
    chosen = {key: value for key, value in chosen.items() if key not in without}
    properties = folder / "server.properties"
    lines = {"node.id": "1", "log.dirs": str(folder / "cluster" / "broker-1" / "data"), **chosen}
    lines |= {"listeners": lines["listeners"].replace("{address}", "127.0.0.1:0")}
    properties.write_text("".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in lines.items()))
    os.chmod(properties, 0o600)
    users = {"broker": "salted below", "admin": "admin-secret", "alice": "alice-secret"}
    added = [f"{SCRAM}=[name={user},password={password}]" for user, password in users.items() if user != "broker"]
    added.append(f"{SCRAM}=[{salted_user(*BROKER_LOGIN)}]")
    scram = [part for each in added for part in ("--add-scram", each)]
    assert run("kafka-storage", ["format", "-t", CLUSTER_ID, "-c", str(properties), *scram]) == 0
    made = LocalCluster.make(folder / "cluster", brokers=2, zookeepers=0, settings=chosen, before_start=die_with_parent)
    with made as cluster:
        yield Locked(cluster, authority, chosen)


def salted_user(name: str, password: str) -> str:
    """A password that has commas in it cannot be written as one."""
    import base64

    from moldau.security.authentication.scram import salted

    salt = os.urandom(16)
    ready = salted("sha512", password, salt, 8192)
    fields = {
        "name": name,
        "iterations": 8192,
        "salt": f'"{base64.b64encode(salt).decode()}"',
        "saltedpassword": f'"{base64.b64encode(ready).decode()}"',
    }
    return ",".join(f"{key}={value}" for key, value in fields.items())
