"""Brokers to which nobody gave a number get one, and keep it."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.support.broker import Broker


def without_number(folder: Path, zookeeper: str) -> Broker:
    settings = {"zookeeper.connect": zookeeper, "broker.id": "-1", "offsets.topic.replication.factor": "1"}
    return Broker(folder, settings)


def number_in(broker: Broker) -> int:
    lines = (broker.data / "meta.properties").read_text().splitlines()
    return int(dict(line.split("=", 1) for line in lines if "=" in line)["node.id"])


def test_numbers_are_made_kept_and_never_given_twice(cluster: LocalCluster, tmp_path: Path) -> None:
    place = f"{cluster.zookeeper_connect}/numbered"
    with without_number(tmp_path / "one", place) as one, without_number(tmp_path / "two", place) as two:
        assert sorted([number_in(one), number_in(two)]) == [1001, 1002]
        kept = number_in(one)
        one.kill()
        one.start()
        assert number_in(one) == kept
    with without_number(tmp_path / "three", place) as three:
        assert number_in(three) == 1003, "also of brokers that are gone"
