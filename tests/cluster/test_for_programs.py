"""`moldau.testing.Cluster`: several brokers for the tests of a program, of which one dies and comes back."""

from __future__ import annotations

from moldau.testing import Cluster
from tests.support.waiting import wait_until


def test_records_outlive_a_broker_of_a_cluster_for_tests() -> None:
    """PR-15, PER-01, CON-14."""
    with Cluster(brokers=2) as cluster:
        folder = cluster.folder
        with cluster.admin() as admin, cluster.producer() as producer:
            admin.create_topic("teas", 1, 2)
            producer.send("teas", b"one").result(60)
            (before,) = admin.describe_topics("teas")["teas"].partitions
            assert before.leader is not None and set(before.replicas) == {1, 2}
            cluster.kill(before.leader)
            producer.send("teas", b"two").result(60)
            cluster.start(before.leader)
            wait_until(
                lambda: len(admin.describe_topics("teas")["teas"].partitions[0].in_sync_replicas) == 2,
                "the broker has caught up",
                60,
            )
            cluster.stop(3 - before.leader)
            assert cluster.values("teas", 2, 60.0) == [b"one", b"two"]
    assert not folder.exists()
