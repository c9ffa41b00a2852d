"""Listeners of every protocol side by side: real clients get in with what is right, and nobody with what is not."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
import struct
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient

from moldau.tls.authority import issue, open_authority
from tests.support.names import own_name
from tests.support.process import resident_bytes
from tests.support.raw import API_VERSIONS, METADATA, RawConnection, request, string
from tests.support.secured import ADMIN, Secured, gets_in, login, now
from tests.support.waiting import wait_until

HANDSHAKE, AUTHENTICATE = 17, 36
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED = 33, 34, 58
MECHANISMS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    made.broker.start()
    yield made
    assert made.broker.stop() == 0, made.broker.output()
    assert "Traceback" not in made.broker.output(), made.broker.output()


@pytest.mark.parametrize("listener", ["CLIENT", "SSL", "MUTUAL", "SECURE"])
def test_megabytes_go_there_and_back_unchanged(secured: Secured, listener: str) -> None:
    config = secured.config(listener) | (ADMIN if listener in ("CLIENT", "SECURE") else {})
    topic, count = own_name(f"bytes-{listener}"), 400
    sent, received = hashlib.sha256(), hashlib.sha256()
    producer = Producer(config)
    for _ in range(count):
        value = os.urandom(20_000)
        sent.update(value)
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer(config | {"group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(count):
        message = consumer.poll(20)
        assert message is not None and message.error() is None
        received.update(message.value())
    consumer.close()
    assert sent.digest() == received.digest()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_scram_user_comes_and_goes_while_the_broker_runs(secured: Secured, mechanism: str) -> None:
    admin = AdminClient(secured.config("CLIENT") | ADMIN)
    user, kind = "a,=b/" + own_name(mechanism), MECHANISMS[mechanism]
    config = secured.config("SECURE") | login(user, "Pässwört", mechanism)
    assert not gets_in(config)
    upsertion = UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 8192), "Pässwört".encode())
    for future in admin.alter_user_scram_credentials([upsertion]).values():
        future.result()
    assert gets_in(config)
    assert not gets_in(config | {"sasl.password": "password"})
    (found,) = admin.describe_user_scram_credentials([user]).values()
    assert [(info.mechanism, info.iterations) for info in found.result().scram_credential_infos] == [(kind, 8192)]
    secured.broker.kill()
    secured.broker.start()
    assert gets_in(config)
    admin = AdminClient(secured.config("CLIENT") | ADMIN)
    for future in admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, kind)]).values():
        future.result()
    assert not gets_in(config)


@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_python_clients_log_in(secured: Secured, mechanism: str) -> None:
    user, password = ("admin", "admin-secret")
    if mechanism in MECHANISMS:
        user, password = own_name(f"python-{mechanism}"), "secret"
        upsertion = UserScramCredentialUpsertion(user, ScramCredentialInfo(MECHANISMS[mechanism], 4096), b"secret")
        admin = AdminClient(secured.config("CLIENT") | ADMIN)
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result()
    common = {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    authority = str(secured.authority.certificate_file)
    client = KafkaAdminClient(
        bootstrap_servers=secured.address("SECURE"), security_protocol="SASL_SSL", ssl_cafile=authority, **common
    )
    assert isinstance(client.list_topics(), list)
    client.close()

    async def ask() -> list[str]:
        context = ssl.create_default_context(cafile=authority)
        found = AIOKafkaAdminClient(
            bootstrap_servers=secured.address("SECURE"), security_protocol="SASL_SSL", ssl_context=context, **common
        )
        await found.start()
        try:
            return await found.list_topics()  # type: ignore[no-any-return]
        finally:
            await found.close()

    assert isinstance(asyncio.run(ask()), list)


# --- nobody gets in with what is not right ---


@pytest.mark.parametrize(
    ("listener", "more", "said"),
    [
        ("CLIENT", login("admin", "wrong"), "no user 'admin' with this password"),
        ("CLIENT", login("nobody", "admin-secret"), "no user 'nobody' with this password"),
        ("CLIENT", login("admin", "x", "SCRAM-SHA-256"), "user 'admin' has no credentials of this mechanism"),
        ("SECURE", login("bob", "B"), "no user 'bob' with this password"),
        ("SSL", {"security.protocol": "PLAINTEXT"}, "TLS handshake failed on listener SSL"),
        ("CLIENT", ADMIN | {"security.protocol": "SASL_SSL"}, "bytes was announced"),
        ("CLIENT", {"security.protocol": "PLAINTEXT"}, "while handshaking on listener CLIENT"),
        ("MUTUAL", {"ssl.certificate.location": "", "ssl.key.location": ""}, "peer did not return a certificate"),
    ],
)
def test_what_is_wrong_is_refused_and_logged(secured: Secured, listener: str, more: dict[str, str], said: str) -> None:
    config = {key: value for key, value in (secured.config(listener) | more).items() if value != ""}
    if config["security.protocol"] == "PLAINTEXT":
        config.pop("ssl.ca.location", None)
    assert not gets_in(config)
    secured.log_says(said)


@pytest.mark.parametrize("days", [-1, 1])
def test_a_client_certificate_counts_only_in_its_time(secured: Secured, days: int) -> None:
    made_at = now() + (timedelta(days=2) if days > 0 else timedelta())
    keys = str(issue(secured.authority, own_name(f"late{days}"), made_at, days=days))
    assert not gets_in(secured.config("MUTUAL") | {"ssl.certificate.location": keys, "ssl.key.location": keys})
    secured.log_says("certificate has expired" if days < 0 else "certificate is not yet valid")


def test_a_certificate_of_somebody_elses_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    keys = str(issue(open_authority(tmp_path, now()), "alice", now()))
    assert not gets_in(secured.config("MUTUAL") | {"ssl.certificate.location": keys, "ssl.key.location": keys})
    assert not gets_in(secured.config("SSL") | {"ssl.ca.location": str(tmp_path / "ca.pem")})


def test_a_certificate_that_is_only_requested_names_who_has_one(tmp_path: Path) -> None:
    secured = Secured(
        tmp_path,
        {"REQUESTED": "SSL"},
        **{
            "listener.name.requested.ssl.client.auth": "requested",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:CN=alice",
        },
    )
    mine = {"ssl.certificate.location": str(secured.client_keys), "ssl.key.location": str(secured.client_keys)}
    keys = str(issue(open_authority(tmp_path / "elsewhere", now()), "alice", now()))
    foreign = {"ssl.certificate.location": keys, "ssl.key.location": keys}
    with secured.broker:
        without = secured.config("REQUESTED")
        assert refusal_of_a_topic(without | mine) is None
        assert refusal_of_a_topic(without) == "TOPIC_AUTHORIZATION_FAILED"
        assert not gets_in(without | foreign), "a certificate of somebody else's is worse than none"
    secured.log_says("Principal = User:ANONYMOUS is Denied operation = CREATE")


def refusal_of_a_topic(config: dict[str, object]) -> str | None:
    """Why no topic could be made."""
    admin = AdminClient(config)
    try:
        for made in admin.create_topics([NewTopic(own_name("requested"), 1, 1)]).values():
            made.result(30)
    except KafkaException as error:
        return str(error.args[0].name())
    return None


def test_a_renewed_key_store_is_taken_up_and_nobody_is_dropped(secured: Secured) -> None:
    before = shown_certificate(secured)
    admin = AdminClient(secured.config("SSL"))
    admin.list_topics(timeout=5)
    issue(secured.authority, "broker", now(), ("127.0.0.1", "localhost"))
    wait_until(lambda: shown_certificate(secured) != before, "the new certificate is shown")
    assert admin.list_topics(timeout=5).cluster_id
    assert gets_in(secured.config("SSL"))
    kept = secured.broker_keys.read_bytes()
    secured.broker_keys.write_bytes(b"no key at all")
    secured.log_says("keeps its certificates")
    assert gets_in(secured.config("SSL"))
    secured.broker_keys.write_bytes(kept)


def shown_certificate(secured: Secured) -> str:
    return ssl.get_server_certificate(("127.0.0.1", secured.ports["SSL"]))


# --- frames that no client would send ---


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(HANDSHAKE, version, string(mechanism))


def authenticate(token: bytes, version: int = 0) -> bytes:
    return request(AUTHENTICATE, version, struct.pack(">i", len(token)) + token)


TOKEN = b"\0admin\0admin-secret"


def error_of(answer: bytes | None) -> int:
    assert answer is not None
    return int(struct.unpack_from(">h", answer, 4)[0])


def test_a_login_by_hand_and_bare_tokens_after_a_handshake_of_version_0(secured: Secured) -> None:
    with RawConnection(secured.address("CLIENT")) as raw:
        raw.send(handshake())
        assert error_of(raw.receive()) == 0
        raw.send(authenticate(TOKEN))
        assert error_of(raw.receive()) == 0
        raw.send(request(METADATA, 1, struct.pack(">i", 0)))
        assert raw.receive() is not None
        raw.send(handshake())
        assert error_of(raw.receive()) == ILLEGAL_SASL_STATE
    with RawConnection(secured.address("CLIENT")) as raw:
        raw.send(handshake(version=0))
        assert error_of(raw.receive()) == 0
        raw.send(struct.pack(">i", len(TOKEN)) + TOKEN)
        assert raw.receive() == b""
        raw.send(request(METADATA, 1, struct.pack(">i", 0)))
        assert raw.receive() is not None


def test_a_mechanism_that_is_not_offered_is_told_and_closed(secured: Secured) -> None:
    with RawConnection(secured.address("CLIENT")) as raw:
        raw.send(handshake("GSSAPI"))
        answer = raw.receive()
        assert error_of(answer) == UNSUPPORTED_SASL_MECHANISM
        assert answer is not None and b"SCRAM-SHA-512" in answer
        assert raw.receive() is None


def test_a_name_without_end_does_not_fill_the_log(secured: Secured) -> None:
    with RawConnection(secured.address("CLIENT")) as raw:
        raw.send(handshake())
        assert error_of(raw.receive()) == 0
        raw.send(authenticate(b"\0" + b"endless" * 50_000 + b"\0x"))
        assert error_of(raw.receive()) == SASL_AUTHENTICATION_FAILED
    secured.log_says("no user 'endless")
    assert max(map(len, secured.broker.output().splitlines())) < 1000


@pytest.mark.parametrize(
    "frames",
    [
        [request(METADATA, 1, struct.pack(">i", 0))],
        [request(API_VERSIONS, 0, b""), request(API_VERSIONS, 0, b"")],
        [authenticate(TOKEN)],
        [handshake(), handshake()],
        [handshake(), request(METADATA, 1, struct.pack(">i", 0))],
        [handshake(), request(API_VERSIONS, 0, b"")],
        [handshake(), request(AUTHENTICATE, 9, b"")],
        [request(HANDSHAKE, 7, string("PLAIN"))],
        [request(HANDSHAKE, 1, struct.pack(">h", 500) + b"PL")],
        [struct.pack(">i", 600_000)],
        [struct.pack(">i", -5)],
        [struct.pack(">i", 3) + b"abc"],
        [handshake(version=0), struct.pack(">i", 5) + b"hello"],
        [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ],
    ids=str,
)
def test_frames_out_of_turn_close_the_connection(secured: Secured, frames: list[bytes]) -> None:
    with RawConnection(secured.address("CLIENT")) as raw:
        for frame in frames[:-1]:
            raw.send(frame)
            assert raw.receive() is not None
        raw.send(frames[-1])
        assert raw.receive() is None
    assert gets_in(secured.config("CLIENT") | ADMIN)


def test_ten_thousand_half_open_logins_cost_little_and_no_other_client_its_service(secured: Secured) -> None:
    """Whoever comes properly is served beside them; the oldest of them are given up."""
    sockets: list[socket.socket] = []
    before = resident_bytes(secured.broker.pid)
    try:
        for number in range(10_000):
            listener = "SSL" if number % 5 < 2 else "CLIENT"
            sockets.append(socket.create_connection(("127.0.0.1", secured.ports[listener])))
            if number % 3:
                sockets[-1].sendall(b"\x16\x03\x01" if listener == "SSL" else handshake())
            if number % 2_500 == 2_499:
                assert gets_in(secured.config("SSL"))
                assert gets_in(secured.config("CLIENT") | ADMIN)
                assert gets_in(secured.config("SECURE") | ADMIN)
        for first in (0, 2):  # of each listener
            wait_until(lambda first=first: is_cut_off(sockets[first]), "the oldest is given up")  # type: ignore[misc]
        assert resident_bytes(secured.broker.pid) - before < 150_000_000
    finally:
        for one in sockets:
            one.close()
    secured.log_says("logins are unfinished: the oldest are given up")
    secured.log_says("TLS handshakes are unfinished")


def test_what_strangers_announce_to_send_takes_no_memory_from_clients(secured: Secured) -> None:
    """Thousands of frames that never come: requests in many pieces are received all the same, and so are logins."""
    announced = struct.pack(">i", 500_000) + b"x"
    strangers = []
    try:
        for _ in range(1_000):
            strangers.append(socket.create_connection(("127.0.0.1", secured.ports["CLIENT"])))
            strangers[-1].sendall(announced)
        producer = Producer(secured.config("CLIENT") | ADMIN | {"linger.ms": 500, "compression.codec": "none"})
        delivered: list[object] = []
        for _ in range(90):
            producer.produce(
                own_name("large"), os.urandom(10_000), partition=0, callback=lambda error, _: delivered.append(error)
            )
        assert producer.flush(20) == 0, "before the strangers' thirty seconds are over"
        assert delivered == [None] * 90
        with RawConnection(secured.address("CLIENT")) as raw:
            raw.send(handshake())
            assert error_of(raw.receive()) == 0
            whole = authenticate(TOKEN)
            for at in range(len(whole)):  # in as many pieces as can be
                raw.send(whole[at : at + 1])
            assert error_of(raw.receive()) == 0
        wait_until(lambda: is_cut_off(strangers[0]), "the oldest is given up")
    finally:
        for one in strangers:
            one.close()


def is_cut_off(one: socket.socket) -> bool:
    one.settimeout(0.1)
    try:
        return one.recv(4096) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True
