"""A cluster in two racks: replicas and readers keep to them; a broker joins, takes over, and another one leaves for
good, while a producer and a group work.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.cli.cluster.local_cluster import Command, LocalCluster, Process
from moldau.replication.selectors import RACK_AWARE
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.conftest import SETTINGS
from tests.cluster.looking import QUIET, admin, create, partitions_of, wait_until_whole
from tests.cluster.test_rolling import clients_of
from tests.cluster.test_seen_from_outside import samples
from tests.support.command import Ran, run
from tests.support.names import own_name
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

RACKS = {1: "north", 2: "north", 3: "south", 4: "south"}
SECONDS = 120.0
LEAVING, JOINING = 2, 4


def in_its_rack(member: Process, command: Command) -> Command:
    return [*command, "--set", f"broker.rack={RACKS[member.number]}"] if member.kind == "broker" else command


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {**SETTINGS, "replica.selector.class": RACK_AWARE}
    home = tmp_path_factory.mktemp("racks")
    with LocalCluster.make(home, settings=settings, before_start=die_with_parent, wrap=in_its_rack) as cluster:
        yield cluster


def test_the_copies_of_a_partition_are_in_different_racks(racks: LocalCluster) -> None:
    """REP-12, BR-01."""
    topic = own_name("spread")
    create(racks, topic, partitions=12, factor=2)
    for _, replicas, _ in partitions_of(racks, topic).values():
        assert {RACKS[each] for each in replicas} == {"north", "south"}


def test_a_consumer_reads_from_the_replica_in_its_own_rack(racks: LocalCluster) -> None:
    """KIP-392. What consumers get is counted by whoever gives it, apart from what followers copy."""
    topic = own_name("near")
    create(racks, topic, partitions=1)
    leader = partitions_of(racks, topic)[0][0]
    far = next(rack for rack in ("north", "south") if rack != RACKS[leader])
    producer = Producer({"bootstrap.servers": racks.bootstrap, **QUIET})
    for number in range(200):
        producer.produce(topic, f"{number:01000}")
    assert producer.flush(60.0) == 0

    def read(rack: str) -> None:
        settings = {"bootstrap.servers": racks.bootstrap, "group.id": own_name("reader"), "client.rack": rack, **QUIET}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = 0
        while found < 200:
            message = consumer.poll(60.0)
            assert message is not None and message.error() is None
            found += 1
        consumer.close()

    def served() -> dict[str, float]:
        told: dict[str, float] = dict.fromkeys(("north", "south"), 0.0)
        for broker in racks.brokers:
            name = f'kafka_server_brokertopicmetrics_bytesout_total{{topic="{topic}"}}'
            told[RACKS[broker.number]] += samples(racks, broker).get(name, 0.0)
        return told

    read(far)
    assert served()[far] >= 200_000
    assert served()[RACKS[leader]] == 0
    read(RACKS[leader])
    assert served()[RACKS[leader]] >= 200_000


def test_a_broker_joins_and_another_leaves_for_good(racks: LocalCluster, tmp_path: Path) -> None:
    """CPT-12, BR-27: the new one has nothing until it is given something; the one that leaves is forgotten at last."""
    topic, transactional = own_name("outlives"), own_name("outlives-transactions")
    for each in (topic, transactional):
        create(racks, each, partitions=4, min_insync_replicas="2")
    with clients_of(racks, topic, transactional) as clients:
        racks.grow(JOINING)
        racks.start()
        clients.go_on()
        assert JOINING not in holders(racks), "nothing moves by itself"
        fresh = own_name("fresh")
        create(racks, fresh, partitions=8, factor=2)
        assert any(JOINING in replicas for _, replicas, _ in partitions_of(racks, fresh).values())
        clients.go_on()
        assert "move them to other brokers first" in forgotten(racks, LEAVING).err
        staying = [broker.number for broker in racks.brokers if broker.number != LEAVING]
        empty(racks, staying, tmp_path)
        clients.go_on()
        assert LEAVING not in holders(racks)
        assert "stop it first" in forgotten(racks, LEAVING).err
        racks.stop_member(racks.broker(LEAVING))
        clients.go_on()
        wait_until(lambda: listed(racks, tmp_path)[LEAVING] == "fenced", "it is gone, and remembered", SECONDS)
        done = forgotten(racks, LEAVING)
        assert (done.code, done.err) == (0, f"broker {LEAVING} is forgotten\n")
        wait_until(lambda: listed(racks, tmp_path) == dict.fromkeys(staying, "unfenced"), "all brokers know", SECONDS)
        clients.go_on()
    missing = our_tool("kafka-cluster", ["unregister", "-b", racks.bootstrap, "--id", str(LEAVING)], "", tmp_path)
    assert (missing.code, missing.err) == (1, f"Broker ID {LEAVING} is not currently registered\n")
    racks.start_member(racks.broker(LEAVING))
    wait_until(lambda: listed(racks, tmp_path).get(LEAVING) == "unfenced", "it may come back as a new one", SECONDS)
    wait_until_whole(racks)


def holders(cluster: LocalCluster) -> set[int]:
    topics = admin(cluster).list_topics(timeout=20).topics.values()
    return {broker for topic in topics for each in topic.partitions.values() for broker in each.replicas}


def forgotten(cluster: LocalCluster, broker: int) -> Ran:
    return run("cluster", "forget", str(broker), environment={"MOLDAU_BOOTSTRAP_SERVERS": cluster.bootstrap})


def listed(cluster: LocalCluster, folder: Path) -> dict[int, str]:
    asked = ["list-endpoints", "--bootstrap-server", cluster.bootstrap, "--include-fenced-brokers"]
    _, *lines = our_tool("kafka-cluster", asked, "", folder).out.splitlines()
    return {int(number): state for number, *_, state, _ in map(str.split, lines)}


def empty(cluster: LocalCluster, staying: Sequence[int], folder: Path) -> None:
    """All that there is is placed anew on these brokers, as the how-to says."""

    def tool(*asked: Any) -> str:
        printed = our_tool(
            "kafka-reassign-partitions", ["--bootstrap-server", cluster.bootstrap, *map(str, asked)], "", folder
        )
        assert printed.code == 0, printed
        return printed.out

    topics, plan = folder / "topics.json", folder / "plan.json"
    names = admin(cluster).list_topics(timeout=20).topics
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": name} for name in names]}))
    proposed = tool("--generate", "--topics-to-move-json-file", topics, "--broker-list", ",".join(map(str, staying)))
    plan.write_text(proposed.splitlines()[-1])
    tool("--execute", "--reassignment-json-file", plan)
    wait_until(lambda: "still in progress" not in tool("--verify", "--reassignment-json-file", plan), "moved", SECONDS)
