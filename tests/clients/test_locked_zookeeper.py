"""Locked ZooKeeper servers: brokers work over them, and strangers neither read nor write what is theirs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError
from kazoo.security import ACL, Permissions

from moldau.cli.cluster.local_cluster import LocalCluster
from moldau.cli.kafka.entry import run
from moldau.cli.zookeeper.client import open_client
from moldau.cli.zookeeper.process import mode_of
from moldau.tls.authority import issue, open_authority
from tests.support.kdc import REALM, is_expected, running_kdc
from tests.support.process import die_with_parent, free_port
from tests.support.waiting import wait_until
from tests.support.zookeeper import connected

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
TICKETS = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false"
START_SECONDS = 120.0
READ = Permissions.READ


@dataclass(frozen=True, slots=True)
class Server:
    folder: Path
    port: int
    secure_port: int
    jaas: Path
    tls: dict[str, str]


def jaas_file(folder: Path, **sections: str) -> Path:
    file = folder / "jaas.conf"
    file.write_text("".join(f"{name} {{ {module}; }};\n" for name, module in sections.items()))
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def environment() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def started(
    folder: Path, environment: pytest.MonkeyPatch, jaas: Path, flags: str, **settings: object
) -> Iterator[Server]:
    environment.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas} {flags}".strip())
    port, secure_port = free_port(), free_port()
    authority = open_authority(folder / "authority", datetime.now(UTC))
    keys = issue(authority, "zookeeper", datetime.now(UTC), ("localhost",))
    written = {
        "dataDir": folder / "data",
        "clientPort": port,
        "secureClientPort": secure_port,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": keys,
        "ssl.trustStore.location": authority.certificate_file,
        "ssl.clientAuth": "none",
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "admin.enableServer": "false",
        **settings,
    }
    file = folder / "zookeeper.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in written.items()))
    tls = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(authority.certificate_file),
    }
    with (
        (folder / "zookeeper.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "moldau", "zookeeper", "start", "--config", str(file)],
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
        ) as process,
    ):
        try:
            wait_until(lambda: mode_of("127.0.0.1", port) is not None, "ZooKeeper", START_SECONDS)
            yield Server(folder, port, secure_port, jaas, tls)
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def with_digest(tmp_path_factory: pytest.TempPathFactory, environment: pytest.MonkeyPatch) -> Iterator[Server]:
    """Takes anonymous clients too: what is locked is locked by rules alone."""
    folder = tmp_path_factory.mktemp("digest")
    client = f'{DIGEST} username="broker" password="between,\\"brokers="'
    jaas = jaas_file(folder, Server=f'{DIGEST} user_broker="between,\\"brokers=" user_other="x"', Client=client)
    yield from started(folder, environment, jaas, "")


def brokers(server: Server, connect: str, **settings: str) -> LocalCluster:
    common = {
        "zookeeper.connect": connect,
        "zookeeper.set.acl": "true",
        "listeners": "PLAINTEXT://{address}",
        **settings,
    }
    return LocalCluster.make(
        server.folder / "cluster", brokers=2, zookeepers=0, settings=common, before_start=die_with_parent
    )


def make_topic(cluster: LocalCluster, name: str) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    client.create_topics([NewTopic(name, 1, 2)])[name].result(60)


def below(client: KazooClient, path: str) -> Iterator[tuple[str, list[ACL]]]:
    yield path, client.get_acls(path)[0]
    for child in client.get_children(path):
        yield from below(client, f"{path}/{child}")


def test_a_stranger_neither_reads_nor_writes_what_brokers_keep(
    with_digest: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    """SX-24: it may read which brokers there are, and nothing of the metadata."""
    with brokers(with_digest, f"localhost:{with_digest.secure_port}/locked", **with_digest.tls) as cluster:
        make_topic(cluster, "clueful")
        with connected(f"localhost:{with_digest.port}") as stranger:
            assert stranger.get_children("/locked/brokers/ids") != []
            for path in ("/locked/moldau", "/locked/moldau/log", "/locked/moldau/log/0"):
                with pytest.raises(NoAuthError):
                    stranger.get(path)
                with pytest.raises(NoAuthError):
                    stranger.get_children(path)
            for path in ("/locked", "/locked/brokers/ids", "/locked/moldau/log/0"):
                with pytest.raises(NoAuthError):
                    stranger.create(f"{path}/false", b"clue")
            with pytest.raises(NoAuthError):
                stranger.set("/locked/moldau", b"")
        ours = open_client(f"localhost:{with_digest.port}", 20.0)
        open_to_others = {
            (path.split("/")[2:3] == ["moldau"], each.perms)
            for path, rules in below(ours, "/locked")
            for each in rules
            if each.id.scheme != "sasl"
        }
        assert open_to_others == {(False, READ)}, "nothing of the metadata, and the rest to be read"
        ours.stop()
        ours.close()
        address = f"localhost:{with_digest.port}/locked"
        capfd.readouterr()
        assert run("zookeeper-shell", [address, "ls", "/moldau/log"]) == 0
        assert run("zookeeper-shell", [address, "getAcl", "/moldau/log"]) == 0
        assert "'sasl,'broker\n: cdrwa" in capfd.readouterr().out
        tls = with_digest.folder / "tls.properties"
        tls.write_text("".join(f"{name}={value}\n" for name, value in with_digest.tls.items()))
        secure = f"localhost:{with_digest.secure_port}/locked"
        assert run("zookeeper-shell", [secure, "-zk-tls-config-file", str(tls), "ls", "/brokers"]) == 0
        assert "[ids" in capfd.readouterr().out
        make_topic(cluster, "after")
    for broker in cluster.brokers:
        assert "Traceback" not in cluster.log_file(broker).read_text()


def test_a_wrong_password_opens_nothing_and_is_told(
    with_digest: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    jaas = jaas_file(tmp_path, Client=f'{DIGEST} username="broker" password="wrong"')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
    assert run("zookeeper-shell", [f"localhost:{with_digest.port}", "ls", "/"]) == 1
    assert "refused the login" in capfd.readouterr().err
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "broker", "start", "--set", "listeners=PLAINTEXT://127.0.0.1:0",
         "--set", f"log.dirs={tmp_path}/data", "--set", f"zookeeper.connect=localhost:{with_digest.port}/wrong",
         "--set", "zookeeper.connection.timeout.ms=3000", "--set", "zookeeper.set.acl=true"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "did not let this broker in" in done.stderr and "refused the login" in done.stderr
    assert "Traceback" not in done.stderr and "wrong" not in done.stderr.replace("/wrong", "")


@pytest.fixture(scope="module")
def with_tickets(tmp_path_factory: pytest.TempPathFactory, environment: pytest.MonkeyPatch) -> Iterator[Server]:
    """As the book sets it up: who shows no ticket is refused."""
    folder = tmp_path_factory.mktemp("tickets")
    with running_kdc(tmp_path_factory.mktemp("zookeeper-kdc")) as kdc:
        environment.setenv("KRB5_CONFIG", kdc.environment["KRB5_CONFIG"])
        modules = {
            section: f'{TICKETS} keyTab="{kdc.keytab(f"{name}/localhost")}" principal="{name}/localhost@{REALM}"'
            for section, name in (("Server", "zookeeper"), ("Client", "kafka"))
        }
        flags = f"-Djava.security.krb5.conf={kdc.environment['KRB5_CONFIG']}"
        yield from started(
            folder, environment, jaas_file(folder, **modules), flags,
            requireClientAuthScheme="sasl", jaasLoginRenew=3_600_000,
        )  # fmt: skip


@pytest.mark.skipif(not is_expected(), reason="no Kerberos server here (Debian: krb5-kdc)")
def test_a_server_that_wants_tickets_serves_brokers_and_refuses_who_has_none(
    with_tickets: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    """SX-25."""
    with brokers(with_tickets, f"localhost:{with_tickets.port}/tickets") as cluster:
        make_topic(cluster, "clueful")
        with connected(f"localhost:{with_tickets.port}") as stranger, pytest.raises(KazooException):
            stranger.get_children("/")
        capfd.readouterr()
        assert run("zookeeper-shell", [f"localhost:{with_tickets.port}/tickets", "getAcl", "/moldau/log"]) == 0
        assert "'sasl,'kafka/localhost" in capfd.readouterr().out
        found = ["--zookeeper", f"localhost:{with_tickets.port}/tickets", "--list"]
        assert run("kafka-topics", found) == 0
        assert "clueful" in capfd.readouterr().out


def test_a_server_whose_certificate_is_nobodys_is_not_talked_to(
    with_digest: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = open_authority(tmp_path, datetime.now(UTC)).certificate_file
    tls = tmp_path / "tls.properties"
    tls.write_text(f"zookeeper.ssl.client.enable=true\nzookeeper.ssl.truststore.location={other}\n")
    secure = f"localhost:{with_digest.secure_port}"
    assert run("zookeeper-shell", [secure, "-zk-tls-config-file", str(tls), "ls", "/"]) == 1
    assert "no TLS with localhost" in capfd.readouterr().err
