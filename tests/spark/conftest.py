"""One Spark session and one broker for every test of this folder: a start costs ten seconds and more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from moldau.spark import session
from tests.support.admin import admin_client
from tests.support.broker import Broker
from tests.support.names import own_name

FOLDER = Path(__file__).parent
TEST_SECONDS = 600
"""A busy machine takes ten times as long for a first batch as an idle one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs them all, so that there is one session; a test may choose another group."""
    for item in items:
        if FOLDER not in item.path.parents:
            continue
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group("spark"))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def kerberos_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Kerberos server of a test will say where it is: Spark has to know from its start."""
    return tmp_path_factory.mktemp("spark-kdc")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, kerberos_folder: Path) -> Iterator[SparkSession]:
    os.environ["KRB5_CONFIG"] = str(kerberos_folder / "krb5.conf")
    warehouse = tmp_path_factory.mktemp("spark-warehouse")
    made = session(
        "moldau-tests",
        "local[2]",
        ui=False,
        settings={"spark.sql.warehouse.dir": warehouse.as_uri(), "spark.sql.shuffle.partitions": 2},
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker(tmp_path_factory.mktemp("spark-broker"))
    running.start()
    yield running
    code = running.stop()
    assert code == 0, f"the shared broker ended with {code}\n{running.output()}"


@pytest.fixture
def address(broker: Broker) -> str:
    return broker.address


@pytest.fixture
def admin(address: str) -> AdminClient:
    return admin_client(address)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name nobody else uses; the topic does not exist yet."""
    return own_name(request.node.name)
