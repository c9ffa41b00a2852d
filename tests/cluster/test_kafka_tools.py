"""Kafka's tools about several brokers: ours print what Apache Kafka's printed on three of its own, and its own print
the same on three of ours.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster
from moldau.cli.kafka.catalogue import TOOLS
from tests.cli.kafka_tools.player import Tool, kafkas_tool, our_tool, play_at
from tests.cli.kafka_tools.scenario import Place, all_scenarios
from tests.cli.test_kafka_tools import assert_equal
from tests.cluster.load import Load
from tests.cluster.looking import admin, create, partitions_of, wait_until_whole
from tests.peers.apache_kafka import tool_command
from tests.support.names import own_name
from tests.support.waiting import wait_until

MOVES = next(each for each in all_scenarios() if each.name == "moves")
OURS_AND_KAFKAS = [
    pytest.param(our_tool, id="ours"),
    pytest.param(kafkas_tool, id="kafkas", marks=[pytest.mark.live, pytest.mark.timeout(600)]),
]


@pytest.mark.parametrize("tool", OURS_AND_KAFKAS)
def test_replicas_are_moved_as_on_apache_kafka(cluster: LocalCluster, tmp_path: Path, tool: Tool) -> None:
    try:
        assert_equal(MOVES, play_at(MOVES, Place(cluster.bootstrap, cluster.home, tmp_path), tool))
    finally:
        delete(cluster, "test", "solo", "slow")


@pytest.mark.parametrize("tool", OURS_AND_KAFKAS)
def test_leaders_go_back_to_the_first_replica(cluster: LocalCluster, tmp_path: Path, tool: Tool) -> None:
    topic = own_name("preferred")
    create(cluster, topic)
    places = tmp_path / "places.json"
    cluster.kill_member(cluster.broker(2))
    wait_until(lambda: all(leader != 2 for leader, _, _ in partitions_of(cluster, topic).values()), "others lead")
    cluster.start_member(cluster.broker(2))
    wait_until_whole(cluster)
    drifted = [index for index, (leader, replicas, _) in partitions_of(cluster, topic).items() if leader != replicas[0]]
    assert drifted, "the returned broker does not lead by itself"
    places.write_text(json.dumps({"partitions": [{"topic": topic, "partition": index} for index in drifted]}))
    arguments = f"--bootstrap-server {cluster.bootstrap} --election-type preferred --path-to-json-file {places}"
    printed = tool("kafka-leader-election", arguments.split(), "", tmp_path)
    assert printed.out.startswith("Successfully completed leader election (PREFERRED) for partitions "), printed
    assert all(leader == replicas[0] for leader, replicas, _ in partitions_of(cluster, topic).values())
    delete(cluster, topic)


@pytest.mark.parametrize(
    "kafkas", [pytest.param(False, id="ours"), pytest.param(True, id="kafkas", marks=pytest.mark.live)]
)
def test_replicas_are_read_and_compared(cluster: LocalCluster, kafkas: bool) -> None:
    topic = own_name("compared")
    create(cluster, topic, min_insync_replicas="2")
    with Load(cluster, topic) as load:
        load.goes_on(300)
    arguments = ["--broker-list", cluster.bootstrap, "--time", "-2", "--report-interval-ms", "200"]
    arguments += ["--max-wait-ms", "100", "--topics-include", topic]
    name = "kafka-replica-verification"
    command = [sys.executable, "-m", "moldau.cli.kafka.entry", name, *arguments]
    if kafkas:
        command = tool_command(TOOLS[name].java_class, arguments)
    seen = lines_until(command, "max lag is 0 for partition")
    assert seen[0].endswith(": verification process is started")
    assert not [line for line in seen if "match" in line], seen
    delete(cluster, topic)


def test_a_replica_with_other_bytes_is_found(cluster: LocalCluster) -> None:
    topic = own_name("damaged")
    create(cluster, topic, partitions=1, min_insync_replicas="2")
    with Load(cluster, topic) as load:
        load.goes_on(20)
    follower = next(each for each in cluster.brokers if each.number != partitions_of(cluster, topic)[0][0])
    (segment,) = (cluster.folder(follower) / "data" / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(17)  # the first batch's checksum
        file.write(bytes([file.read(1)[0] ^ 1]))
    command = [sys.executable, "-m", "moldau.cli.kafka.entry", "kafka-replica-verification"]
    command += ["--broker-list", cluster.bootstrap, "--time", "-2", "--max-wait-ms", "100", "--topics-include", topic]
    (*_, told) = lines_until(command, "unmatched checksum")
    assert f"partition {topic}-0 has unmatched checksum at offset " in told
    delete(cluster, topic)


def test_partitions_that_are_not_well_are_listed(cluster: LocalCluster, tmp_path: Path) -> None:
    """With broker 1 down exactly those are listed that miss it; when all are well, nothing."""
    two, one, far = own_name("two"), own_name("one"), own_name("far")
    for topic, replicas in ((two, "1:2:3"), (one, "1"), (far, "2:3")):
        asked = f"--create --topic {topic} --replica-assignment {replicas} --config min.insync.replicas=2"
        made = our_tool("kafka-topics", ["--bootstrap-server", cluster.bootstrap, *asked.split()], "", tmp_path)
        assert made.code == 0, made

    def listed(kind: str) -> list[str]:
        arguments = ["--bootstrap-server", cluster.bootstrap, "--describe", f"--{kind}"]
        printed = our_tool("kafka-topics", arguments, "", tmp_path)
        assert printed.code == 0, printed
        names = [line.split("\t")[1].removeprefix("Topic: ") for line in printed.out.splitlines()]
        return sorted(set(names) & {two, one, far})

    kinds = ("under-replicated-partitions", "unavailable-partitions", "under-min-isr-partitions")
    assert [listed(kind) for kind in kinds] == [[], [], [one]]
    cluster.kill_member(cluster.broker(1))
    wait_until(lambda: listed("unavailable-partitions") == [one], "the partition without a leader is listed", 60.0)
    assert listed("under-replicated-partitions") == sorted([two, one])
    assert listed("under-min-isr-partitions") == [one]
    assert listed("at-min-isr-partitions") == sorted([two, far])
    cluster.start_member(cluster.broker(1))
    wait_until_whole(cluster)
    assert [listed(kind) for kind in kinds] == [[], [], [one]]
    delete(cluster, two, one, far)


def lines_until(command: Sequence[str], words: str) -> list[str]:
    """What a program that never ends prints until these words, then it is told to end."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line.rstrip("\n"))
            if words in line:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert seen and words in seen[-1], seen
    return seen


def delete(cluster: LocalCluster, *topics: str) -> None:
    client = admin(cluster)
    for future in client.delete_topics(list(topics)).values():
        future.result(30)
