"""Who leads a partition, who is in sync with it, who may lead it later."""

from __future__ import annotations

from uuid import UUID

import pytest

from moldau.metadata.controller.elect import ElectionKind, elect_leaders
from moldau.metadata.controller.fencing import fence
from moldau.metadata.controller.log_directories import place_in_directories
from moldau.metadata.controller.reassignment import WantedReplicas, alter_reassignments
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.image import NO_LEADER, PartitionImage
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from tests.support.metadata import Cluster

CLEAN, UNCLEAN = "false", "true"


def three(minimum: int = 2, unclean: str = CLEAN) -> Cluster:
    """Partition 0 of t on brokers 1, 2 and 3, in this order."""
    cluster = Cluster({1: None, 2: None, 3: None})
    configs = (("min.insync.replicas", str(minimum)), ("unclean.leader.election.enable", unclean))
    cluster.create(NewTopic("t", assignments=((0, (1, 2, 3)),), configs=configs))
    return cluster


def partition(cluster: Cluster) -> PartitionImage:
    return cluster.image.topics["t"].partitions[0]


def lose(cluster: Cluster, *brokers: int) -> None:
    """One after the other."""
    for broker in brokers:
        cluster.decide(lambda image, number=broker: fence(image, [number], cluster.config))


def test_the_next_in_sync_replica_leads_in_a_new_epoch() -> None:
    cluster = three()
    lose(cluster, 1)
    found = partition(cluster)
    assert (found.leader, found.isr, found.leader_epoch, found.partition_epoch) == (2, (2, 3), 1, 1)


def test_a_follower_that_goes_raises_the_partition_epoch_alone() -> None:
    cluster = three()
    lose(cluster, 3)
    found = partition(cluster)
    assert (found.leader, found.isr, found.leader_epoch, found.partition_epoch) == (1, (1, 2), 0, 1)


def test_who_leaves_a_set_below_the_minimum_stays_eligible() -> None:
    cluster = three()
    lose(cluster, 3)
    assert partition(cluster).elr == ()
    lose(cluster, 2)
    assert (partition(cluster).isr, partition(cluster).elr) == ((1,), (2,))
    lose(cluster, 1)
    found = partition(cluster)
    assert (found.leader, found.isr, found.elr, found.last_known_leader) == (NO_LEADER, (), (1, 2), 1)
    cluster.unfence(3)
    assert partition(cluster).leader == NO_LEADER
    cluster.unfence(2)
    found = partition(cluster)
    assert (found.leader, found.isr, found.elr, found.last_known_leader) == (2, (2,), (1,), NO_LEADER)
    assert (found.recovering, found.leader_epoch) == (False, 2)


def test_each_partition_needs_as_many_in_sync_as_its_own_replicas_allow() -> None:
    cluster = Cluster({1: None, 2: None, 3: None})
    configs = (("min.insync.replicas", "2"),)
    cluster.create(NewTopic("t", assignments=tuple((index, (1, 2, 3)) for index in range(3)), configs=configs))
    wanted = [WantedReplicas("t", 0, (1,)), WantedReplicas("t", 2, (2, 3))]
    cluster.decide(lambda image: alter_reassignments(image, wanted, cluster.config))
    lose(cluster, 2, 3)
    alone, most, none = cluster.image.topics["t"].partitions
    assert (alone.isr, alone.elr) == ((1,), ())
    assert (most.isr, most.elr) == ((1,), (3,))
    assert (none.isr, none.elr) == ((), (2, 3))
    # What broker 1 lacks after a power cut, broker 3 is waited for.
    lose(cluster, 1)
    cluster.register(1, boot_id="another")
    alone, most, _ = cluster.image.topics["t"].partitions
    assert (alone.leader, alone.recovering) == (1, True)
    assert (most.leader, most.isr, most.elr) == (NO_LEADER, (), (3,))


def test_one_that_may_commit_alone_ends_the_claim_of_the_others() -> None:
    cluster = three(minimum=1)
    cluster.decide(lambda image: fence(image, [1, 2, 3], cluster.config))
    assert partition(cluster).elr == (1, 2, 3)
    cluster.unfence(2)
    assert (partition(cluster).leader, partition(cluster).elr) == (2, ())
    lose(cluster, 2)
    cluster.unfence(1, 3)
    assert (partition(cluster).leader, partition(cluster).elr) == (NO_LEADER, (2,))


@pytest.mark.parametrize(
    ("said", "leader", "recovering"),
    [
        ({"boot_id": "boot"}, 1, False),
        ({"boot_id": "another"}, 1, True),
        ({"boot_id": "another", "clean": True}, 1, True),
        ({"boot_id": ""}, 1, True),
        ({"boot_id": "boot", "directories": (UUID(int=99),)}, NO_LEADER, False),
        ({"boot_id": "boot", "directories": (UUID(int=1), UUID(int=99))}, 1, False),
    ],
    ids=["killed", "power cut", "clean under another epoch", "boot unknown", "disk lost", "one folder more"],
)
def test_how_the_last_one_returns(said: dict[str, object], leader: int, recovering: bool) -> None:
    cluster = Cluster()
    cluster.create(NewTopic("t", 1, 1))
    cluster.register(1, **said)
    found = partition(cluster)
    assert (found.leader, found.recovering, found.leader_epoch) == (leader, recovering, 1)
    assert found.isr == (() if leader == NO_LEADER else (1,))
    # Nor later, when it is a broker like any other.
    cluster.decide(lambda image: fence(image, [], cluster.config))
    assert partition(cluster) == found


def test_a_clean_stop_is_one_of_the_epoch_that_was_taken_in() -> None:
    cluster = Cluster()
    cluster.create(NewTopic("t", 1, 1))
    epoch = cluster.image.brokers[1].epoch
    cluster.register(1, boot_id="another", clean=True, previous_epoch=epoch)
    assert (partition(cluster).leader, partition(cluster).recovering) == (1, False)


FIRST, SECOND, OTHER = UUID(int=11), UUID(int=12), UUID(int=13)


def with_two_disks() -> Cluster:
    """Broker 1 alone is in sync of three."""
    cluster = Cluster({1: None, 2: None, 3: None})
    cluster.register(1, directories=(FIRST, SECOND))
    cluster.create(NewTopic("t", assignments=((0, (1, 2, 3)),)))
    lose(cluster, 3, 2, 1)
    cluster.unfence(2, 3)
    assert partition(cluster).elr == (1,)
    return cluster


def tell(cluster: Cluster, directory: UUID) -> None:
    place, epoch = {(cluster.image.topics["t"].id, 0): directory}, cluster.image.brokers[1].epoch
    cluster.decide(lambda image: place_in_directories(image, 1, epoch, place, cluster.config))


def test_one_of_two_disks_is_lost_and_nobody_knows_which_held_the_last_copy() -> None:
    cluster = with_two_disks()
    cluster.register(1, directories=(FIRST, OTHER))
    assert partition(cluster).leader == NO_LEADER
    # The log that it makes anew says so; from then on nobody has a claim.
    tell(cluster, OTHER)
    found = partition(cluster)
    assert (found.leader, found.elr, found.last_known_leader) == (NO_LEADER, (), NO_LEADER)
    assert elect(cluster, ElectionKind.UNCLEAN, T0) == [(ErrorCode.NONE, None)]


def test_what_is_told_to_be_kept_leads_again_although_another_disk_was_lost() -> None:
    cluster = with_two_disks()
    cluster.register(1, fenced=True, directories=(FIRST, OTHER))
    cluster.decide(lambda image: fence(image, [], cluster.config))
    tell(cluster, FIRST)
    cluster.unfence(1)
    assert (partition(cluster).leader, partition(cluster).recovering) == (1, False)


@pytest.mark.parametrize("boot_id", ["boot", "another"], ids=["killed", "power cut"])
def test_a_disk_that_is_away_for_one_start_is_waited_for(boot_id: str) -> None:
    cluster = with_two_disks()
    cluster.register(1, directories=(FIRST,), boot_id=boot_id)
    assert partition(cluster).leader == NO_LEADER
    cluster.register(1, directories=(FIRST, SECOND), boot_id=boot_id)
    assert (partition(cluster).leader, partition(cluster).recovering) == (1, boot_id == "another")


def test_of_several_disks_that_are_lost_nobody_knows_which_to_wait_for() -> None:
    cluster = with_two_disks()
    cluster.register(1, directories=(FIRST, SECOND, OTHER))
    lose(cluster, 1)
    cluster.register(1, directories=(OTHER,))
    found = partition(cluster)
    assert (found.leader, found.elr, found.last_known_leader) == (NO_LEADER, (), NO_LEADER)


def test_an_unclean_stop_ends_the_claim_to_lead() -> None:
    cluster = three()
    lose(cluster, 3, 2)
    assert partition(cluster).elr == (2,)
    cluster.register(2, boot_id="another")
    assert (partition(cluster).isr, partition(cluster).elr) == ((1,), ())


def test_a_disk_that_is_not_there_does_not_lead_whatever_the_topic_allows() -> None:
    cluster = Cluster()
    cluster.create(NewTopic("t", 1, 1, configs=(("unclean.leader.election.enable", UNCLEAN),)))
    cluster.put_partition("t", 0, directories=(UUID(int=1),))
    cluster.register(1, directories=(UUID(int=99),))
    assert partition(cluster).leader == NO_LEADER
    cluster.register(1, directories=(UUID(int=1), UUID(int=99)))
    assert partition(cluster).leader == 1


def test_unclean_elections_where_the_topic_allows_them() -> None:
    cluster = three(unclean=UNCLEAN)
    lose(cluster, 3, 2, 1)
    assert partition(cluster).leader == NO_LEADER
    cluster.unfence(3)
    found = partition(cluster)
    assert (found.leader, found.isr, found.elr, found.recovering) == (3, (3,), (), True)


def elect(cluster: Cluster, kind: ElectionKind, *places: TopicPartition) -> list[tuple[ErrorCode, str | None]]:
    answers = cluster.decide(lambda image: elect_leaders(image, kind, places or None, cluster.config))
    return [(answer.code, answer.message) for answer in answers]


T0 = TopicPartition("t", 0)


def test_the_preferred_leader_is_elected_if_it_is_in_sync() -> None:
    cluster = three()
    assert elect(cluster, ElectionKind.PREFERRED, T0) == [
        (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    ]
    lose(cluster, 1)
    assert elect(cluster, ElectionKind.PREFERRED, T0) == [
        (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    ]
    cluster.unfence(1)
    assert elect(cluster, ElectionKind.PREFERRED)[0][0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    cluster.put_partition("t", 0, isr=(1, 2, 3))
    assert elect(cluster, ElectionKind.PREFERRED) == [(ErrorCode.NONE, None)]
    assert (partition(cluster).leader, partition(cluster).leader_epoch) == (1, 2)
    assert elect(cluster, ElectionKind.PREFERRED) == []


def test_an_unclean_election_on_request() -> None:
    cluster = three()
    assert elect(cluster, ElectionKind.UNCLEAN, T0)[0][0] is ErrorCode.ELECTION_NOT_NEEDED
    lose(cluster, 3, 2, 1)
    assert elect(cluster, ElectionKind.UNCLEAN, T0) == [
        (ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
    ]
    cluster.unfence(3)
    assert elect(cluster, ElectionKind.UNCLEAN, T0) == [(ErrorCode.NONE, None)]
    assert (partition(cluster).leader, partition(cluster).recovering) == (3, True)


def test_elections_of_what_there_is_not() -> None:
    assert elect(three(), ElectionKind.PREFERRED, TopicPartition("x", 0), TopicPartition("t", 7)) == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as x"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-7"),
    ]
