"""Lets Apache Kafka fill its folders with a bit of everything, stops it, and keeps the folders and what clients saw.

    python -m tests.peers.record_folder kraft TARGET               TARGET/kraft.tar.gz and kraft.json, by Kafka 4.3
    python -m tests.peers.record_folder kraft3 TARGET LIBRARIES     likewise by the Kafka 3 whose jars lie in LIBRARIES
    python -m tests.peers.record_folder zookeeper TARGET LIBRARIES  likewise, over ZooKeeper

The folders are `first` and `second`. With KRaft an ACL, a SCRAM user and a quota are in them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.peers.apache_kafka import ApacheKafka, java_program, java_tool
from tests.support.process import BrokerProcess, free_port
from tests.support.zookeeper import zookeeper

FIRST_MS = 1_700_000_000_000
DAY_MS = 86_400_000
GROUP = "readers"
TOPICS = {
    "events": (3, {"retention.ms": "-1", "segment.ms": "3600000", "min.insync.replicas": "2"}),
    "latest-state": (1, {"cleanup.policy": "compact", "retention.ms": "-1"}),
    "payments": (2, {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}),
    "empty.topic": (1, {}),
    "again": (1, {"retention.ms": "-1"}),
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS: dict[str, object] = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "super.users": "User:ANONYMOUS",
    "log.segment.bytes": 1 << 20,
    "log.segment.index.max.bytes": 4096,
    "num.partitions": 1,
}
KRAFT = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "metadata.log.max.record.bytes.between.snapshots": 2000,
}


class KRaftKafka3(ApacheKafka):
    """One Apache Kafka 3 broker that is its own controller."""

    name = "Apache Kafka 3"

    def __init__(self, directory: Path, settings: dict[str, object], libraries: Path) -> None:
        super().__init__(directory, settings)
        self._libraries = libraries

    def _java(self, *arguments: object) -> list[str]:
        return [java_program(), "-Xmx512m", "-cp", f"{self._libraries}/*", *map(str, arguments)]

    def _format(self, tool: str, *arguments: str) -> None:
        subprocess.run(self._java(tool, *arguments, self._properties), check=True, capture_output=True)

    def _command(self) -> list[str]:
        return self._java("kafka.Kafka", self._properties)


class ZooKeeperKafka(BrokerProcess):
    """One Apache Kafka 3 broker that keeps its metadata in ZooKeeper."""

    name = "Apache Kafka 3"

    def __init__(self, directory: Path, settings: dict[str, object], libraries: Path, servers: str) -> None:
        super().__init__(directory, settings)
        self._port = free_port()
        self._libraries = libraries
        self._servers = servers

    def _prepare(self) -> None:
        settings: dict[str, object] = {
            "broker.id": 1,
            "zookeeper.connect": self._servers,
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self.settings,
        }
        lines = (f"{key}={value}\n" for key, value in settings.items())
        (self.directory / "server.properties").write_text("".join(lines))

    def _command(self) -> list[str]:
        properties = str(self.directory / "server.properties")
        return [java_program(), "-Xmx512m", "-cp", f"{self._libraries}/*", "kafka.Kafka", properties]

    def _find_address(self) -> str | None:
        return f"127.0.0.1:{self._port}"


def fill(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    create(admin, "again")
    put(address, "again", "none", 0, range(3))
    for deleted in admin.delete_topics(["again"]).values():
        deleted.result()
    for topic in TOPICS:
        create(admin, topic)
    for number, codec in enumerate(CODECS):
        for partition in range(3):
            put(address, "events", codec, partition, range(number * 20, number * 20 + 20))
    put(address, "latest-state", "none", 0, [each % 7 for each in range(40)])
    put(address, "again", "lz4", 0, range(5))
    pay(address)
    commit(address)


def create(admin: AdminClient, topic: str) -> None:
    partitions, config = TOPICS[topic]
    for created in admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
        created.result()


def put(address: str, topic: str, codec: str, partition: int, keys: Any) -> None:
    producer = Producer(
        {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 50, "enable.idempotence": True}
    )
    for key in keys:
        headers = [("source", b"recorded")] if key % 3 == 0 else None
        value = None if key % 11 == 10 else f"{codec} {key} ".encode() * 3
        producer.produce(
            topic, value, f"key-{key}", partition, timestamp=FIRST_MS + key // 20 * DAY_MS + key, headers=headers
        )
    producer.flush()


def pay(address: str) -> None:
    """Two transactions that commit and one that aborts, over both partitions; the first with offsets too."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "cashier"})
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    producer.init_transactions()
    for number in range(3):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("payments", f"payment {number}", f"{number}", partition, timestamp=FIRST_MS + number)
        if number == 0:
            producer.send_offsets_to_transaction(
                [TopicPartition("again", 0, 4)], consumer.consumer_group_metadata(), 30
            )
        producer.flush()
        producer.abort_transaction() if number == 1 else producer.commit_transaction()
    consumer.close()


def commit(address: str) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP})
    wanted = [TopicPartition("events", 0, 17), TopicPartition("events", 2, 60, "half-way")]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def tell(address: str) -> dict[str, Any]:
    """What a client sees: topics with their ids, configurations and records, and the group's offsets."""
    admin = AdminClient({"bootstrap.servers": address})
    names = list(TOPICS)
    found = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    configs = {
        resource.name: {key: entry.value for key, entry in future.result().items() if entry.source == 1}
        for resource, future in found.items()
    }
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "enable.auto.commit": False})
    partitions = [TopicPartition(name, each) for name in names for each in range(TOPICS[name][0])]
    offsets = {f"{each.topic}-{each.partition}": each.offset for each in consumer.committed(partitions, 30)}
    consumer.close()
    return {
        "configs": configs,
        "offsets": {name: offset for name, offset in offsets.items() if offset >= 0},
        "records": {f"{each.topic}-{each.partition}": list(records(address, each)) for each in partitions},
    }


def records(address: str, partition: TopicPartition) -> Iterator[list[Any]]:
    """Those that are committed: offset, timestamp, key, value, number of headers."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "nobody", "enable.partition.eof": True})
    consumer.assign([TopicPartition(partition.topic, partition.partition, 0)])
    while (message := consumer.poll(30)) is not None and not message.error():
        key, value = message.key(), message.value()
        yield [
            message.offset(),
            message.timestamp()[1],
            key.decode() if key is not None else None,
            value.decode() if value is not None else None,
            len(message.headers() or ()),
        ]
    consumer.close()


def settle(address: str, with_groups: bool = True) -> None:
    """Settings of brokers, and what only a secured cluster knows. Kafka 3 has no settings of groups."""

    def alter(*arguments: str) -> None:
        java_tool("kafka.admin.ConfigCommand", "--bootstrap-server", address, "--alter", *arguments)

    alter(
        "--entity-type",
        "brokers",
        "--entity-default",
        "--add-config",
        "log.cleaner.threads=2,message.max.bytes=2000000",
    )
    alter("--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.cleaner.io.buffer.size=600000")
    if with_groups:
        alter("--entity-type", "groups", "--entity-name", GROUP, "--add-config", "consumer.session.timeout.ms=50000")
    alter("--entity-type", "users", "--entity-name", "alice", "--add-config", "SCRAM-SHA-256=[password=secret]")
    alter("--entity-type", "clients", "--entity-name", "slow", "--add-config", "producer_byte_rate=1000")
    java_tool(
        "org.apache.kafka.tools.AclCommand", "--bootstrap-server", address, "--add", "--allow-principal", "User:alice",
        "--operation", "Read", "--topic", "events",
    )  # fmt: skip


@contextmanager
def broker_of(kind: str, folder: Path, libraries: Path | None) -> Iterator[BrokerProcess]:
    dirs = {"log.dirs": f"{folder}/first,{folder}/second"}
    if kind == "kraft":
        with ApacheKafka(folder, {**SETTINGS, **KRAFT, **dirs}) as broker:
            yield broker
        return
    assert libraries is not None
    if kind == "kraft3":
        with KRaftKafka3(folder, {**SETTINGS, **KRAFT, **dirs}, libraries) as broker:
            yield broker
        return
    with (
        zookeeper(folder / "zookeeper") as servers,
        ZooKeeperKafka(folder, {**SETTINGS, **dirs}, libraries, servers) as broker,
    ):
        yield broker
        if broker.running:
            broker.stop()


def record(kind: str, target: Path, libraries: Path | None) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with broker_of(kind, folder, libraries) as broker:
            fill(broker.address)
            if kind != "zookeeper":
                settle(broker.address, with_groups=kind == "kraft")
            expected = tell(broker.address)
            broker.stop()
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{kind}.json").write_text(json.dumps(expected) + "\n")
        pack(folder, target / f"{kind}.tar.gz")


def pack(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz", compresslevel=9) as packed:
        for directory in ("first", "second"):
            packed.add(folder / directory, directory, filter=anonymous)


def anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Indexes of logs that wait to be deleted are full of zeros."""
    if "-delete/" in entry.name and entry.name.endswith("index"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
