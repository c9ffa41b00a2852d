"""Three of ours answer as three of Apache Kafka did, where the answer depends on there being several."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.conformance.three.clusters import KafkaNodes, MoldauNodes, Nodes
from tests.conformance.three.comparing import RECORDED, differences
from tests.conformance.three.scenarios import scripts
from tests.conformance.three.stage import play


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with KafkaNodes(tmp_path_factory.mktemp("three-of-kafka")) as nodes:
        yield nodes


@pytest.mark.parametrize("name", scripts)
def test_answers_as_recorded_on_three(cluster: LocalCluster, name: str) -> None:
    must_be_as_recorded(name, MoldauNodes(cluster))


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", scripts)
def test_apache_kafka_still_answers_so(kafka: Nodes, name: str) -> None:
    must_be_as_recorded(name, kafka)


def must_be_as_recorded(name: str, nodes: Nodes) -> None:
    found = differences(name, play(name, nodes))
    assert not found, "\n".join(["the answers differ:", *found])


def test_every_recording_is_played() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == set(scripts)
