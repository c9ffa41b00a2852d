"""Creating topics, in the words and codes that Apache Kafka 4.3 was seen to answer."""

from __future__ import annotations

import uuid

import pytest

from moldau.metadata.controller.brokers import put_state
from moldau.metadata.controller.topic_creation import NewTopic, create_topics
from moldau.types.errors import ErrorCode
from moldau.types.ids import ZERO_TOPIC_ID
from moldau.work.slices import at_once
from tests.support.metadata import Cluster

ILLEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (NewTopic("."), 17, "Topic name is invalid: '.' is not allowed"),
        (NewTopic(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (
            NewTopic("a" * 250),
            17,
            f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249",
        ),
        (NewTopic("a b"), 17, f"Topic name is invalid: 'a b' {ILLEGAL}"),
        (NewTopic("ok/x"), 17, f"Topic name is invalid: 'ok/x' {ILLEGAL}"),
        (NewTopic("é"), 17, f"Topic name is invalid: 'é' {ILLEGAL}"),
        (NewTopic("a\n"), 17, f"Topic name is invalid: 'a\n' {ILLEGAL}"),
        (NewTopic("x.y"), 36, "Topic 'x.y' already exists."),
        (NewTopic("x.y", 0, 0), 36, "Topic 'x.y' already exists."),
        (NewTopic("x_y"), 17, "Topic 'x_y' collides with existing topic: x.y"),
        (NewTopic("p", 0, 1), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("p", -2, 1), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("r", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (NewTopic("r", 1, -2), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (NewTopic("r", 0, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            NewTopic("r", 1, 4),
            38,
            ("Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached "
            "because only 3 broker(s) are registered or some brokers have all their log directories cordoned."),
        ),
        (NewTopic("c", configs=[("retention.ms", "x")]), 40,
         "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        (NewTopic("c", configs=[("nope", "x")]), 40, "Unknown topic config name: nope"),
        (NewTopic("c", 0, configs=[("nope", "x")]), 40, "Unknown topic config name: nope"),
        (NewTopic("c", configs=[("retention.ms", None), ("segment.ms", None)]), 40,
         "Null value not supported for topic configs: retention.ms,segment.ms"),
        (NewTopic("c", configs=[("retention.ms", "-2")]), 40,
         "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (NewTopic("c", configs=[("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")]), 40,
         "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"),
        (NewTopic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
    ],
)  # fmt: skip
def test_refusals(topic: NewTopic, code: int, message: str) -> None:
    cluster = Cluster({1: None, 2: None, 3: None})
    cluster.create(NewTopic("x.y"))
    before = cluster.image
    (answer,) = cluster.create(topic)
    assert (answer.name, int(answer.code), answer.message) == (topic.name, code, message)
    assert (answer.topic_id, answer.num_partitions, answer.replication_factor) == (ZERO_TOPIC_ID, -1, -1)
    assert cluster.image is before


@pytest.mark.parametrize(
    ("assignments", "code", "message"),
    [
        ([(0, [1]), (0, [1])], 39, "Found multiple manual partition assignments for partition 0"),
        ([(1, [1])], 39, "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1]), (2, [1])], 39, "partitions should be a consecutive 0-based integer sequence"),
        ([(-1, [1]), (0, [1])], 39, "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [])], 39, "The manual partition assignment includes an empty replica list."),
        ([(0, [1]), (1, [])], 39, "The manual partition assignment includes an empty replica list."),
        ([(0, [9])], 39, "The manual partition assignment includes broker 9, but no such broker is registered."),
        ([(0, [9, 9])], 39, "The manual partition assignment includes broker 9, but no such broker is registered."),
        ([(0, [1, 1])], 39, "The manual partition assignment includes the broker 1 more than once."),
        ([(0, [1, 2]), (1, [2, 1, 2])], 39, "The manual partition assignment includes the broker 2 more than once."),
        (
            [(0, [1, 2]), (1, [1])],
            39,
            (
                "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent "
                "with previous partitions, which have 2 replica(s)."
            ),
        ),
        (
            [(0, [4])],
            39,
            (
                "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
                "shutdown."
            ),
        ),
    ],
)
def test_refused_assignments(assignments: list[tuple[int, list[int]]], code: int, message: str) -> None:
    cluster = Cluster({1: None, 2: None, 3: None})
    cluster.register(4, fenced=True)
    (answer,) = cluster.create(NewTopic("t", assignments=assignments))
    assert (int(answer.code), answer.message) == (code, message)


@pytest.mark.parametrize(
    ("partitions", "factor", "message"),
    [
        (1, -1, "A manual partition assignment was specified, but numPartitions was not set to -1."),
        (-1, 1, "A manual partition assignment was specified, but replication factor was not set to -1."),
        (1, 1, "A manual partition assignment was specified, but replication factor was not set to -1."),
    ],
)
def test_an_assignment_says_all(partitions: int, factor: int, message: str) -> None:
    (answer,) = Cluster().create(NewTopic("t", partitions, factor, [(0, [1])]))
    assert (answer.code, answer.message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_topic_as_it_begins() -> None:
    cluster = Cluster({1: None, 2: None, 3: None})
    (answer,) = cluster.create(NewTopic("t", 6, 3, configs=[("retention.ms", "5"), ("retention.ms", "6")]))
    assert (answer.code, answer.message) == (ErrorCode.NONE, None)
    assert (answer.num_partitions, answer.replication_factor, answer.configs) == (6, 3, {"retention.ms": "6"})
    topic = cluster.image.topics["t"]
    assert cluster.image.topics_by_id[answer.topic_id] is topic
    assert dict(topic.configs) == {"retention.ms": "6"}
    for partition in topic.partitions:
        assert sorted(partition.replicas) == [1, 2, 3]
        assert partition.isr == partition.replicas
        assert partition.leader == partition.replicas[0]
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert sorted(partition.leader for partition in topic.partitions) == [1, 1, 2, 2, 3, 3]
    assert cluster.delta.created == (topic,)


def test_replicas_as_the_client_chose_them() -> None:
    cluster = Cluster({1: None, 2: None, 3: None})
    cluster.register(4, fenced=True)
    cluster.create(NewTopic("t", assignments=[(1, [4, 2]), (0, [3, 1])]))
    first, second = cluster.image.topics["t"].partitions
    assert (first.replicas, first.isr, first.leader) == ((3, 1), (3, 1), 3)
    assert (second.replicas, second.isr, second.leader) == ((4, 2), (2,), 2)


def test_unset_numbers_are_the_brokers() -> None:
    cluster = Cluster({1: None, 2: None}, num_partitions="4", default_replication_factor="2")
    (answer,) = cluster.create(NewTopic("t"))
    assert (answer.num_partitions, answer.replication_factor) == (4, 2)


def test_each_topic_succeeds_or_fails_alone_and_repeated_names_fail_together() -> None:
    cluster = Cluster()
    answers = cluster.create(NewTopic("dup"), NewTopic("x.y"), NewTopic(""), NewTopic("dup"), NewTopic("x_y"))
    assert [(answer.name, int(answer.code)) for answer in answers] == [("x.y", 0), ("", 17), ("x_y", 0), ("dup", 42)]
    assert answers[-1].message == "Duplicate topic name."
    assert sorted(cluster.image.topics) == ["x.y", "x_y"]


def test_validate_only_answers_the_same_and_changes_nothing() -> None:
    cluster = Cluster()
    before = cluster.image
    answers = cluster.create(NewTopic("t", 3, 1), NewTopic("bad name"), validate_only=True)
    assert [int(answer.code) for answer in answers] == [0, 17]
    assert answers[0].num_partitions == 3
    assert cluster.image is before


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([9999], None),
        ([10_000], "Unable to perform excessively large batch operation."),
        ([10_001], "Excessively large number of partitions per request."),
        ([5000, 4998], None),
        ([5000, 4999], "Unable to perform excessively large batch operation."),
        ([5000, 5001], "Excessively large number of partitions per request."),
        ([10_000, -1], "Excessively large number of partitions per request."),
    ],
)
def test_a_request_has_a_size(sizes: list[int], message: str | None) -> None:
    cluster = Cluster()
    answers = cluster.create(*(NewTopic(f"t{size}", size, 1) for size in sizes), validate_only=True)
    code = ErrorCode.NONE if message is None else ErrorCode.POLICY_VIOLATION
    assert {(answer.code, answer.message) for answer in answers} == {(code, message)}


def test_a_name_may_be_used_again_and_gets_another_id() -> None:
    cluster = Cluster()
    (first,) = cluster.create(NewTopic("t"))
    (second,) = cluster.create(NewTopic("u"))
    assert first.topic_id != second.topic_id


def test_reserved_awkward_and_taken_ids_are_not_given() -> None:
    cluster = Cluster()
    (taken,) = cluster.create(NewTopic("t"))
    starts_with_a_dash = uuid.UUID(bytes=b"\xf8" + bytes(15))
    wanted = uuid.UUID(int=100)
    offered = iter([uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=99), taken.topic_id, starts_with_a_dash, wanted])
    decision = at_once(create_topics(cluster.image, [NewTopic("u")], cluster.config, cluster.rng, offered.__next__))
    assert decision.answer[0].topic_id == wanted


def test_topics_that_a_client_may_not_create_are_not_looked_at() -> None:
    cluster = Cluster()
    topics = [NewTopic("mine"), NewTopic("yours"), NewTopic("bad yours")]
    decision = at_once(
        create_topics(
            cluster.image, topics, cluster.config, cluster.rng, uuid.uuid4, may_create=lambda name: name == "mine"
        )
    )
    assert [(answer.name, answer.code, answer.message) for answer in decision.answer] == [
        ("mine", ErrorCode.NONE, None),
        ("yours", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."),
        ("bad yours", ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."),
    ]


def test_nothing_is_placed_on_a_broker_that_leaves() -> None:
    cluster = Cluster({1: None, 2: None, 3: None})
    cluster.commit([put_state(cluster.image.brokers[3], fenced=False, shutting_down=True)])
    cluster.create(NewTopic("t", 50, 2))
    assert {partition.replicas for partition in cluster.image.topics["t"].partitions} == {(1, 2), (2, 1)}
    (refused,) = cluster.create(NewTopic("u", 1, 3))
    assert refused.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_fenced_broker_gets_a_replica_where_the_others_are_not_enough() -> None:
    cluster = Cluster({1: None, 2: None})
    cluster.register(3, fenced=True)
    cluster.create(NewTopic("two", 50, 2), NewTopic("three", 50, 3))
    assert all(3 not in partition.replicas for partition in cluster.image.topics["two"].partitions)
    for partition in cluster.image.topics["three"].partitions:
        assert (partition.replicas[2], len(partition.isr), partition.leader in (1, 2)) == (3, 2, True)
