"""A cluster of three brokers over ZooKeeper, all real processes, shared by the tests of this folder.

A test leaves it as it found it: every broker runs, every partition has all of its replicas in sync (`whole` waits for
that).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.looking import wait_until_whole
from tests.support.process import die_with_parent

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "metrics.listeners": "http://127.0.0.1:0",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/cluster" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("cluster")
    with LocalCluster.make(home, settings=SETTINGS, before_start=die_with_parent) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: LocalCluster) -> Iterator[LocalCluster]:
    yield running
    running.start()
    wait_until_whole(running)
