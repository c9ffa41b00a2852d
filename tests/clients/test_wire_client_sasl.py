"""Our own small client proves who it is to Apache Kafka: PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.client.cluster import Cluster
from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import ClientSettings
from tests.peers.apache_kafka import CONFIG_COMMAND, ApacheKafka, java_tool
from tests.support.process import free_port

pytestmark = pytest.mark.live

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    plain, secure, controller = free_port(), free_port(), free_port()
    listener = "listener.name.sasl_plaintext"
    settings = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secure}",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{listener}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_alice="secret";',
        f"{listener}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    }
    with ApacheKafka(tmp_path_factory.mktemp("secured"), settings, port=plain) as broker:
        for mechanism in MECHANISMS[1:]:
            user = ("--entity-type", "users", "--entity-name", "alice")
            change = ("--alter", "--add-config", f"{mechanism}=[password=secret]")
            java_tool(CONFIG_COMMAND, "--bootstrap-server", broker.address, *change, *user)
        yield f"127.0.0.1:{secure}"


def login(address: str, mechanism: str, password: str) -> ClientSettings:
    return ClientSettings.from_properties(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
        }
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_password_opens(secured: str, mechanism: str) -> None:
    with Cluster(login(secured, mechanism, "secret")) as cluster:
        assert cluster.broker_ids() == [1]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_wrong_password_is_refused_with_the_user(secured: str, mechanism: str) -> None:
    with Cluster(login(secured, mechanism, "wrong")) as cluster, pytest.raises(AuthenticationFailed, match="alice"):
        cluster.metadata([])
