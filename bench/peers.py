"""The brokers that are compared: how each is started, and the few requests the benchmark itself sends them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.locks import Lock
from tests.peers.apache_kafka import VERSION, ApacheKafka
from tests.support.broker import Broker
from tests.support.process import BrokerProcess
from tests.support.raw import RawConnection, request, string
from tests.support.waiting import wait_until

# Kafka's own start script gives its broker this heap.
APACHE_HEAP = ("-Xms1G", "-Xmx1G")
# Same for both: everything else is each broker's default.
SETTINGS: Mapping[str, object] = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 3000,
    "log.segment.delete.delay.ms": 500,
}

LIST_OFFSETS = 2
LATEST = -1
ADMIN_SECONDS = 60.0
DELETE_SECONDS = 180.0


class Peer(Enum):
    MOLDAU = "moldau"
    APACHE = "apache"

    @property
    def title(self) -> str:
        return "Moldau" if self is Peer.MOLDAU else f"Apache Kafka {VERSION}"

    @property
    def column(self) -> str:
        return "Moldau" if self is Peer.MOLDAU else "Apache Kafka"

    def broker(self, directory: Path, lock: Lock | None = None) -> BrokerProcess:
        """A broker of this kind in a folder of its own, not started yet; with locked listeners too, if so wanted."""
        ours = self is Peer.MOLDAU
        settings = {**SETTINGS, **({} if lock is None else lock.settings(with_controller=not ours))}
        port = 0 if lock is None else lock.open_port
        return Broker(directory, settings, port) if ours else ApacheKafka(directory, settings, port, APACHE_HEAP)


class Topics:
    """Creates and deletes the topics of one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._data = broker.data
        self._admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})

    def create(self, topic: str, partitions: int) -> None:
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1)
        for created in self._admin.create_topics([wanted], operation_timeout=ADMIN_SECONDS).values():
            created.result(ADMIN_SECONDS)

    def delete(self, topic: str) -> None:
        """Returns when the files are gone too, so that removing them does not burden the next measurement."""
        for deleted in self._admin.delete_topics([topic], operation_timeout=ADMIN_SECONDS).values():
            deleted.result(ADMIN_SECONDS)
        gone = f"the files of {topic} are deleted"
        wait_until(lambda: not any(self._data.glob(f"{topic}[-.]*")), gone, seconds=DELETE_SECONDS)


def end_offsets(address: str, topic: str, partitions: int) -> int | None:
    """The sum of a topic's end offsets; None while a partition is not served yet.

    ListOffsets v1: replica id i32 | topics [name | partitions [index i32 | timestamp i64]], answered by
    topics [name | partitions [index i32 | error i16 | timestamp i64 | offset i64]].
    """
    asked = b"".join(struct.pack(">iq", index, LATEST) for index in range(partitions))
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">i", partitions) + asked
    try:
        with RawConnection(address) as connection:
            connection.send(request(LIST_OFFSETS, 1, body))
            answer = connection.receive()
    except OSError:
        return None
    if answer is None:
        return None
    first = 4 + 4 + len(string(topic)) + 4
    entries = list(struct.iter_unpack(">ihqq", answer[first:]))
    if len(entries) != partitions or any(error for _, error, _, _ in entries):
        return None
    return sum(int(offset) for _, _, _, offset in entries)
