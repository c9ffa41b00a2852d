"""Our own small client proves who it is to Apache Kafka: PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.client.cluster import Cluster
from moldau.client.errors import AuthenticationFailed
from moldau.client.settings import ClientSettings
from tests.peers.secured_kafka import MECHANISMS, secured_kafka

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        yield kafka.address


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
