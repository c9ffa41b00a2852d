"""OAUTHBEARER: real clients get a token from a token server and log in with it; no other token lets anybody in."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.net.sasl.oauth import AbstractTokenProvider

from moldau.client.connection import Connection
from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import ClientSettings
from moldau.config.oauth import OauthSettings
from moldau.server.token_keys import KeysUnreadable, TokenKeys, read_keys
from moldau.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.peers.apache_kafka import TOOLS, java_tool
from tests.support.broker import Broker
from tests.support.command import run
from tests.support.loops import on_loop
from tests.support.names import own_name
from tests.support.process import free_port
from tests.support.tls import make_certificates, tls_proxy
from tests.support.token_server import AUDIENCE, ISSUER, TokenServer, token_server
from tests.support.waiting import wait_until

HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
UNSIGNED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenServer]:
    with token_server({"alice": "alice-secret"}) as running:
        yield running


class Guarded:
    def __init__(self, folder: Path, tokens: TokenServer) -> None:
        self.ports = {name: free_port() for name in ("SIGNED", "FILE", "DEV")}
        self.key_file = folder / "keys.json"
        self.key_file.write_bytes(tokens.maker.key_set())
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        signed = {
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": f"others,{AUDIENCE}",
            "listener.name.signed.oauthbearer.sasl.jaas.config": f'{MODULE} requiredScope="kafka";',
            "listener.name.signed.oauthbearer.sasl.server.callback.handler.class": HANDLER,
            "listener.name.signed.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
            "listener.name.file.sasl.oauthbearer.jwks.endpoint.url": self.key_file.as_uri(),
            "listener.name.dev.oauthbearer.sasl.server.callback.handler.class": UNSIGNED,
        }
        self.broker = Broker(
            folder / "broker",
            {
                "listeners": ",".join(["PLAINTEXT://127.0.0.1:0", *listeners]),
                "listener.security.protocol.map": (
                    "PLAINTEXT:PLAINTEXT,SIGNED:SASL_PLAINTEXT,FILE:SASL_PLAINTEXT,DEV:SASL_PLAINTEXT"
                ),
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "connection.failed.authentication.delay.ms": 10,
                **signed,
            },
        )

    def address(self, listener: str = "SIGNED") -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def config(self, listener: str = "SIGNED", **more: Any) -> dict[str, Any]:
        common = {"bootstrap.servers": self.address(listener), "security.protocol": "SASL_PLAINTEXT", "log_level": 0}
        return common | {"sasl.mechanism": "OAUTHBEARER"} | more

    def says(self, text: str) -> None:
        wait_until(lambda: text in self.broker.output(), f"the broker's log says {text!r}")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, tokens: TokenServer) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("oauth"), tokens)
    made.broker.start()
    yield made
    assert made.broker.stop() == 0, made.broker.output()
    assert "Traceback" not in made.broker.output(), made.broker.output()


def oidc(tokens: TokenServer, secret: str = "alice-secret") -> dict[str, str]:
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": tokens.token_url,
        "sasl.oauthbearer.scope": "kafka",
    }


def showing(token: Callable[[], str]) -> dict[str, Any]:
    """librdkafka with a token of our own making."""
    return {"oauth_cb": lambda _: (token(), time.time() + 100, "alice", {})}


def gets_in(config: dict[str, Any]) -> bool:
    try:
        client = AdminClient(config)
        client.poll(0)
        return bool(client.list_topics(timeout=3).cluster_id)
    except KafkaException:
        return False


def is_refused(config: dict[str, Any]) -> bool:
    """Whether the broker tells librdkafka that its token is no good, or there is none to show."""
    said: list[KafkaError] = []
    client = AdminClient(config | {"error_cb": said.append})
    wait_until(lambda: client.poll(0.05) and said, "librdkafka tells of an error")
    return said[0].code() == KafkaError._AUTHENTICATION


def test_librdkafka_gets_a_token_and_moves_records(guarded: Guarded, tokens: TokenServer) -> None:
    config, topic = guarded.config() | oidc(tokens), own_name("oidc")
    producer = Producer(config)
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer(config | {"group.id": topic})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(20)
    assert message is not None and message.value() == b"value"
    consumer.close()
    assert "alice" in tokens.asked


def test_a_wrong_secret_gets_no_token(guarded: Guarded, tokens: TokenServer) -> None:
    assert is_refused(guarded.config() | oidc(tokens, "wrong"))


def test_kafka_python_and_aiokafka_log_in(guarded: Guarded, tokens: TokenServer) -> None:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens.maker.token("alice")

    common = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    client = KafkaAdminClient(bootstrap_servers=guarded.address(), sasl_oauth_token_provider=Provider(), **common)
    assert isinstance(client.list_topics(), list)
    client.close()

    class AioProvider(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return tokens.maker.token("alice")

    async def ask() -> list[str]:
        found = AIOKafkaAdminClient(
            bootstrap_servers=guarded.address(), sasl_oauth_token_provider=AioProvider(), **common
        )
        await found.start()
        try:
            return await found.list_topics()  # type: ignore[no-any-return]
        finally:
            await found.close()

    assert isinstance(asyncio.run(ask()), list)


JAAS = f'{MODULE} clientId="alice" clientSecret="alice-secret" scope="kafka";'


def test_our_client_and_commands_log_in_as_java_is_told_to(
    guarded: Guarded, tokens: TokenServer, tmp_path: Path
) -> None:
    properties = {
        "bootstrap.servers": guarded.address(),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": tokens.token_url,
        "sasl.jaas.config": JAAS,
    }
    settings = ClientSettings.from_properties(properties)
    assert not settings.needs_librdkafka
    with Connection(settings.bootstrap[0], settings) as connection:
        assert connection.call(MetadataRequest(topics=[]), MetadataResponse).cluster_id
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    assert run("topic", "list", "--command-config", file).code == 0
    token_file = tmp_path / "token"
    for token, lets_in in ((tokens.maker.token("bob"), True), (tokens.maker.token("bob", aud="nobody"), False)):
        token_file.write_text(token)
        named = properties | {"sasl.oauthbearer.token.endpoint.url": f"{token_file.as_uri()}?{lets_in}"}
        settings = ClientSettings.from_properties(named)
        if lets_in:
            Connection(settings.bootstrap[0], settings).close()
        else:
            with pytest.raises(AuthenticationFailed, match="invalid_token"):
                Connection(settings.bootstrap[0], settings)


@pytest.mark.live
def test_java_logs_in(guarded: Guarded, tokens: TokenServer, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={handler}\n"
        f"sasl.oauthbearer.token.endpoint.url={tokens.token_url}\nsasl.jaas.config={JAAS}\n"
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.token_url}"
    done = java_tool(
        TOOLS + "TopicCommand", "--bootstrap-server", guarded.address(), "--command-config", file, "--create",
        "--topic", own_name("java-oauth"), options=[allowed],
    )  # fmt: skip
    assert "Created topic" in done.stdout


def test_wrong_tokens_let_nobody_in(guarded: Guarded, tokens: TokenServer) -> None:
    wrong = {
        "the token has expired": lambda: tokens.maker.token("alice", exp=time.time() - 100),
        "expected is 'https://tokens.example'": lambda: tokens.maker.token("alice", iss="https://evil.example"),
        "expected is others, moldau": lambda: tokens.maker.token("alice", aud="somebody"),
        "the token lacks the scope kafka": lambda: tokens.maker.token("alice", scope="mail"),
        "names nobody": lambda: tokens.maker.token(" "),
        "a token with the algorithm 'none'": lambda: unsigned_token(tokens),
    }
    for said, token in wrong.items():
        assert is_refused(guarded.config() | showing(token)), said
        guarded.says(said)
    assert gets_in(guarded.config() | showing(lambda: tokens.maker.token("alice")))


def unsigned_token(tokens: TokenServer) -> str:
    from moldau.client.oauth import unsigned

    claims = {name: value for name, value in tokens.maker.claims("alice").items() if isinstance(value, str)}
    return unsigned(claims, time.time(), 300)


def test_unsigned_tokens_are_taken_on_the_listener_that_was_told_to(guarded: Guarded, tokens: TokenServer) -> None:
    unsecured = {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=dev"}
    assert gets_in(guarded.config("DEV") | unsecured)
    assert is_refused(guarded.config("SIGNED") | unsecured)
    assert is_refused(guarded.config("FILE") | unsecured)
    settings = ClientSettings.from_properties(
        {
            "bootstrap.servers": guarded.address("DEV"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="dev";',
        }
    )
    Connection(settings.bootstrap[0], settings).close()


def test_new_keys_are_found_when_a_token_names_them(guarded: Guarded, tokens: TokenServer) -> None:
    old = tokens.maker.token("alice")
    assert gets_in(guarded.config() | showing(lambda: old))
    tokens.maker.renew("second")
    token = tokens.maker.token("alice")
    wait_until(lambda: gets_in(guarded.config() | showing(lambda: token)), "the new key is found")
    assert is_refused(guarded.config() | showing(lambda: old))  # its key is not among the server's any more
    assert is_refused(guarded.config("FILE") | showing(lambda: token))
    guarded.key_file.write_bytes(tokens.maker.key_set())
    wait_until(lambda: gets_in(guarded.config("FILE") | showing(lambda: token)), "the new key is read from the file")


def test_a_connection_ends_with_its_token_and_clients_go_on_with_a_new_one(guarded: Guarded) -> None:
    """librdkafka logs in again on the same connection; whoever does not is cut off."""
    with token_server({"alice": "alice-secret"}) as other:
        other.maker.renew("other")  # a key of another id: the broker does not look for one again that it has
        guarded.key_file.write_bytes(other.maker.key_set())
        made: list[float] = []

        def short_lived(_: object) -> tuple[str, float, str, dict[str, str]]:
            made.append(time.time())
            ends_at = time.time() + 4
            return other.maker.token("alice", exp=ends_at), ends_at, "alice", {}

        config = guarded.config("FILE") | showing(lambda: other.maker.token("alice"))
        wait_until(lambda: gets_in(config), "the keys are read", 120.0)
        producer = Producer(guarded.config("FILE", oauth_cb=short_lived))
        topic, delivered = own_name("short-lived"), []
        while len(made) < 4:
            producer.produce(topic, b"x", on_delivery=lambda error, _: delivered.append(error))
            assert producer.flush(30) == 0
        assert set(delivered) == {None}


def test_a_server_of_keys_that_speaks_no_http_leaves_what_is_known() -> None:
    """It is an error like any other, which the broker tells and tries again, also at its start."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)
                client.sendall(b"nonsense\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(KeysUnreadable, match="nonsense"):
            read_keys(f"http://127.0.0.1:{server.getsockname()[1]}/keys", None)
        answering.join()


def test_who_is_asked_over_tls_cannot_send_us_on_to_where_there_is_none(tokens: TokenServer, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    with tls_proxy(tokens.url.removeprefix("http://"), certificates) as address:
        assert read_keys(f"https://{address}/keys", str(certificates.certificate))
        with pytest.raises(KeysUnreadable, match="which is not encrypted"):
            read_keys(f"https://{address}/moved", str(certificates.certificate))
    assert read_keys(f"{tokens.url}/moved", None)


@on_loop
async def test_keys_that_come_in_the_clear_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    for scheme in ("https", "http"):
        TokenKeys("CLIENTS", OauthSettings(f"{scheme}://tokens.example/keys"), lambda work: asyncio.Future())
    (warned,) = caplog.messages
    assert warned.startswith("listener CLIENTS: keys for tokens come from http://tokens.example/keys, without TLS")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "the keys that tokens are checked with are needed"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://x"}, "an https, http or file URL"),
        ({"sasl.server.callback.handler.class": "my.Own"}, "sasl.server.callback.handler.class"),
    ],
)
def test_a_listener_that_could_not_check_tokens_does_not_start(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    listener = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "OAUTHBEARER"}
    given = [part for name, value in (listener | settings).items() for part in ("--set", f"{name}={value}")]
    done = run("broker", "start", "--data", tmp_path, *given)
    assert done.code == 2
    assert said in done.err
