"""One Spark session, one broker and one worker for every test of this folder: a start costs ten seconds and more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moldau.spark import session
from tests.support.broker import Broker
from tests.support.connect import ThreadWorker, worker_properties
from tests.support.names import own_name
from tests.support.postgres import Postgres

FOLDER = Path(__file__).parent
TEST_SECONDS = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FOLDER in item.path.parents:
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group("connect"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("spark-warehouse")
    made = session(
        "moldau-connect-tests",
        "local[2]",
        ui=False,
        lag=False,
        settings={"spark.sql.warehouse.dir": warehouse.as_uri(), "spark.sql.shuffle.partitions": 2},
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    running = Broker(tmp_path_factory.mktemp("connect-broker"))
    running.start()
    yield running
    code = running.stop()
    assert code == 0, f"the shared broker ended with {code}\n{running.output()}"


@pytest.fixture
def address(broker: Broker) -> str:
    return broker.address


@pytest.fixture(scope="session")
def worker(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadWorker]:
    folder = tmp_path_factory.mktemp("connect-worker")
    with ThreadWorker(worker_properties(folder, broker.address), spark) as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return own_name(request.node.name)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """With logical replication."""
    server = Postgres(tmp_path_factory.mktemp("postgres"))
    server.start()
    yield server
    server.close()
