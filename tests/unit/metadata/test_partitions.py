"""Adding partitions, in the words and codes that Apache Kafka 4.3 was seen to answer, and raising leader epochs."""

from __future__ import annotations

import pytest

from moldau.metadata.controller.partitions import (
    GrownTopic,
    MorePartitions,
    create_partitions,
)
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.types.errors import ErrorCode
from tests.support.metadata import Cluster


def grow(cluster: Cluster, *topics: MorePartitions, validate_only: bool = False) -> list[GrownTopic]:
    return cluster.decide(lambda image: create_partitions(image, topics, cluster.rng, validate_only=validate_only))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster({1: None, 2: None, 3: None})
    cluster.register(4, fenced=True)
    cluster.create(NewTopic("t", 2, 2), NewTopic("u", 1, 1))
    return cluster


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (MorePartitions("nope", 3), 3, None),
        (MorePartitions("bad name", 3), 3, None),
        (MorePartitions("t", 2), 37, "Topic already has 2 partition(s)."),
        (MorePartitions("t", 1), 37, "The topic t currently has 2 partition(s); 1 would not be an increase."),
        (MorePartitions("t", -1), 37, "The topic t currently has 2 partition(s); -1 would not be an increase."),
        (
            MorePartitions("t", 4, [[1, 2]]),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions("t", 3, []),
            39,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            MorePartitions("t", 3, [[9, 1]]),
            39,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (MorePartitions("t", 3, [[]]), 39, "The manual partition assignment includes an empty replica list."),
        (MorePartitions("t", 3, [[1, 1]]), 39, "The manual partition assignment includes the broker 1 more than once."),
        (
            MorePartitions("t", 3, [[1]]),
            39,
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent "
                "with previous partitions, which have 2 replica(s)."
            ),
        ),
        (
            MorePartitions("u", 2, [[4]]),
            39,
            (
                "All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled "
                "shutdown."
            ),
        ),
        (MorePartitions("t", 10_003), -1, None),
        (MorePartitions("t", 2**31 - 1), -1, None),
    ],
)
def test_refusals(cluster: Cluster, request_: MorePartitions, code: int, message: str | None) -> None:
    before = cluster.image
    assert grow(cluster, request_) == [GrownTopic(request_.name, ErrorCode(code), message)]
    assert cluster.image is before


def test_new_partitions_begin_like_those_of_a_new_topic(cluster: Cluster) -> None:
    old = cluster.image.topics["t"]
    assert grow(cluster, MorePartitions("t", 5), MorePartitions("u", 2, [[3]])) == [GrownTopic("t"), GrownTopic("u")]
    topic = cluster.image.topics["t"]
    assert topic.id == old.id
    assert topic.partitions[:2] == old.partitions
    for partition in topic.partitions[2:]:
        assert len(partition.replicas) == 2
        assert (partition.isr, partition.leader) == (partition.replicas, partition.replicas[0])
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert cluster.image.topics["u"].partitions[1].replicas == (3,)
    assert {delta.new.name: delta.partitions for delta in cluster.delta.changed} == {"t": (2, 3, 4), "u": (1,)}


def test_ten_thousand_in_one_request(cluster: Cluster) -> None:
    assert grow(cluster, MorePartitions("t", 10_002), validate_only=True) == [GrownTopic("t")]


def test_one_topic_fails_alone_and_repeated_names_together(cluster: Cluster) -> None:
    answers = grow(
        cluster, MorePartitions("t", 3), MorePartitions("u", 2), MorePartitions("t", 4), MorePartitions("nope", 2)
    )
    assert answers == [
        GrownTopic("u"),
        GrownTopic("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        GrownTopic("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    ]
    assert len(cluster.image.topics["t"].partitions) == 2


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    before = cluster.image
    assert grow(cluster, MorePartitions("t", 3), validate_only=True) == [GrownTopic("t")]
    assert cluster.image is before
