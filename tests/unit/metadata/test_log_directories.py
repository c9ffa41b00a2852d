"""Log directories that fail while their broker lives."""

from __future__ import annotations

from uuid import UUID

import pytest

from moldau.metadata.controller.duties import DutySettings, Evidence, duties
from moldau.metadata.controller.log_directories import directories_failed, place_in_directories
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.image import NO_LEADER
from moldau.types.errors import ErrorCode, KafkaError
from tests.support.metadata import Cluster

FIRST, SECOND = UUID(int=11), UUID(int=12)


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster({1: None, 2: None})
    found.register(1, directories=(FIRST, SECOND))
    found.create(NewTopic("t", assignments=((0, (1, 2)), (1, (1, 2)))), NewTopic("alone", assignments=((0, (1,)),)))
    epoch = found.image.brokers[1].epoch
    topic, alone = found.image.topics["t"].id, found.image.topics["alone"].id
    places = {(topic, 0): FIRST, (topic, 1): SECOND, (alone, 0): SECOND}
    found.decide(lambda image: place_in_directories(image, 1, epoch, places, found.config))
    return found


def work(cluster: Cluster) -> None:
    evidence, settings = Evidence(), DutySettings(cluster.config)
    cluster.decide(lambda image: duties(image, (1, 2), evidence, 0, settings))


def test_what_was_in_a_failed_directory_is_led_elsewhere(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[1].epoch
    assert cluster.decide(lambda image: directories_failed(image, 1, epoch, [SECOND, UUID(int=99)]))
    assert not cluster.decide(lambda image: directories_failed(image, 1, epoch, [SECOND]))
    work(cluster)
    first, second = cluster.image.topics["t"].partitions
    (third,) = cluster.image.topics["alone"].partitions
    assert (first.leader, first.isr) == (1, (1, 2))
    assert (second.leader, second.isr, second.leader_epoch) == (2, (2,), 1)
    assert (third.leader, third.isr, third.elr) == (NO_LEADER, (), (1,))
    offline = [[each for each in state.replicas if cluster.image.is_offline(each, state)] for state in (first, second)]
    assert offline == [[], [1]]
    before = cluster.image
    work(cluster)
    assert cluster.image is before


def test_a_directory_that_is_back_after_a_restart_brings_its_partitions_back(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[1].epoch
    cluster.decide(lambda image: directories_failed(image, 1, epoch, [SECOND]))
    work(cluster)
    cluster.register(1, directories=(FIRST,))
    assert cluster.image.topics["alone"].partitions[0].leader == NO_LEADER
    cluster.register(1, directories=(FIRST, SECOND))
    assert cluster.image.topics["alone"].partitions[0].leader == 1


def test_a_replica_made_anew_elsewhere_has_no_claim(cluster: Cluster) -> None:
    cluster.register(1, directories=(FIRST,))
    assert cluster.image.topics["alone"].partitions[0].elr == (1,)
    epoch = cluster.image.brokers[1].epoch
    place = {(cluster.image.topics["alone"].id, 0): FIRST}
    cluster.decide(lambda image: place_in_directories(image, 1, epoch, place, cluster.config))
    partition = cluster.image.topics["alone"].partitions[0]
    assert (partition.leader, partition.elr, partition.last_known_leader) == (NO_LEADER, (), NO_LEADER)


def test_a_move_between_directories_that_serve_changes_nothing_else(cluster: Cluster) -> None:
    epoch = cluster.image.brokers[1].epoch
    place = {(cluster.image.topics["t"].id, 0): SECOND}
    cluster.decide(lambda image: place_in_directories(image, 1, epoch, place, cluster.config))
    partition = cluster.image.topics["t"].partitions[0]
    assert (partition.directory_of(1), partition.directory_of(2), partition.leader_epoch) == (SECOND, None, 0)


def test_refusals(cluster: Cluster) -> None:
    epoch, alone = cluster.image.brokers[2].epoch, cluster.image.topics["alone"].id
    places = {(UUID(int=9), 0): FIRST, (alone, 9): FIRST, (alone, 0): FIRST}
    answers = cluster.decide(lambda image: place_in_directories(image, 2, epoch, places, cluster.config))
    assert [answer.code for answer in answers] == [
        ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]  # fmt: skip
    with pytest.raises(KafkaError) as refused:
        directories_failed(cluster.image, 1, 1, [FIRST])
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
