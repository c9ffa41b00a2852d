"""A broker of `moldau.testing` for this folder, or the peer that the whole run judges."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from moldau.testing import Broker, Running
from moldau.testing.brokers import Kafka
from tests.clients.conftest import BOOTSTRAP


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    if BOOTSTRAP is not None or os.environ.get("MOLDAU_TEST_PEER"):
        yield Running(request.getfixturevalue("broker").address)
        return
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """A new topic with one partition, which keeps records with times of long ago."""
    return kafka.topic(retention_ms="-1")


@pytest.fixture
def wide_topic(kafka: Kafka) -> str:
    """A new topic with three partitions, likewise."""
    return kafka.topic(partitions=3, retention_ms="-1")
