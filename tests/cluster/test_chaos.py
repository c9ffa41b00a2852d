"""The short form of `python -m tests.faults.cluster_chaos`: three ZooKeeper servers, three brokers, three faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cluster_chaos import logs_of, new_cluster, run

FAULTS = ("kill-zookeeper-leader", "kill-leader-and-controller", "kill-broker")
SEED = 34


@pytest.mark.timeout(600)
def test_faults_under_a_producer_a_group_and_a_transactional_copy(tmp_path: Path) -> None:
    cluster = new_cluster(tmp_path / "cluster")
    try:
        print(run(cluster, SEED, FAULTS, 5.0, print))
    except AssertionError as broken:
        raise AssertionError(f"{broken}\n{logs_of(cluster)}") from broken
    finally:
        cluster.kill_all()
