"""GSSAPI with a real Kerberos server: our own client, kafka-python and Java log in with their tickets, nobody else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moldau.cli.kafka.entry import run
from moldau.client.cluster import Cluster
from moldau.client.connection import Connection
from moldau.client.errors import AuthenticationFailed, SettingError
from moldau.client.settings import ClientSettings
from moldau.tls.authority import issue, open_authority
from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.peers.apache_kafka import TOOLS, java_tool
from tests.support.broker import Broker
from tests.support.kdc import REALM, Kdc, is_expected, running_kdc
from tests.support.names import own_name
from tests.support.process import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not is_expected(), reason="no Kerberos server here (Debian: krb5-kdc)")

MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
CLIENT = """
import sys
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
client = KafkaAdminClient(
    bootstrap_servers=sys.argv[1], security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI",
    sasl_kerberos_service_name="kafka", sasl_kerberos_name=None, bootstrap_timeout_ms=int(sys.argv[3]),
)
client.create_topics([NewTopic(sys.argv[2], 1, 1)])
print(client.list_topics())
client.close()
"""


class Kerberized:
    def __init__(self, folder: Path, kdc: Kdc) -> None:
        self.folder, self.kdc, self.port, self.tls_port = folder, kdc, free_port(), free_port()
        self.authority = open_authority(folder / "authority", datetime.now(UTC))
        keytab = kdc.keytab("kafka/localhost")
        login = f'{MODULE} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        self.broker = Broker(
            folder / "broker",
            {
                "listeners": (
                    f"PLAINTEXT://127.0.0.1:0,CLIENT://localhost:{self.port},ENCRYPTED://localhost:{self.tls_port}"
                ),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT,ENCRYPTED:SASL_SSL",
                "ssl.keystore.location": str(issue(self.authority, "broker", datetime.now(UTC), ("localhost",))),
                "sasl.enabled.mechanisms": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
                "sasl.kerberos.principal.to.local.rules": r"RULE:[1:$1@$0](.*-low@.*)s/-low@.*//U,DEFAULT",
                "listener.name.client.gssapi.sasl.jaas.config": login,
                "listener.name.encrypted.gssapi.sasl.jaas.config": login,
                "listener.name.client.connections.max.reauth.ms": 3000,
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:alice;User:ALICE",
                "connection.failed.authentication.delay.ms": 10,
            },
        )

    def ticket(self, user: str) -> dict[str, str]:
        """The environment of a process that has the user's ticket."""
        keytab, cache = self.kdc.keytab(user), f"FILE:{self.folder}/{user}.cache"
        self.kdc.run("kinit", "-k", "-t", str(keytab), "-c", cache, user)
        return self.kdc.environment | {"KRB5CCNAME": cache}

    def client(
        self, environment: dict[str, str], topic: str, milliseconds: int = 30_000
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", CLIENT, f"localhost:{self.port}", topic, str(milliseconds)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)

    def properties(self, login: str, *, encrypted: bool = False) -> dict[str, str]:
        """Of a client in Java's words."""
        found = {
            "bootstrap.servers": f"localhost:{self.tls_port if encrypted else self.port}",
            "security.protocol": "SASL_SSL" if encrypted else "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": login,
        }
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.certificate_file)}
        return found | (trusted if encrypted else {})

    def says(self, text: str) -> None:
        wait_until(lambda: text in self.broker.output(), f"the broker's log says {text!r}")


@pytest.fixture(scope="module")
def kerberized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    folder = tmp_path_factory.mktemp("kerberos")
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", kdc.environment["KRB5_CONFIG"])
        made = Kerberized(folder, kdc)
        made.broker.start()
        yield made
        assert made.broker.stop() == 0, made.broker.output()
        assert "Traceback" not in made.broker.output(), made.broker.output()


@pytest.mark.parametrize("user", ["alice", "alice-low"])
def test_a_ticket_lets_its_user_in_and_rules_say_who_that_is(kerberized: Kerberized, user: str) -> None:
    topic = own_name(f"by-{user}")
    done = kerberized.client(kerberized.ticket(user), topic)
    assert done.returncode == 0, done.stderr
    assert topic in done.stdout


def test_the_user_is_known_and_may_do_what_it_may(kerberized: Kerberized) -> None:
    topic = own_name("by-bob")
    kerberized.client(kerberized.ticket("bob"), topic)
    kerberized.says(
        f"Principal = User:bob is Denied operation = CREATE from host = 127.0.0.1 on resource = Topic:LITERAL:{topic}"
    )


def test_nobody_gets_in_without_a_ticket_or_with_one_for_another_service(kerberized: Kerberized) -> None:
    environment = kerberized.kdc.environment | {"KRB5CCNAME": f"FILE:{kerberized.folder}/nothing"}
    topic = own_name("by-nobody")
    assert kerberized.client(environment, topic, 3000).returncode != 0
    assert topic not in kerberized.client(kerberized.ticket("alice"), own_name("later")).stdout


def key_table(kerberized: Kerberized, user: str) -> str:
    return f'{MODULE} keyTab="{kerberized.kdc.keytab(user)}" principal="{user}@{REALM}";'


def cached(kerberized: Kerberized, user: str) -> str:
    """A ticket that somebody else has fetched."""
    file = kerberized.ticket(user)["KRB5CCNAME"].removeprefix("FILE:")
    return f'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="{file}";'


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
@pytest.mark.parametrize("login", [key_table, cached])
def test_our_client_shows_a_ticket(
    kerberized: Kerberized, login: Callable[[Kerberized, str], str], encrypted: bool
) -> None:
    properties = kerberized.properties(login(kerberized, "alice"), encrypted=encrypted)
    with Cluster(ClientSettings.from_properties(properties)) as cluster:
        assert cluster.broker_ids() == [1]
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        assert cluster.any(request, DescribeClusterResponse).cluster_authorized_operations > 0, "alice is a super user"


def test_our_client_learns_why_it_gets_no_ticket(kerberized: Kerberized) -> None:
    nothing = 'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="/nowhere";'
    other = kerberized.properties(key_table(kerberized, "alice")) | {"sasl.kerberos.service.name": "zookeeper"}
    missing = kerberized.properties(f'{MODULE} keyTab="/nowhere" principal="alice@{REALM}";')
    for properties, kind, problem in (
        (kerberized.properties(nothing), AuthenticationFailed, "no Kerberos ticket for kafka@localhost: .*cache"),
        (other, AuthenticationFailed, "no Kerberos ticket for zookeeper@localhost: .*not found in Kerberos database"),
        (missing, SettingError, "keyTab /nowhere cannot be read"),
    ):
        with Cluster(ClientSettings.from_properties(properties)) as cluster, pytest.raises(kind, match=problem):
            cluster.broker_ids()


def test_our_client_changes_its_connection_before_its_login_ends(kerberized: Kerberized) -> None:
    properties = kerberized.properties(key_table(kerberized, "alice"))
    settings, now = ClientSettings.from_properties(properties), [0.0]
    with Connection(settings.bootstrap[0], settings, lambda: now[0]) as connection:
        assert not connection.is_stale
        now[0] = 2.6
        assert connection.is_stale


def test_the_command_line_shows_a_ticket(
    kerberized: Kerberized, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    properties = kerberized.properties(key_table(kerberized, "alice"), encrypted=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    file.chmod(0o600)
    arguments = ["--bootstrap-server", properties["bootstrap.servers"], "--command-config", str(file)]
    allow = ["--add", "--allow-principal", "User:bob", "--operation", "Read", "--topic", "clueful"]
    assert run("kafka-acls", [*arguments, *allow]) == 0
    assert run("kafka-acls", [*arguments, "--list"]) == 0
    assert "principal=User:bob" in capsys.readouterr().out


def test_a_stored_key_table_that_cannot_be_read_stops_no_broker(
    kerberized: Kerberized, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    properties = kerberized.properties(key_table(kerberized, "alice"), encrypted=True)
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    file.chmod(0o600)
    entity = ["--entity-type", "brokers", "--entity-name", "1"]
    tool = ["--bootstrap-server", properties["bootstrap.servers"], "--command-config", str(file), "--alter", *entity]
    name = "listener.name.client.gssapi.sasl.jaas.config"

    def use(keytab: Path) -> int:
        login = f'{MODULE} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        return run("kafka-configs", [*tool, "--add-config", f"{name}=[{login}]"])

    assert use(tmp_path / "nowhere") == 1
    assert f"keyTab {tmp_path}/nowhere cannot be read" in capsys.readouterr().err
    copied = tmp_path / "copied.keytab"
    copied.write_bytes((kerberized.kdc.folder / "kafka-localhost.keytab").read_bytes())
    assert use(copied) == 0
    copied.unlink()
    assert run("kafka-configs", [*tool, "--add-config", "max.connections=1000"]) == 0
    kerberized.says(f"listener CLIENT keeps its logins: keyTab {copied} cannot be read")
    kerberized.broker.kill()
    kerberized.broker.start()
    kerberized.says(f"keyTab {copied} cannot be read; it begins with the logins of the properties")
    assert kerberized.client(kerberized.ticket("alice"), own_name("again")).returncode == 0
    assert run("kafka-configs", [*tool, "--delete-config", f"{name},max.connections"]) == 0


@pytest.mark.live
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "encrypted"])
def test_java_logs_in_with_its_key_table(kerberized: Kerberized, tmp_path: Path, encrypted: bool) -> None:
    properties = kerberized.properties(key_table(kerberized, "alice"), encrypted=encrypted)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    done = java_tool(
        TOOLS + "TopicCommand", "--bootstrap-server", properties["bootstrap.servers"], "--command-config", file,
        "--create", "--topic", own_name(f"by-java-{encrypted}"),
        options=[f"-Djava.security.krb5.conf={kerberized.kdc.folder / 'krb5.conf'}"],
    )  # fmt: skip
    assert "Created topic" in done.stdout
