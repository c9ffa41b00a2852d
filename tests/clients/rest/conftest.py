"""One broker, and registry and proxy in one process, for all tests of the REST proxy."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.peers.choice import new_broker
from tests.support.process import BrokerProcess
from tests.support.rest import Proxy

QUICK = {
    "registry.listeners": "http://127.0.0.1:0",
    "rest.listeners": "http://127.0.0.1:0",
    "kafkagroup.session.timeout.ms": "6000",
    "tail.progress.ms": "200",
    "fetch.min.bytes": "1",
    "consumer.request.timeout.ms": "500",
}


@pytest.fixture(scope="session", params=["moldau", pytest.param("apache", marks=pytest.mark.live)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with new_broker(tmp_path_factory.mktemp("broker"), settings, peer=request.param) as found:
        yield found


@pytest.fixture(scope="session")
def proxy(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Registry and proxy in one process."""
    with Proxy(tmp_path_factory.mktemp("services"), broker.address, QUICK, ("services", "start")) as found:
        yield found


@pytest.fixture
def name() -> str:
    return f"r-{uuid4().hex[:8]}"


@pytest.fixture
def topic(proxy: Proxy, name: str) -> str:
    made = proxy.ask("POST", f"{proxy.cluster}/topics", {"topic_name": name, "partitions_count": 2})
    assert made.status == 201
    return name
