"""The examples of the books that need three brokers, with their commands; only addresses are this cluster's."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.looking import partitions_of, wait_until_whole
from tests.support.waiting import wait_until


def typed(cluster: LocalCluster, command: str, folder: Path, stdin: str = "") -> str:
    line = command.replace("localhost:2181", cluster.zookeeper_connect).replace("localhost:9092", cluster.bootstrap)
    program, *arguments = shlex.split(line)
    name = program.removeprefix("bin/").removesuffix(".sh")
    printed = our_tool(name, arguments, stdin, folder)
    assert printed.code == 0, (command, printed)
    return printed.out


def delete(cluster: LocalCluster, topic: str, folder: Path) -> None:
    typed(cluster, f"kafka-topics.sh --bootstrap-server localhost:9092 --delete --topic {topic}", folder)


def test_helloworld_on_three_brokers_and_one_of_them_stops(cluster: LocalCluster, tmp_path: Path) -> None:
    create = "bin/kafka-topics.sh --zookeeper localhost:2181 --create --topic helloworld"
    assert "Created topic helloworld." in typed(cluster, f"{create} --partitions 3 --replication-factor 3", tmp_path)
    describe = "bin/kafka-topics.sh --describe --zookeeper localhost:2181 --topic helloworld"
    head, *lines = typed(cluster, describe, tmp_path).splitlines()
    assert "PartitionCount: 3\tReplicationFactor: 3" in head
    assert sorted(line.split("Leader: ")[1].split("\t")[0] for line in lines) == ["1", "2", "3"]
    typed(cluster, "bin/kafka-console-producer.sh --broker-list localhost:9092 --topic helloworld", tmp_path, "hi\n")
    read = "bin/kafka-console-consumer.sh --bootstrap-server localhost:9092 --topic helloworld --from-beginning"
    assert typed(cluster, f"{read} --max-messages 1", tmp_path) == "hi\n"

    wanting = "kafka-topics.sh --zookeeper localhost:2181 --describe --under-replicated-partitions"
    assert typed(cluster, wanting, tmp_path) == ""
    cluster.stop_member(cluster.broker(1))
    wait_until(lambda: typed(cluster, wanting, tmp_path).count("Topic: helloworld\t") == 3, "all three miss one", 60.0)
    for line in typed(cluster, wanting, tmp_path).splitlines():
        if "Topic: helloworld\t" in line:
            isr = line.split("Isr: ")[1].split("\t")[0].split(",")
            assert sorted(isr) == ["2", "3"] and sorted(line.split("Replicas: ")[1].split("\t")[0]) != isr
    assert typed(cluster, f"{read} --max-messages 1", tmp_path) == "hi\n"
    cluster.start_member(cluster.broker(1))
    wait_until_whole(cluster)
    assert typed(cluster, wanting, tmp_path) == ""
    delete(cluster, "helloworld", tmp_path)


def test_a_topic_is_moved_and_gets_more_replicas(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are those of the book, which prints only their names."""
    monkeypatch.chdir(tmp_path)
    reassign = "kafka-reassign-partitions.sh --zookeeper localhost:2181"
    typed(cluster, "kafka-topics.sh --zookeeper localhost:2181 --create --topic test --partitions 3 "
          "--replication-factor 1", tmp_path)  # fmt: skip
    before = partitions_of(cluster, "test")
    Path("topics.json").write_text('{"version":1,"topics":[{"topic":"test"}]}')
    proposed = typed(
        cluster, f"{reassign} --generate --topics-to-move-json-file topics.json --broker-list 1,2,3", tmp_path
    )
    assert "Current partition replica assignment" in proposed
    assert partitions_of(cluster, "test") == before, "nothing has changed"
    Path("plan.json").write_text(proposed.splitlines()[-1])
    execute = f"{reassign} --execute --reassignment-json-file"
    verify = f"{reassign} --verify --reassignment-json-file"
    assert "Successfully started partition reassignments for" in typed(cluster, f"{execute} plan.json", tmp_path)
    done = "Reassignment of partition test-0 is completed."
    all_done = f"{verify} plan.json"
    wait_until(lambda: typed(cluster, all_done, tmp_path).count("is completed.") == 3, "the plan is carried out", 60.0)
    planned = {each["partition"]: each["replicas"] for each in json.loads(Path("plan.json").read_text())["partitions"]}
    assert {index: replicas for index, (_, replicas, _) in partitions_of(cluster, "test").items()} == planned

    count = {"version": 1, "partitions": [{"topic": "test", "partition": 0, "replicas": [3, 1]}]}
    Path("replicacount.json").write_text(json.dumps(count))
    typed(cluster, f"{execute} replicacount.json", tmp_path)
    wait_until(lambda: done in typed(cluster, f"{verify} replicacount.json", tmp_path), "there are two", 60.0)
    _, replicas, isr = partitions_of(cluster, "test")[0]
    assert replicas == [3, 1] and sorted(isr) == [1, 3]
    typed(cluster, "kafka-preferred-replica-election.sh --zookeeper localhost:2181", tmp_path)
    wait_until(lambda: partitions_of(cluster, "test")[0][0] == 3, "the first replica leads, as every broker knows")
    delete(cluster, "test", tmp_path)
