"""Other replicas for partitions, while they are in use."""

from __future__ import annotations

import pytest

from moldau.metadata.controller.fencing import fence
from moldau.metadata.controller.in_sync import WantedIsr, alter_partitions
from moldau.metadata.controller.reassignment import (
    Reassigned,
    Reassignment,
    WantedReplicas,
    alter_reassignments,
    list_reassignments,
)
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.image import PartitionImage
from moldau.types.errors import ErrorCode
from tests.support.metadata import Cluster


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster(dict.fromkeys(range(1, 8)))
    found.create(NewTopic("t", assignments=((0, (1, 2, 3)),)))
    return found


def partition(cluster: Cluster) -> PartitionImage:
    return cluster.image.topics["t"].partitions[0]


def reassign(cluster: Cluster, *replicas: int, keep_factor: bool = False) -> Reassigned:
    wanted = WantedReplicas("t", 0, replicas or None)
    (answer,) = cluster.decide(
        lambda image: alter_reassignments(
            image, [wanted], cluster.config, allow_replication_factor_change=not keep_factor
        )
    )
    return answer


def in_sync(cluster: Cluster, *isr: int) -> ErrorCode:
    found, image = partition(cluster), cluster.image
    members = tuple((broker, image.brokers[broker].epoch) for broker in isr)
    wanted = WantedIsr(image.topics["t"].id, 0, found.leader_epoch, found.partition_epoch, members)
    epoch = image.brokers[found.leader].epoch
    (answer,) = cluster.decide(lambda now: alter_partitions(now, found.leader, epoch, [wanted], cluster.config))
    return answer.code


def test_a_whole_move(cluster: Cluster) -> None:
    assert reassign(cluster, 4, 5, 3) == Reassigned("t", 0)
    found = partition(cluster)
    assert (found.replicas, found.adding, found.removing) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert (found.isr, found.leader, found.leader_epoch) == ((1, 2, 3), 1, 0)
    assert list_reassignments(cluster.image, None) == [("t", [Reassignment(0, (4, 5, 3, 1, 2), (4, 5), (1, 2))])]
    assert list_reassignments(cluster.image, [("t", [0, 7]), ("x", [0])]) == list_reassignments(cluster.image, None)
    assert in_sync(cluster, 1, 2, 3, 4) is ErrorCode.NONE
    assert partition(cluster).is_reassigning
    assert in_sync(cluster, 1, 2, 3, 4, 5) is ErrorCode.NEW_LEADER_ELECTED
    found = partition(cluster)
    assert (found.replicas, found.isr, found.adding, found.removing) == ((4, 5, 3), (3, 4, 5), (), ())
    assert (found.leader, found.leader_epoch) == (4, 1)
    assert list_reassignments(cluster.image, None) == []


def test_the_leader_that_stays_gets_an_epoch_when_a_replica_leaves(cluster: Cluster) -> None:
    reassign(cluster, 1, 2)
    found = partition(cluster)
    assert (found.replicas, found.isr, found.leader, found.leader_epoch) == ((1, 2), (1, 2), 1, 1)


def test_another_order_is_done_at_once_and_moves_nothing(cluster: Cluster) -> None:
    reassign(cluster, 3, 2, 1)
    found = partition(cluster)
    assert (found.replicas, found.leader, found.leader_epoch, found.partition_epoch) == ((3, 2, 1), 1, 0, 1)
    before = cluster.image
    reassign(cluster, 3, 2, 1)
    assert cluster.image is before


def test_nothing_is_removed_before_one_of_the_target_is_in_sync(cluster: Cluster) -> None:
    cluster.put_partition("t", 0, isr=(1,))
    reassign(cluster, 2, 3)
    found = partition(cluster)
    assert (found.replicas, found.removing, found.isr) == ((2, 3, 1), (1,), (1,))


def test_a_cancellation_restores_what_was(cluster: Cluster) -> None:
    reassign(cluster, 4, 5, 3)
    in_sync(cluster, 1, 2, 3, 4)
    assert reassign(cluster).code is ErrorCode.NONE
    found = partition(cluster)
    assert (set(found.replicas), found.isr, found.leader) == ({1, 2, 3}, (1, 2, 3), 1)
    assert (found.adding, found.removing, found.leader_epoch) == ((), (), 1)
    assert reassign(cluster).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_change_of_mind_begins_at_the_original_replicas(cluster: Cluster) -> None:
    reassign(cluster, 4, 5, 6)
    reassign(cluster, 1, 2, 7)
    found = partition(cluster)
    assert (found.replicas, found.adding, found.removing) == ((1, 2, 7, 3), (7,), (3,))
    reassign(cluster)
    assert set(partition(cluster).replicas) == {1, 2, 3}


def test_who_alone_is_in_sync_stays_until_others_are(cluster: Cluster) -> None:
    reassign(cluster, 4, 5)
    cluster.put_partition("t", 0, isr=(4,), leader=4)
    reassign(cluster, 6, 7)
    found = partition(cluster)
    assert 4 in found.removing
    assert (found.leader, found.isr) == (4, (4,))


@pytest.mark.parametrize(
    ("unclean", "code"), [("false", ErrorCode.INVALID_REPLICA_ASSIGNMENT), ("true", ErrorCode.NONE)]
)
def test_a_cancellation_that_would_lose_records_is_refused(unclean: str, code: ErrorCode) -> None:
    cluster = Cluster(dict.fromkeys(range(1, 8)))
    configs = (("unclean.leader.election.enable", unclean),)
    cluster.create(NewTopic("t", assignments=((0, (1, 2)),), configs=configs))
    reassign(cluster, 4, 5)
    cluster.put_partition("t", 0, isr=(4,), leader=4)
    answer = reassign(cluster)
    assert answer.code is code
    if code is ErrorCode.NONE:
        assert (partition(cluster).leader, partition(cluster).recovering) == (1, True)
    else:
        assert answer.message == (
            "Unable to revert partition assignment for t:0 because it would require an unclean leader election."
        )


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (WantedReplicas("x", 0, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named x."),
        (WantedReplicas("t", 3, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:3."),
        (
            WantedReplicas("t", 0, (1, 1)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            WantedReplicas("t", 0, (1, 99)),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 99, but no such broker is registered.",
        ),
        (
            WantedReplicas("t", 0, ()),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (WantedReplicas("t", 0, None), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
    ],
)
def test_refusals(cluster: Cluster, wanted: WantedReplicas, code: ErrorCode, message: str | None) -> None:
    before = cluster.image
    (answer,) = cluster.decide(lambda image: alter_reassignments(image, [wanted], cluster.config))
    assert (answer.code, answer.message) == (code, message)
    assert cluster.image is before


def test_another_number_of_replicas_only_where_it_is_allowed(cluster: Cluster) -> None:
    answer = reassign(cluster, 1, 2, keep_factor=True)
    assert answer.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert answer.message == "The replication factor is changed from 3 to 2"
    assert reassign(cluster, 4, 5, 6, keep_factor=True).code is ErrorCode.NONE
    assert reassign(cluster, 4, 5, 7, keep_factor=True).code is ErrorCode.NONE


def test_a_fenced_target_is_waited_for(cluster: Cluster) -> None:
    cluster.decide(lambda image: fence(image, [4], cluster.config))
    assert reassign(cluster, 1, 2, 4).code is ErrorCode.NONE
    assert partition(cluster).adding == (4,)
