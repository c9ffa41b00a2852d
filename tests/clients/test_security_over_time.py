"""What happens to clients that are there: logins that end and begin again, certificates that are changed or are for
another host, handshakes that stall.
"""

from __future__ import annotations

import ssl
import struct
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from moldau.client.cluster import Cluster
from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import ClientSettings
from moldau.tls.authority import issue
from tests.clients.test_security import TOKEN, authenticate, error_of, handshake
from tests.support.command import run
from tests.support.names import own_name
from tests.support.process import free_port
from tests.support.raw import METADATA, RawConnection, request
from tests.support.secured import ADMIN, Secured, gets_in, login, now
from tests.support.waiting import wait_until

MISNAMED = "listener.name.misnamed.ssl.keystore.location"
METRICS_PORT = free_port()


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A login holds for three seconds; one listener shows a certificate that is for another host."""
    folder = tmp_path_factory.mktemp("over-time")
    made = Secured(
        folder,
        {"MISNAMED": "SSL", "RULED": "SSL"},
        **{
            MISNAMED: folder / "elsewhere.pem",
            "listener.name.ruled.ssl.client.auth": "required",
            "listener.name.ruled.ssl.principal.mapping.rules": "RULE:^CN=(al.*)$/$1/",
            "connections.max.reauth.ms": 3000,
            "metrics.listeners": f"http://127.0.0.1:{METRICS_PORT}",
        },
    )
    issue(made.authority, "elsewhere", now(), ["elsewhere.example"])
    made.broker.start()
    yield made
    assert made.broker.stop() == 0, made.broker.output()
    assert "Traceback" not in made.broker.output(), made.broker.output()


def count(name: str, listener: str) -> float:
    """One of the counters that Kafka has for the logins of a listener."""
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    line = next(each for each in text.splitlines() if f"_{name}" in each and f'listener="{listener}"' in each)
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_client_logs_in_again_when_its_login_ends_and_loses_nothing(secured: Secured, mechanism: str) -> None:
    user, password = "admin", "admin-secret"
    if mechanism != "PLAIN":
        user, password = own_name("again"), "secret"
        wanted = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
        )
        admin = AdminClient(secured.config("CLIENT") | ADMIN)
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(60)
    errors: list[KafkaError] = []
    stored: list[int | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.extend([error] if error is not None else [])
        stored.append(message.offset())

    config = secured.config("SECURE") | login(user, password, mechanism)
    producer = Producer(config | {"error_cb": errors.append})
    before = count("successful_reauthentication_total", "SECURE")

    def has_logged_in_again_twice() -> bool:
        producer.produce(f"again-{mechanism}", b"value", partition=0, on_delivery=delivered)
        producer.poll(0.05)
        return count("successful_reauthentication_total", "SECURE") >= before + 2

    wait_until(has_logged_in_again_twice, "the client has logged in again twice", 90)
    assert producer.flush(60) == 0
    assert stored == list(range(len(stored))) and not errors


def test_a_client_that_does_not_log_in_again_is_closed(secured: Secured) -> None:
    with RawConnection(secured.address("CLIENT"), 60) as raw:
        raw.send(handshake())
        assert error_of(raw.receive()) == 0
        raw.send(authenticate(TOKEN, version=1))
        answer = raw.receive()
        assert answer is not None and struct.unpack(">q", answer[-8:]) == (3000,)

        def is_closed() -> bool:
            raw.send(request(METADATA, 1, struct.pack(">i", 0)))
            return raw.receive() is None

        wait_until(is_closed, "its login has ended", 60)
    secured.log_says("the login of User:admin has expired")
    assert count("expired_connections_killed_count", "CLIENT") > 0


def test_a_certificate_for_another_host_is_refused_until_the_key_store_is_changed(
    secured: Secured, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    properties = {"security.protocol": "SSL", "ssl.truststore.location": str(secured.authority.certificate_file)}
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    to = ("--bootstrap-server", secured.address("MISNAMED"), "--command-config", file)
    refused = run("topic", "list", *to)
    assert "certificate verify failed" in refused.complaint
    settings = ClientSettings.from_properties({"bootstrap.servers": secured.address("MISNAMED"), **properties})
    with (
        pytest.raises(AuthenticationFailed, match=r"certificate is not valid for '127\.0\.0\.1'"),
        Cluster(settings) as ours,
    ):
        ours.broker_ids()
    assert run("topic", "list", *to, "--config", "ssl.endpoint.identification.algorithm=").code == 0

    unchecked = secured.config("MISNAMED") | {"ssl.endpoint.identification.algorithm": "none"}
    stays = AdminClient(unchecked)
    assert stays.list_topics(timeout=60).cluster_id
    entry = ConfigEntry(MISNAMED, str(secured.broker_keys), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient(secured.config("CLIENT") | ADMIN)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)
    wait_until(lambda: run("topic", "list", *to).code == 0, "the certificate is for this host")
    assert stays.list_topics(timeout=60).cluster_id


def test_a_key_store_that_cannot_be_used_is_refused_and_forgotten(secured: Secured) -> None:
    admin = AdminClient(secured.config("CLIENT") | ADMIN)
    for path, said in (("/nowhere.pem", "No such file"), (secured.authority.certificate_file, "no PEM private key")):
        entry = ConfigEntry(
            "listener.name.ssl.ssl.keystore.location", str(path), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        (future,) = admin.incremental_alter_configs([resource]).values()
        with pytest.raises(KafkaException, match=said):
            future.result(60)
    assert gets_in(secured.config("SSL"))


def test_who_is_nobody_by_the_rules_is_not_served(secured: Secured) -> None:
    """As by Apache Kafka: it does not pass under the name that stands in the certificate."""
    names = {"alice": True, "bob": False}
    for name, served in names.items():
        keys = str(issue(secured.authority, name, now()))
        certificate = {"ssl.certificate.location": keys, "ssl.key.location": keys}
        assert gets_in(secured.config("RULED") | certificate) is served
    secured.log_says("no rule of ssl.principal.mapping.rules makes a user of CN=bob")


def test_a_stalled_handshake_costs_nobody_else_anything_and_is_given_up(secured: Secured) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    with RawConnection(secured.address("SSL"), 120) as raw:
        raw.send(outgoing.read()[:50])
        closed = threading.Event()

        def watch() -> None:
            if raw.is_closed_by_peer():
                closed.set()

        watching = threading.Thread(target=watch)
        watching.start()
        assert gets_in(secured.config("SSL"))
        watching.join(120)
        assert closed.is_set()
    secured.log_says("TLS handshake failed on listener SSL")
