"""What the log tells of topics and of leaders: each kind of change in one line, whatever there is of it."""

from __future__ import annotations

import logging

import pytest

from moldau.metadata.controller.claim import claim
from moldau.metadata.controller.fencing import fence
from moldau.metadata.controller.partitions import MorePartitions, create_partitions
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.controller.topic_deletion import TopicReference, delete_topics
from moldau.server.state_changes import StateChanges
from moldau.work.slices import at_once
from tests.support.metadata import Cluster


class Told:
    def __init__(self, cluster: Cluster, caplog: pytest.LogCaptureFixture, broker: int = 1) -> None:
        self.cluster, self._caplog = cluster, caplog
        self._changes = StateChanges(broker)
        caplog.set_level(logging.INFO)

    @property
    def lines(self) -> list[str]:
        """Of the last change."""
        self._caplog.clear()
        work = self._changes.apply(self.cluster.image, self.cluster.image, self.cluster.delta)
        if work is not None:
            at_once(work)
        return [record.message for record in self._caplog.records]


def three(topics: int = 0) -> Cluster:
    cluster = Cluster({1: None, 2: None, 3: None})
    cluster.decide(lambda image: claim(image, 1))
    if topics:
        cluster.create(NewTopic("t", assignments=tuple((index, (2, 1, 3)) for index in range(topics))))
    return cluster


def test_the_death_of_a_broker_with_many_partitions_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    cluster = three(25)
    cluster.decide(lambda image: fence(image, (2,), cluster.config))
    (line,) = Told(cluster, caplog).lines
    assert line.startswith("leader 1 instead of 2: t-0 (epoch 1), t-1 (epoch 1), ")
    assert line.endswith(" and 15 more")


def test_a_partition_that_loses_its_last_leader(caplog: pytest.LogCaptureFixture) -> None:
    cluster = three()
    cluster.create(NewTopic("alone", assignments=((0, (2,)),)))
    cluster.decide(lambda image: fence(image, (2,), cluster.config))
    assert Told(cluster, caplog, broker=2).lines == ["leader none instead of 2: alone-0 (epoch 1)"]
    assert Told(cluster, caplog, broker=3).lines == [], "it has no replica of it"


def test_topics_that_come_grow_and_go_are_told_by_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    cluster = three(2)
    assert Told(cluster, caplog).lines == ["new topics: t (2 partitions)"]
    assert Told(cluster, caplog, broker=2).lines == []
    cluster.decide(lambda image: create_partitions(image, [MorePartitions("t", 3)], cluster.rng))
    assert Told(cluster, caplog).lines == ["grown topics: t (3 partitions)"]
    cluster.decide(lambda image: delete_topics(image, [TopicReference("t")]))
    assert Told(cluster, caplog).lines == ["deleted topics: t (3 partitions)"]


def test_a_smaller_in_sync_set_is_no_change_of_leaders(caplog: pytest.LogCaptureFixture) -> None:
    cluster = three(1)
    cluster.decide(lambda image: fence(image, (3,), cluster.config))
    assert Told(cluster, caplog).lines == []


def test_what_happens_to_a_broker_that_is_alone_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.decide(lambda image: claim(image, 1))
    cluster.create(NewTopic("t", 1, 1))
    assert Told(cluster, caplog).lines == []
