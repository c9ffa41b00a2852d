"""Deleting topics, in the words and codes that Apache Kafka 4.3 was seen to answer."""

from __future__ import annotations

from uuid import UUID

from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.controller.topic_deletion import DeletedTopic, TopicReference, delete_topics
from moldau.types.errors import ErrorCode
from moldau.types.ids import ZERO_TOPIC_ID
from moldau.work.slices import at_once
from tests.support.metadata import Cluster


def cluster_with(*names: str) -> Cluster:
    cluster = Cluster()
    cluster.create(*(NewTopic(name, 2, 1, configs=[("retention.ms", "5")]) for name in names))
    return cluster


def delete(cluster: Cluster, *references: TopicReference) -> list[DeletedTopic]:
    return cluster.decide(lambda image: delete_topics(image, references))


def refused(name: str | None, topic_id: UUID, code: int, message: str) -> DeletedTopic:
    return DeletedTopic(name, topic_id, ErrorCode(code), message)


def test_by_name_and_by_id() -> None:
    cluster = cluster_with("a", "b", "c")
    ids = {name: topic.id for name, topic in cluster.image.topics.items()}
    answers = delete(cluster, TopicReference("a"), TopicReference(None, ids["b"]))
    assert set(answers) == {DeletedTopic("a", ids["a"]), DeletedTopic("b", ids["b"])}
    assert list(cluster.image.topics) == ["c"]
    assert cluster.image.loose == {}
    assert {topic.name for topic in cluster.delta.deleted} == {"a", "b"}


def test_a_topic_created_anew_is_another_one() -> None:
    cluster = cluster_with("a")
    old = cluster.image.topics["a"]
    delete(cluster, TopicReference("a"))
    cluster.create(NewTopic("a"))
    new = cluster.image.topics["a"]
    assert new.id != old.id
    assert dict(new.configs) == {}
    assert new.partitions[0].partition_epoch == 0


def test_refusals() -> None:
    cluster = cluster_with("a")
    known = cluster.image.topics["a"].id
    unknown = UUID(int=1)
    assert delete(cluster, TopicReference("nope")) == [
        refused("nope", ZERO_TOPIC_ID, 3, "This server does not host this topic-partition.")
    ]
    assert delete(cluster, TopicReference("bad name")) == [
        refused("bad name", ZERO_TOPIC_ID, 3, "This server does not host this topic-partition.")
    ]
    assert delete(cluster, TopicReference(None, unknown)) == [
        refused(None, unknown, 100, "This server does not host this topic ID.")
    ]
    assert delete(cluster, TopicReference(None)) == [
        refused(None, ZERO_TOPIC_ID, 42, "Neither topic name nor id were specified.")
    ]
    assert delete(cluster, TopicReference("a", known)) == [
        refused("a", known, 42, "You may not specify both topic name and topic id.")
    ]
    assert delete(cluster, TopicReference("a"), TopicReference("a"), TopicReference("a")) == [
        refused("a", ZERO_TOPIC_ID, 42, "Duplicate topic name.")
    ]
    assert delete(cluster, TopicReference(None, known), TopicReference(None, known)) == [
        refused(None, known, 42, "Duplicate topic id.")
    ]
    assert delete(cluster, TopicReference("a"), TopicReference(None, known)) == [
        refused("a", known, 42, "The provided topic name maps to an ID that was already supplied.")
    ]
    assert list(cluster.image.topics) == ["a"]


def test_a_repeated_name_does_not_stop_the_id() -> None:
    cluster = cluster_with("a")
    known = cluster.image.topics["a"].id
    answers = delete(cluster, TopicReference("a"), TopicReference("a"), TopicReference(None, known))
    assert answers == [refused("a", ZERO_TOPIC_ID, 42, "Duplicate topic name."), DeletedTopic("a", known)]
    assert dict(cluster.image.topics) == {}


def test_what_a_client_may_not_know_is_not_confirmed() -> None:
    cluster = cluster_with("hidden", "visible", "mine")
    ids = {name: topic.id for name, topic in cluster.image.topics.items()}
    references = [
        *(TopicReference(None, ids[name]) for name in ("hidden", "visible")),
        *(TopicReference(name) for name in ("hidden", "visible", "mine", "hidden-and-absent")),
    ]
    decision = at_once(
        delete_topics(
            cluster.image,
            references,
            may_describe=lambda name: "hidden" not in name,
            may_delete=lambda name: name == "mine",
        )
    )
    failed = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    message = "Topic authorization failed."
    assert decision.answer == [
        DeletedTopic(None, ids["hidden"], failed, message),
        DeletedTopic("visible", ids["visible"], failed, message),
        DeletedTopic("hidden", ZERO_TOPIC_ID, failed, message),
        DeletedTopic("visible", ZERO_TOPIC_ID, failed, message),
        DeletedTopic("hidden-and-absent", ZERO_TOPIC_ID, failed, message),
        DeletedTopic("mine", ids["mine"]),
    ]
