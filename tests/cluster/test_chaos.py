"""The short form of `python -m tests.faults.cluster_chaos`: three ZooKeeper servers, three brokers behind proxies, and
some of the faults.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.cluster_chaos import logs_of, new_cluster, run
from tests.faults.proxies import Proxies

FAULTS = (
    "kill-zookeeper-leader", "cut-leader-off", "kill-two-brokers", "kill-leader-and-controller",
    "pause-leader", "kill-zookeeper-follower",
)  # fmt: skip
SEED = 34
"""With it the leader is paused for 11 seconds, and its session ends meanwhile."""


@pytest.mark.timeout(600)
def test_faults_under_a_producer_a_group_and_a_transactional_copy(tmp_path: Path) -> None:
    with Proxies() as network:
        cluster = new_cluster(tmp_path / "cluster", network)
        try:
            print(run(cluster, SEED, FAULTS, 5.0, print, network))
        except AssertionError as broken:
            raise AssertionError(f"{broken}\n{logs_of(cluster)}") from broken
        finally:
            cluster.kill_all()
