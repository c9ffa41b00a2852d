"""Followers: by how many connections they follow, and when one that is slow does not count any more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.load import Load
from tests.cluster.looking import admin, create, partitions_of, wait_until_whole
from tests.cluster.test_seen_from_outside import delete, figure, samples
from tests.support.names import own_name
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

FENCED = "kafka_controller_kafkacontroller_fencedbrokercount"
SHRINKS = "kafka_server_replicamanager_isrshrinks_total"


def test_the_number_of_fetchers_changes_while_they_follow(cluster: LocalCluster, tmp_path: Path) -> None:
    topic = own_name("shared-out")
    create(cluster, topic, partitions=9, min_insync_replicas="2")
    with Load(cluster, topic) as load:
        load.goes_on(100)
        assert fetchers(cluster, topic) == {0}
        for count in (2, 4, 2):  # no more than double or half of it at once, as in Kafka
            alter(cluster, tmp_path, str(count))
            wait_until(lambda wanted=count: fetchers(cluster, topic) == set(range(wanted)), f"{count} follow")  # type: ignore[misc]
            load.goes_on(100)
        alter(cluster, tmp_path, None)
        wait_until(lambda: fetchers(cluster, topic) == {0}, "one follows, as at first")
        load.goes_on(100)
    load.assert_nothing_lost_or_doubled()
    wait_until_whole(cluster)
    delete(cluster, topic)


def fetchers(cluster: LocalCluster, topic: str) -> set[int]:
    """Those that follow partitions of this topic, on any broker."""
    pattern = re.compile(rf'clientid="replicafetcherthread-(\d+)-\d+".*topic="{re.escape(topic)}"', re.IGNORECASE)
    names = [name for broker in cluster.brokers for name in samples(cluster, broker)]
    return {int(found.group(1)) for found in map(pattern.search, names) if found is not None}


def alter(cluster: LocalCluster, folder: Path, value: str | None) -> None:
    change = ["--delete-config", "num.replica.fetchers"]
    if value is not None:
        change = ["--add-config", f"num.replica.fetchers={value}"]
    asked = ["--entity-type", "brokers", "--entity-default", "--alter", *change]
    done = our_tool("kafka-configs", ["--bootstrap-server", cluster.bootstrap, *asked], "", folder)
    assert done.code == 0, done


@pytest.mark.timeout(300)
def test_a_follower_that_hangs_leaves_the_in_sync_set_by_its_lag_and_returns(tmp_path: Path) -> None:
    """REP-04: long before its session ends it holds nobody up any more, and it is not taken for dead."""
    settings = {
        "replica.lag.time.max.ms": "2000",
        "zookeeper.session.timeout.ms": "60000",
        "metrics.listeners": "http://127.0.0.1:0",
    }
    with LocalCluster.make(tmp_path / "c", settings=settings, before_start=die_with_parent) as cluster:
        create(cluster, "t", partitions=1, min_insync_replicas="2")
        leader, replicas, _ = partitions_of(cluster, "t")[0]
        client = admin(cluster)
        controller = client.describe_cluster().result(30).controller.id
        slow = next(each for each in replicas if each not in (leader, controller))
        others = sorted(each for each in replicas if each != slow)
        with Load(cluster, "t") as load:
            load.goes_on(100)
            cluster.pause_member(cluster.broker(slow))
            wait_until(lambda: in_sync(cluster, others) == others, "it is left out", 45.0)
            load.goes_on(100)
            assert sum(samples(cluster, cluster.broker(each)).get(FENCED, 0.0) for each in others) == 0
            assert sum(samples(cluster, cluster.broker(each)).get(SHRINKS, 0.0) for each in others) > 0
            cluster.resume_member(cluster.broker(slow))
            wait_until(lambda: in_sync(cluster, others) == sorted(replicas), "it is back", 45.0)
            load.goes_on(100)
        load.assert_nothing_lost_or_doubled()
        assert figure(cluster, FENCED) == 0


def in_sync(cluster: LocalCluster, asked: list[int]) -> list[int]:
    """As brokers tell it that do not hang."""
    addresses = ",".join(cluster.broker(number).address for number in asked)
    client = AdminClient({"bootstrap.servers": addresses, "log_level": 0})
    return sorted(client.list_topics("t", timeout=20).topics["t"].partitions[0].isrs)
