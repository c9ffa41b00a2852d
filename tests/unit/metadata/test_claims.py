"""Eligible replicas when the number that must be in sync changes."""

from __future__ import annotations

import pytest

from moldau.metadata.controller.config_changes import ResourceChanges, incremental_alter_configs
from moldau.metadata.controller.config_operations import AlterOperation, SettingChange
from moldau.metadata.controller.config_resources import ResourceType
from moldau.metadata.controller.fencing import fence
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.types.errors import ErrorCode
from tests.support.metadata import Cluster

MINIMUM = "min.insync.replicas"


@pytest.fixture
def cluster() -> Cluster:
    """Topics `own` and `default` need three in sync and have two; broker 3 is eligible in both."""
    found = Cluster({1: None, 2: None, 3: None}, min_insync_replicas="3")
    replicas = ((0, (1, 2, 3)),)
    found.create(
        NewTopic("own", assignments=replicas, configs=((MINIMUM, "3"),)), NewTopic("default", assignments=replicas)
    )
    found.decide(lambda image: fence(image, [3], found.config))
    assert eligible(found) == [(3,), (3,)]
    return found


def eligible(cluster: Cluster) -> list[tuple[int, ...]]:
    return [cluster.image.topics[name].partitions[0].elr for name in ("own", "default")]


def alter(cluster: Cluster, kind: ResourceType, name: str, value: str | None) -> None:
    operation = AlterOperation.DELETE if value is None else AlterOperation.SET
    changes = ResourceChanges(kind, name, [SettingChange(MINIMUM, int(operation), value)])
    (answer,) = cluster.decide(lambda image: incremental_alter_configs(image, [changes], cluster.config))
    assert answer.code is ErrorCode.NONE


def test_a_lower_minimum_of_a_topic_ends_them_in_the_same_commit(cluster: Cluster) -> None:
    version = cluster.image.version
    alter(cluster, ResourceType.TOPIC, "own", "2")
    assert (eligible(cluster), cluster.image.version) == ([(), (3,)], version + 1)


def test_a_lower_minimum_of_the_cluster_ends_those_of_topics_without_their_own(cluster: Cluster) -> None:
    alter(cluster, ResourceType.BROKER, "", "2")
    assert eligible(cluster) == [(3,), ()]


def test_what_still_is_too_few_ends_nothing(cluster: Cluster) -> None:
    cluster.decide(lambda image: fence(image, [2], cluster.config))
    alter(cluster, ResourceType.TOPIC, "own", "2")
    assert eligible(cluster) == [(2, 3), (2, 3)]
    alter(cluster, ResourceType.TOPIC, "own", "1")
    assert eligible(cluster) == [(), (2, 3)]


def test_without_its_own_a_topic_has_the_cluster_s(cluster: Cluster) -> None:
    alter(cluster, ResourceType.TOPIC, "default", "4")
    alter(cluster, ResourceType.TOPIC, "default", None)
    assert eligible(cluster) == [(3,), (3,)]
