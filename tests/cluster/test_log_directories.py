"""One of several log directories of a broker fails: others lead what was in it, and the rest of the broker goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.cli.cluster.local_cluster import OWN_FOLDER, LocalCluster, Process
from tests.cluster.conftest import SETTINGS
from tests.cluster.load import Load
from tests.cluster.looking import QUIET, create, partitions_of, wait_until_whole
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

TWO_FOLDERS = {**SETTINGS, "log.dirs": f"{OWN_FOLDER}/data,{OWN_FOLDER}/more", "auto.leader.rebalance.enable": "false"}


@pytest.mark.timeout(300)
def test_others_lead_what_was_in_a_folder_that_failed(tmp_path: Path) -> None:
    with LocalCluster.make(tmp_path / "cluster", settings=TWO_FOLDERS, before_start=die_with_parent) as cluster:
        create(cluster, "t", 6, min_insync_replicas="2", segment_bytes="1048576", segment_ms="1000")
        victim = cluster.broker(2)
        wait_until(lambda: len(kept_in(cluster, victim, "*")) == 6, "the broker has made all of its logs")
        lost = kept_in(cluster, victim, "more")
        led = {index for index, (leader, _, _) in partitions_of(cluster, "t").items() if leader == victim.number}
        assert lost
        with Load(cluster, "t") as load:
            shutil.rmtree(cluster.folder(victim) / "more")
            wait_until(lambda: in_sync(cluster, victim.number).isdisjoint(lost), "others lead what was in it", 60.0)
            load.goes_on(300)
            assert in_sync(cluster, victim.number) == set(range(6)) - lost, "the other folder serves"
            assert {leader for index, (leader, _, _) in partitions_of(cluster, "t").items() if index in led - lost} <= {
                2
            }
        load.assert_nothing_lost_or_doubled()
        cluster.kill_member(victim)
        cluster.start_member(victim)
        wait_until_whole(cluster)
        load.assert_nothing_lost_or_doubled()


@pytest.mark.timeout(300)
def test_a_replaced_disk_of_the_only_broker_in_sync_empties_no_other_replica(tmp_path: Path) -> None:
    """An empty log in its place may not lead: the others would cut theirs to its end. What lies on its other disk leads
    again, and has all that was acknowledged."""
    with LocalCluster.make(tmp_path / "cluster", settings=TWO_FOLDERS, before_start=die_with_parent) as cluster:
        create(cluster, "t", 6)
        victim, others = cluster.broker(2), [cluster.broker(1), cluster.broker(3)]
        write(cluster, "t", range(6), "all have it")
        wait_until(lambda: len(kept_in(cluster, victim, "*")) == 6, "the broker has made all of its logs")
        lost, left = kept_in(cluster, victim, "more"), kept_in(cluster, victim, "data")
        for other in others:
            cluster.stop_member(other)
        wait_until(lambda: all(isr == [2] for _, _, isr in partitions_of(cluster, "t").values()), "it is alone", 60.0)
        write(cluster, "t", range(6), "one has it")
        cluster.kill_member(victim)
        shutil.rmtree(cluster.folder(victim) / "more")
        cluster.start()
        wait_until(lambda: leaders(cluster) == {**dict.fromkeys(left, 2), **dict.fromkeys(lost, -1)}, "as it was", 60.0)
        for index in lost:
            for other in others:
                assert b"all have it" in stored(cluster, other, index)
        wait_until(lambda: all(len(isr) == 3 for isr in in_sync_sets(cluster, left)), "the rest goes on", 60.0)
        write(cluster, "t", left, "all have it again")
        for index in left:
            assert b"one has it" in stored(cluster, others[0], index)


def stored(cluster: LocalCluster, member: Process, index: int) -> bytes:
    folder = cluster.folder(member)
    return b"".join(path.read_bytes() for path in folder.glob(f"*/t-{index}/*.log"))


def in_sync_sets(cluster: LocalCluster, indexes: set[int]) -> list[list[int]]:
    return [isr for index, (_, _, isr) in partitions_of(cluster, "t").items() if index in indexes]


def write(cluster: LocalCluster, topic: str, partitions: Iterable[int], value: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET})
    for index in partitions:
        producer.produce(topic, value, partition=index)
    assert producer.flush(60) == 0


def leaders(cluster: LocalCluster) -> dict[int, int]:
    return {index: leader for index, (leader, _, _) in partitions_of(cluster, "t").items()}


def kept_in(cluster: LocalCluster, member: Process, directory: str) -> set[int]:
    """The partitions whose logs lie there: a topic is there before each of its copies has its folder."""
    return {int(path.name.removeprefix("t-")) for path in cluster.folder(member).glob(f"{directory}/t-*")}


def in_sync(cluster: LocalCluster, broker: int) -> set[int]:
    return {index for index, (_, _, isr) in partitions_of(cluster, "t").items() if broker in isr}
