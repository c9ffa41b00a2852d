"""What the tests ask a cluster: who leads, who is in sync, whether all replicas hold the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.support.waiting import wait_until

QUIET = {"log_level": 0}


def admin(cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})


def create(cluster: LocalCluster, topic: str, partitions: int = 3, factor: int = 3, **settings: str) -> None:
    """Returns when every broker that runs knows the topic: what clients are told before is no error of anybody's."""
    config = {name.replace("_", "."): value for name, value in settings.items()}
    make(cluster, NewTopic(topic, partitions, factor, config=config))


def create_on(cluster: LocalCluster, topic: str, replicas: list[int]) -> None:
    """One partition, led by the first of these brokers."""
    make(cluster, NewTopic(topic, 1, replica_assignment=[replicas]))


def make(cluster: LocalCluster, new: NewTopic) -> None:
    client, topic = admin(cluster), new.topic  # to be kept: it ends what is under way when it goes
    client.create_topics([new])[topic].result(30)
    for broker in cluster.brokers:
        if broker.runs:
            wait_until(lambda address=broker.address: is_known(address, topic), f"{broker.name} knows {topic}")  # type: ignore[misc]


def is_known(address: str, topic: str) -> bool:
    """At this broker: a client that asks is new, and has heard of no other."""
    return (
        AdminClient({"bootstrap.servers": address, **QUIET}).list_topics(topic, timeout=20).topics[topic].error is None
    )


def partitions_of(cluster: LocalCluster, topic: str) -> Mapping[int, tuple[int, list[int], list[int]]]:
    """Leader, replicas and in-sync set of each partition, as a broker that runs tells them."""
    found = admin(cluster).list_topics(topic, timeout=20).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return {index: (each.leader, each.replicas, each.isrs) for index, each in found.partitions.items()}


def wait_until_whole(cluster: LocalCluster, seconds: float = 90.0) -> None:
    """Every partition has a leader and all of its replicas in sync."""
    client = admin(cluster)

    def broken() -> list[str]:
        try:
            topics = client.list_topics(timeout=20).topics
        except KafkaException as error:
            return [str(error)]
        return [
            f"{name}-{index} leader {each.leader} isr {each.isrs} of {each.replicas}"
            for name, topic in topics.items()
            for index, each in topic.partitions.items()
            if each.leader < 0 or sorted(each.isrs) != sorted(each.replicas)
        ]

    wait_until(lambda: not broken(), "all replicas in sync", seconds, pause=0.2)


def read_all(cluster: LocalCluster, topic: str, isolation: str = "read_committed") -> dict[int, list[tuple[int, str]]]:
    """Offsets and values of each partition, from the first to the last that is there now."""
    count = len(partitions_of(cluster, topic))
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": f"reads-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            **QUIET,
        }
    )
    found: dict[int, list[tuple[int, str]]] = {index: [] for index in range(count)}
    ended: set[int] = set()
    consumer.assign([TopicPartition(topic, index, 0) for index in range(count)])
    try:
        while len(ended) < count:
            message = consumer.poll(60.0)
            assert message is not None, f"{topic}: no more answers; ended: {sorted(ended)}"
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found[message.partition()].append((message.offset(), message.value().decode()))
    finally:
        consumer.close()
    return found


def digests(cluster: LocalCluster, topic: str, partition: int) -> set[str]:
    """Of the records that each replica has on disk."""
    return {digest_of(cluster.folder(broker) / "data" / f"{topic}-{partition}") for broker in cluster.brokers}


def digest_of(folder: Path) -> str:
    together = sha256()
    for segment in sorted(folder.glob("*.log")):
        together.update(segment.read_bytes())
    return together.hexdigest()
