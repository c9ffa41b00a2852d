"""Room for markers: made when it is missing, and not asked for again by a process that has seen it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import pytest

from moldau.client.cluster import Cluster
from moldau.spark.writing.identity import MARKER_TOPIC
from moldau.spark.writing.marker_store import FEWEST_PARTITIONS, MarkerStore
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from moldau.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic

T = TypeVar("T")


class MarkerTopic:
    """A cluster with the markers' topic, as far as a store asks for it."""

    def __init__(self) -> None:
        self.partitions = 0
        self.asked: list[str] = []
        self._seen = 0

    def knows(self, partition: TopicPartition) -> bool:
        return partition.topic == MARKER_TOPIC and partition.partition < self._seen

    def retrying(self, action: Callable[[], T], seconds: float | None = None) -> T:
        return action()

    def metadata(self, topics: Iterable[str]) -> MetadataResponse:
        self.asked.append("metadata")
        self._seen = self.partitions
        found = [MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(self.partitions)]
        return MetadataResponse(topics=[MetadataResponseTopic(name=name, partitions=found) for name in topics])

    def to_broker(self, node_id: int, request: Any, answer_class: type[Any]) -> Any:
        if isinstance(request, CreateTopicsRequest):
            self.asked.append("create")
            exists = ErrorCode.TOPIC_ALREADY_EXISTS if self.partitions else ErrorCode.NONE
            self.partitions = self.partitions or request.topics[0].num_partitions
            return CreateTopicsResponse(topics=[CreatableTopicResult(error_code=exists)])
        assert isinstance(request, CreatePartitionsRequest)
        self.asked.append("grow")
        self.partitions = request.topics[0].count
        return CreatePartitionsResponse(results=[CreatePartitionsTopicResult(error_code=0)])


@pytest.fixture
def topic() -> MarkerTopic:
    return MarkerTopic()


def make_room(topic: MarkerTopic, task: int) -> list[str]:
    """As a new task does it in a process that keeps its connections."""
    topic.asked.clear()
    MarkerStore(cast("Cluster", topic), "group").make_room(task)
    return topic.asked


def test_the_topic_is_made_and_grows_with_the_number_of_tasks(topic: MarkerTopic) -> None:
    assert make_room(topic, 0).count("create") == 1
    assert topic.partitions == FEWEST_PARTITIONS
    assert make_room(topic, FEWEST_PARTITIONS).count("grow") == 1
    assert topic.partitions == 2 * FEWEST_PARTITIONS


def test_room_that_another_process_has_made_is_seen_with_one_request(topic: MarkerTopic) -> None:
    topic.partitions = FEWEST_PARTITIONS
    assert make_room(topic, 3) == ["metadata"]


def test_room_that_was_seen_is_not_asked_for_again(topic: MarkerTopic) -> None:
    make_room(topic, 3)
    assert make_room(topic, 3) == []
    assert make_room(topic, 0) == []
