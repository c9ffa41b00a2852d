"""One broker for the commands of a test run (of an xdist worker); tests keep apart by topics and groups of their own.

MOLDAU_TEST_PEER=apache puts Apache Kafka in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka.admin import AdminClient

from tests.peers.choice import new_broker
from tests.support.admin import admin_client
from tests.support.command import Ran, run
from tests.support.names import own_name
from tests.support.process import BrokerProcess


class Moldau(Protocol):
    def __call__(self, *arguments: object, stdin: str = "") -> Ran: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = new_broker(tmp_path_factory.mktemp("cli-broker"), {})
    process.start()
    yield process
    code = process.stop()
    assert code == 0, f"the shared broker ended with {code}\n{process.output()}"


@pytest.fixture
def address(broker: BrokerProcess) -> str:
    return broker.address


@pytest.fixture
def admin(address: str) -> AdminClient:
    return admin_client(address)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name nobody else uses, for a topic or a group."""
    return own_name(request.node.name, longest=100)


@pytest.fixture
def moldau(address: str, tmp_path: Path) -> Moldau:
    """The command in this process, with the shared broker as its cluster and profiles of its own."""
    environment = {"MOLDAU_BOOTSTRAP_SERVERS": address, "MOLDAU_CONFIG": str(tmp_path / "profiles.toml")}

    def call(*arguments: object, stdin: str = "") -> Ran:
        return run(*arguments, stdin=stdin, environment=environment)

    return call
