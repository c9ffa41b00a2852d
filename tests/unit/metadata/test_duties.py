"""What a controller does from one image to the next, until nothing is left to do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from moldau.metadata import codec, paths
from moldau.metadata.controller.brokers import put_state
from moldau.metadata.controller.claim import claim
from moldau.metadata.controller.decision import PARTITIONS_PER_COMMIT, Decision
from moldau.metadata.controller.duties import Done, DutySettings, Evidence, duties
from moldau.metadata.controller.partitions import MorePartitions, create_partitions
from moldau.metadata.controller.shutdown import begin_shutdown
from moldau.metadata.controller.topic_creation import NewTopic, create_topics
from moldau.metadata.controller.topic_deletion import TopicReference, delete_topics
from moldau.metadata.image import NO_LEADER
from moldau.metadata.store import Check, Put
from moldau.types.errors import ErrorCode
from moldau.work.slices import at_once
from tests.support.metadata import Cluster

ALL = (1, 2, 3)


def decided(
    cluster: Cluster, alive: Collection[int] = ALL, *, dead: Collection[int] = (), **settings: Any
) -> Decision[Done]:
    image = cluster.image
    evidence = Evidence(
        {broker.id: broker.epoch for broker in image.brokers.values()},
        frozenset(image.brokers[broker].incarnation for broker in dead),
    )
    return at_once(duties(image, alive, evidence, 1_000, DutySettings(cluster.config, **settings)))


def work(cluster: Cluster, alive: Collection[int] = ALL, *, dead: Collection[int] = (), **settings: Any) -> list[Done]:
    done = []
    while (decision := decided(cluster, alive, dead=dead, **settings)).operations:
        for part in decision.parts:
            cluster.commit(part)
        done.append(decision.answer)
        assert len(done) < 20
    return done


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster(dict.fromkeys(ALL))
    found.decide(lambda image: claim(image, 1))
    found.create(NewTopic("t", assignments=tuple((n, (2, 3, 1)) for n in range(3))))
    found.create(NewTopic("__consumer_offsets", assignments=((0, (2, 3)),)))
    return found


def test_where_all_is_well_nothing_is_done(cluster: Cluster) -> None:
    assert work(cluster) == []


def test_who_is_gone_is_fenced_and_leads_nothing(cluster: Cluster) -> None:
    assert work(cluster, (1, 3)) == [Done(fenced=(2,), partitions=4, elections=4)]
    assert cluster.image.brokers[2].fenced
    assert all(partition.leader == 3 for topic in cluster.image.topics.values() for partition in topic.partitions)
    assert not cluster.image.index.in_sync_at(2)


def test_the_fence_comes_first_and_internal_topics_before_others(cluster: Cluster) -> None:
    touched = [operation.path for operation in decided(cluster, (1, 3)).operations]
    assert touched[:2] == [paths.broker_state(2), paths.partition("__consumer_offsets", 0)]


def test_leaders_come_before_followers(cluster: Cluster) -> None:
    cluster.create(NewTopic("a", assignments=((0, (1, 2)),)))
    touched = [operation.path for operation in decided(cluster, (1, 3)).operations]
    assert touched[-1] == paths.partition("a", 0)


def test_evidence_of_death_counts_against_presence(cluster: Cluster) -> None:
    assert work(cluster, dead=(2,))[0].fenced == (2,)
    assert work(cluster, dead=(2,)) == []
    assert work(cluster)[0].unfenced == (2,)


def test_a_controller_that_does_not_see_itself_fences_nobody(cluster: Cluster) -> None:
    assert work(cluster, ()) == []


def test_a_broker_that_returns_waits_until_it_has_seen_itself(cluster: Cluster) -> None:
    work(cluster, (1, 3))
    cluster.register(2, fenced=True)
    image = cluster.image
    settings = DutySettings(cluster.config)
    assert not at_once(duties(image, ALL, Evidence({2: image.brokers[2].epoch - 1}), 0, settings)).operations
    assert work(cluster)[0].unfenced == (2,)
    assert cluster.image.topics["t"].partitions[0].isr == (3, 1)


def test_a_quick_restart_is_one_commit_that_ends_what_it_was(cluster: Cluster) -> None:
    cluster.register(2, fenced=True)
    (done,) = work(cluster)
    assert (done.unfenced, done.elections) == ((2,), 4)
    for partition in cluster.image.topics["t"].partitions:
        assert (partition.leader, partition.isr, partition.leader_epoch) == (3, (3, 1), 1)


@pytest.mark.parametrize("trusts", [True, False])
def test_a_kill_is_an_unclean_stop_where_boot_ids_are_not_trusted(trusts: bool) -> None:
    """Of two that are needed, one is left, and waits for the other: what that one claims depends on how it returns."""
    cluster = Cluster(dict.fromkeys(ALL), min_insync_replicas="2")
    cluster.decide(lambda image: claim(image, 1))
    cluster.create(NewTopic("t", assignments=((0, (2, 3)),)))
    work(cluster, (1, 3))
    assert cluster.image.topics["t"].partitions[0].elr == (2,)
    cluster.register(2, fenced=True)
    work(cluster, (1, 2), trust_boot_id=trusts)
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.leader == 2) is trusts, partition


def test_a_broker_alone_leads_again_in_a_new_epoch() -> None:
    cluster = Cluster()
    cluster.create(NewTopic("t", 5, 1))
    cluster.register(1, fenced=True)
    (done,) = work(cluster, (1,))
    assert (done.unfenced, done.partitions) == ((1,), 5)
    for partition in cluster.image.topics["t"].partitions:
        assert (partition.leader, partition.isr, partition.leader_epoch, partition.elr) == (1, (1,), 1, ())


def test_a_return_that_is_too_large_for_one_commit_is_done_in_two_steps(cluster: Cluster) -> None:
    cluster.register(2, fenced=True)
    first = decided(cluster, partitions_per_commit=3)
    assert (first.answer.unfenced, first.whole, first.answer.partitions) == ((), False, 3)
    for part in first.parts:
        cluster.commit(part)
    assert len(cluster.image.index.in_sync_at(2)) == 1
    (second,) = work(cluster, partitions_per_commit=3)
    assert second.unfenced == (2,)
    assert not cluster.image.index.in_sync_at(2)


def test_elections_do_not_wait_until_all_is_decided() -> None:
    cluster = Cluster(dict.fromkeys(ALL))
    many = PARTITIONS_PER_COMMIT + 500
    cluster.create(NewTopic("a", assignments=tuple((n, (3, 2)) for n in range(100))))
    cluster.create(NewTopic("t", assignments=tuple((n, (2, 3)) for n in range(many))))
    first, second = work(cluster, (1, 3))
    assert (first.fenced, first.elections, first.partitions) == ((2,), PARTITIONS_PER_COMMIT, PARTITIONS_PER_COMMIT)
    assert (second.fenced, second.elections, second.partitions) == ((), 500, 600)
    assert len(cluster.image.index.led_by(3)) == many + 100


def test_a_controlled_shutdown_is_gone_on_with(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[2].epoch
    cluster.commit([put_state(cluster.image.brokers[2], fenced=False, shutting_down=True)])
    (done,) = work(cluster)
    assert (done.elections, done.fenced) == (4, ())
    answer = cluster.decide(lambda image: begin_shutdown(image, 2, epoch, cluster.config))
    assert (answer.moved, answer.left) == (0, 0)
    assert not cluster.image.brokers[2].is_active


def test_preferred_leaders_get_their_partitions_back_when_it_is_time(cluster: Cluster) -> None:
    for index in range(3):
        cluster.put_partition("t", index, leader=3, leader_epoch=1)
    assert work(cluster) == []
    assert work(cluster, balance_at_ms=1_001) == []
    decision = decided(cluster, balance_at_ms=1_000)
    assert decision.answer == Done(partitions=3, elections=3, balanced=True)
    work(cluster, balance_at_ms=1_000)
    assert {partition.leader for partition in cluster.image.topics["t"].partitions} == {2}


def test_a_small_imbalance_is_left(cluster: Cluster) -> None:
    cluster.put_partition("t", 0, leader=3)
    assert work(cluster, balance_at_ms=0, imbalance_percentage=25) == []
    assert len(work(cluster, balance_at_ms=0, imbalance_percentage=24)) == 1


def test_a_preferred_leader_that_is_not_in_sync_is_not_elected(cluster: Cluster) -> None:
    for index in range(3):
        cluster.put_partition("t", index, leader=3, isr=(3, 1))
    assert work(cluster, balance_at_ms=0) == []


def test_a_creation_that_broke_off_is_swept(cluster: Cluster) -> None:
    many = tuple((n, (1, 2)) for n in range(PARTITIONS_PER_COMMIT + 5))
    wanted = [NewTopic("new", assignments=many, configs=(("retention.ms", "5"),))]
    creation = at_once(create_topics(cluster.image, wanted, cluster.config, cluster.rng, cluster.uuids.__next__))
    first, second = creation.parts
    assert second[-1].path == paths.topic("new")
    before = cluster.image.topics
    cluster.commit(first)
    assert cluster.image.topics == before
    (done,) = work(cluster)
    assert done.swept == PARTITIONS_PER_COMMIT
    assert not cluster.image.loose
    assert not any("new" in path for path in cluster.entries)
    cluster.commit(first)
    assert cluster.create(*wanted)[0].code is ErrorCode.NONE
    assert len(cluster.image.topics["new"].partitions) == PARTITIONS_PER_COMMIT + 5


def test_a_growth_that_broke_off_is_swept(cluster: Cluster) -> None:
    growth = at_once(create_partitions(cluster.image, [MorePartitions("t", 5)], cluster.rng))
    cluster.commit(growth.operations[:1])
    assert len(cluster.image.topics["t"].partitions) == 3
    assert work(cluster) == [Done(swept=1)]


def test_a_deletion_that_broke_off_is_swept(cluster: Cluster) -> None:
    many = tuple((n, (1, 2)) for n in range(PARTITIONS_PER_COMMIT + 5))
    cluster.create(NewTopic("old", assignments=many, configs=(("retention.ms", "5"),)))
    deletion = at_once(delete_topics(cluster.image, [TopicReference("old")]))
    cluster.commit(deletion.parts[0])
    assert "old" not in cluster.image.topics
    work(cluster)
    assert not any("old" in path for path in cluster.entries)


def test_a_deletion_with_a_broker_down_is_one_commit(cluster: Cluster) -> None:
    work(cluster, (1, 3))
    version = cluster.image.version
    cluster.decide(lambda image: delete_topics(image, [TopicReference("t")]))
    assert cluster.image.version == version + 1
    assert [topic.name for topic in cluster.delta.deleted] == ["t"]
    assert work(cluster, (1, 3)) == []


def test_no_decision_is_larger_than_a_store_takes() -> None:
    value = codec.encode_settings({"x": "y" * 400_000})
    decision = Decision([Put(f"/configs/groups/{n}", value) for n in range(5)], None)
    assert [len(part) for part in decision.parts] == [2, 2, 1]
    assert [len(part) for part in replace(decision, whole=True).parts] == [5]
    assert Decision([], None).parts == []
    assert Decision([Check("/controller", 3)], None).parts == [[Check("/controller", 3)]]


def test_a_partition_without_anybody_waits(cluster: Cluster) -> None:
    work(cluster, (1,))
    partition = cluster.image.topics["__consumer_offsets"].partitions[0]
    assert (partition.leader, partition.elr) == (NO_LEADER, (2, 3))
    work(cluster, (1, 3))
    assert cluster.image.topics["__consumer_offsets"].partitions[0].leader == 3
