"""Brokers restarted one after the other, and replicas moved from broker to broker, while a producer, a group and a
transactional producer work: none is told of anything but lost connections and coordinators that move.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.load import Load
from tests.cluster.looking import admin, create, digest_of, partitions_of, read_all, wait_until_whole
from tests.cluster.transacting import Transactions
from tests.faults.cluster_readers import Readers
from tests.support.names import own_name
from tests.support.waiting import wait_until

SECONDS = 120.0
ROUND = ([1, 2], [2, 3], [3, 1], [2, 1])
"""Where each partition goes: both of its replicas are others than before, at last only their order."""


@dataclass(frozen=True, slots=True)
class Clients:
    load: Load
    transactions: Transactions

    def go_on(self, records: int = 100) -> None:
        self.load.goes_on(records)
        self.transactions.go_on()


@contextmanager
def clients_of(cluster: LocalCluster, topic: str, transactional: str) -> Iterator[Clients]:
    """All that was acknowledged is there at the end, and the group has read it; and so is what was committed."""
    readers = Readers(cluster.bootstrap, topic, group=own_name("rolling-group"))
    try:
        with Load(cluster, topic) as load, Transactions(cluster, transactional) as transactions:
            yield Clients(load, transactions)
        load.assert_nothing_lost_or_doubled()
        found = read_all(cluster, topic)
        written = {(partition, offset): value for partition, records in found.items() for offset, value in records}
        wait_until(lambda: len(readers.seen) >= len(written), "the group has seen all", SECONDS)
        readers.check(written)
    finally:
        readers.end()


def test_a_group_that_is_told_of_an_error_is_not_content(cluster: LocalCluster) -> None:
    readers = Readers(cluster.bootstrap, own_name("never-created"), group=own_name("rolling-group"))
    try:
        wait_until(lambda: readers.worries.told, "the members are told that there is no such topic", SECONDS)
        with pytest.raises(AssertionError, match=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART).name()):
            readers.check({})
    finally:
        readers.end()


def test_one_broker_after_the_other_is_restarted_while_clients_work(cluster: LocalCluster) -> None:
    """The controller last, so that it moves once (BR-16)."""
    topic, transactional = own_name("rolling"), own_name("rolling-transactions")
    for each in (topic, transactional):
        create(cluster, each, min_insync_replicas="2")
    first = controller_of(cluster)
    controllers = [first]
    with clients_of(cluster, topic, transactional) as clients:
        for broker in sorted(cluster.brokers, key=lambda each: each.number == first):
            cluster.stop_member(broker)
            clients.go_on()
            cluster.start_member(broker)
            wait_until_whole(cluster)
            controllers.append(controller_of(cluster))
        clients.go_on()
    assert controllers[:-1] == [first] * 3 and controllers[-1] != first


def controller_of(cluster: LocalCluster) -> int:
    client = admin(cluster)
    controller = client.describe_cluster(request_timeout=20).result(20).controller
    assert controller is not None
    return int(controller.id)


def test_replicas_go_round_while_clients_work(cluster: LocalCluster, tmp_path: Path) -> None:
    topic, transactional = topics = own_name("moving"), own_name("moving-transactions")
    for each in topics:
        create(cluster, each, partitions=4, factor=2)
    with clients_of(cluster, topic, transactional) as clients:
        for replicas in ROUND:
            move(cluster, topics, replicas, tmp_path)
            clients.go_on(200)
    last = [cluster.broker(number) for number in ROUND[-1]]
    for each, partition in partitions(cluster, topics):
        folders = [cluster.folder(broker) / "data" / f"{each}-{partition}" for broker in last]
        wait_until(lambda held=folders: len({digest_of(each) for each in held}) == 1, "equal replicas", SECONDS)  # type: ignore[misc]
    (gone,) = {broker.number for broker in cluster.brokers} - set(ROUND[-1])
    data = cluster.folder(cluster.broker(gone)) / "data"
    wait_until(
        lambda: not [found for each in topics for found in data.glob(f"{each}-?")],
        "what has moved away is deleted",
        SECONDS,
    )


def partitions(cluster: LocalCluster, topics: Sequence[str]) -> Sequence[tuple[str, int]]:
    return [(topic, partition) for topic in topics for partition in partitions_of(cluster, topic)]


def move(cluster: LocalCluster, topics: Sequence[str], replicas: Sequence[int], folder: Path) -> None:
    """Returns when it has happened."""
    plan = folder / "plan.json"
    wanted = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for topic, partition in partitions(cluster, topics)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))

    def tool(action: str) -> str:
        asked = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan), action]
        printed = our_tool("kafka-reassign-partitions", asked, "", folder)
        assert printed.code == 0, printed
        return printed.out

    tool("--execute")
    wait_until(lambda: tool("--verify").count("is completed.") == len(wanted), f"{topics} are at {replicas}", SECONDS)
