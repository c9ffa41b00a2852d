"""The mirror between Apache Kafka and Moldau, and beside Apache Kafka's own MirrorMaker 2 and its client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from moldau.clients.admin import Admin
from tests.peers import java_programs
from tests.peers.choice import new_broker
from tests.peers.mirror_maker import MirrorMaker
from tests.support.mirroring import contents, exists, mirroring, producer, properties, wait_until_equal
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("mirror"), pytest.mark.timeout(600)]
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 3,
}
REPLICAS = {
    f"{name}.replication.factor": "1"
    for name in ("offset.storage", "config.storage", "status.storage", "heartbeats.topic", "checkpoints.topic")
} | {"replication.factor": "1", "offset-syncs.topic.replication.factor": "1"}


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with new_broker(tmp_path_factory.mktemp("apache"), SETTINGS, peer="apache") as found:
        yield found


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with new_broker(tmp_path_factory.mktemp("ours"), SETTINGS, peer="moldau") as found:
        yield found


@pytest.fixture
def topic() -> str:
    return f"t{uuid4().hex[:10]}"


def fill(broker: BrokerProcess, topic: str, first: int, count: int) -> None:
    sender = producer(broker.address)
    for number in range(first, first + count):
        sender.produce(topic, b"v%d" % number, b"k", number % 2, headers=[("n", b"%d" % number)])
        if number % 500 == 0:
            sender.poll(0)
    assert sender.flush(60) == 0


@pytest.mark.parametrize("way", ["from apache", "to apache"])
def test_between_apache_kafka_and_moldau(apache: BrokerProcess, ours: BrokerProcess, topic: str, way: str) -> None:
    """Transactions, groups, settings: either way."""
    source, target = (apache, ours) if way == "from apache" else (ours, apache)
    with Admin({"bootstrap.servers": source.address}) as admin:
        admin.create_topic(topic, 2, config={"retention.ms": "7654321"})
    settings = properties(
        {"us": source.address, "eu": target.address}, us_to_eu__enabled="true", topics=topic, groups=f"g-{topic}",
        sync__group__offsets__enabled="true",
    )  # fmt: skip
    sender = producer(source.address, transactional_id=topic)
    sender.init_transactions()
    with mirroring(settings):
        fill(source, topic, 0, 5000)
        for number in range(10):
            sender.begin_transaction()
            sender.produce(topic, b"transaction %d" % number, partition=0)
            (sender.abort_transaction if number % 3 == 0 else sender.commit_transaction)()
        found = wait_until_equal(source.address, topic, target.address, f"us.{topic}", 2)
        assert sum(map(len, found)) == 5006
        with Admin({"bootstrap.servers": target.address}) as admin:
            assert admin.describe_topic_config(f"us.{topic}")["retention.ms"].value == "7654321"
        read = Consumer({"bootstrap.servers": source.address, "group.id": f"g-{topic}", "log_level": 0})
        read.commit(offsets=[TopicPartition(topic, 0, 1000), TopicPartition(topic, 1, 10)], asynchronous=False)
        read.close()
        places = [TopicPartition(f"us.{topic}", index) for index in range(2)]
        there = Consumer({"bootstrap.servers": target.address, "group.id": f"g-{topic}", "log_level": 0,
                          "enable.auto.commit": False})  # fmt: skip
        wait_until(lambda: all(each.offset > 0 for each in there.committed(places, 10)), "the group is moved")
        there.assign(there.committed(places, 10))
        seen: dict[int, bytes] = {}
        while len(seen) < 2:
            message = there.poll(1.0)
            if message is not None and message.error() is None:
                seen.setdefault(message.partition() or 0, message.value() or b"")
        there.close()
        assert seen == {0: b"v2000", 1: b"v21"}


def test_javas_client_reads_checkpoints_and_heartbeats(apache: BrokerProcess, ours: BrokerProcess, topic: str) -> None:
    with Admin({"bootstrap.servers": apache.address}) as admin:
        admin.create_topic(topic, 2)
    settings = properties(
        {"us": apache.address, "eu": ours.address}, us_to_eu__enabled="true", topics=topic, groups=f"g-{topic}"
    )
    fill(apache, topic, 0, 1000)
    with mirroring(settings) as mirror:
        wait_until_equal(apache.address, topic, ours.address, f"us.{topic}", 2)
        read = Consumer({"bootstrap.servers": apache.address, "group.id": f"g-{topic}", "log_level": 0})
        read.commit(offsets=[TopicPartition(topic, 0, 500), TopicPartition(topic, 1, 77)], asynchronous=False)
        read.close()
        flow = next(each for each in mirror.flows if each.flow.enabled)
        wait_until(lambda: flow.shared.checkpoints >= 2, "checkpoints are written")
        wait_until(lambda: exists(ours.address, "us.heartbeats", 1), "heartbeats are copied")
    said = java_programs.run("MirrorReader", java_programs.MIRROR, ours.address, "us", f"g-{topic}")
    assert "upstream [us]" in said and "checkpoints [us.checkpoints.internal]" in said and "hops 1" in said
    assert f"offsets {{us.{topic}-0=500, us.{topic}-1=77}}" in said
    assert "heartbeat us eu" in said


def test_positions_go_over_from_mirror_maker_and_back(
    apache: BrokerProcess, ours: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Each goes on where the other stopped."""
    with Admin({"bootstrap.servers": apache.address}) as admin:
        admin.create_topic(topic, 2)
    settings = properties(
        {"us": apache.address, "eu": ours.address}, us_to_eu__enabled="true", topics=topic, groups=f"g-{topic}",
        heartbeats__replication__enabled="false", emit__heartbeats__enabled="false",
    ) | REPLICAS  # fmt: skip
    fill(apache, topic, 0, 500)
    with MirrorMaker(tmp_path / "first", settings | {"offset.flush.interval.ms": "500"}):
        wait_until(lambda: exists(ours.address, f"us.{topic}", 2), "MirrorMaker has made the topic", 120)
        wait_until_equal(apache.address, topic, ours.address, f"us.{topic}", 2, 120)
        wait_until(lambda: positions_are_stored(ours, topic), "MirrorMaker has stored its positions", 60)
    fill(apache, topic, 500, 500)
    with mirroring(settings):
        wait_until_equal(apache.address, topic, ours.address, f"us.{topic}", 2)
    fill(apache, topic, 1000, 500)
    with MirrorMaker(tmp_path / "second", settings):
        wait_until_equal(apache.address, topic, ours.address, f"us.{topic}", 2, 120)


def positions_are_stored(broker: BrokerProcess, topic: str) -> bool:
    if not exists(broker.address, "mm2-offsets.us.internal", 25):
        return False
    parts = contents(broker.address, "mm2-offsets.us.internal", 25)
    stored = {key: value for part in parts for key, value, _, _ in part if key and topic.encode() in key}
    return len(stored) == 2 and all(value == b'{"offset":249}' for value in stored.values())
