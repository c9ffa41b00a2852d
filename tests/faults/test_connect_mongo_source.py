"""A source of change streams whose tasks, broker, worker and server are killed or stopped in turn: each document is in
the topic once, in the order in which it was written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pymongo import MongoClient

from tests.faults.test_connect_sinks import KINDS, kill, write
from tests.support.broker import Broker
from tests.support.connect import SECONDS, WorkerProcess, records, worker_properties
from tests.support.data_servers import DocumentServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("connect-sinks")

LONGER = 4 * SECONDS
TOPIC = "x.shop.people"
DOCUMENTS = 600


class Copying:
    def __init__(self, broker: Broker, server: DocumentServer) -> None:
        self.broker, self.server = broker, server
        self.ids: list[str] = []
        self._written = 0

    def insert(self, count: int) -> None:
        fresh = [f"n{self._written + number}" for number in range(count)]
        self._written += count
        with MongoClient[Any](self.server.uri) as client:
            client["shop"]["people"].insert_many([{"_id": each} for each in fresh])
        self.ids += fresh

    def end(self) -> int:
        """Of the topic; markers of transactions count."""
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": "looker"})
        try:
            return consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)[1]
        finally:
            consumer.close()

    def begin(self) -> None:
        """The stream begins when the connector looks first: what was written before is not in it."""

        def look() -> bool:
            self.insert(1)
            return bool(records(self.broker.address, TOPIC))

        wait_until(look, "the stream has begun", LONGER, 0.5)
        first = ids_of(records(self.broker.address, TOPIC))[0]
        self.ids = self.ids[self.ids.index(first) :]

    def arrived(self) -> list[str]:
        last = self.ids[-1]
        return ids_of(records(self.broker.address, TOPIC, lambda found: bool(found) and ids_of(found[-1:]) == [last]))


def ids_of(found: list[tuple[Any, Any]]) -> list[str]:
    return [json.loads(value)["documentKey"]["_id"] for _, value in found]


def crash(tmp_path: Path, kills: int) -> None:
    with Broker(tmp_path / "broker") as broker:
        assert isinstance(broker, Broker)
        admin = AdminClient({"bootstrap.servers": broker.address})  # to be kept: it ends what is under way when it goes
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(60)
        server = DocumentServer(tmp_path / "documents", changes=True)
        server.start()
        properties = worker_properties(tmp_path, broker.address, spark_master="local[2]")
        properties |= {"connector.restart.backoff.max.ms": "2000"}
        config = {
            "name": "people",
            "connector.class": "com.mongodb.kafka.connect.MongoSourceConnector",
            "connection.uri": server.uri,
            "database": "shop",
            "collection": "people",
            "topic.prefix": "x",
            "poll.max.batch.size": "50",
        }
        files = [write(tmp_path / "worker.properties", properties), write(tmp_path / "people.properties", config)]
        worker = WorkerProcess(tmp_path, ["connect", "standalone", *files])
        copying = Copying(broker, server)
        try:
            worker.start()
            worker.wait_until_ready()
            copying.begin()
            for number in range(kills):
                before = copying.end()
                copying.insert(DOCUMENTS)
                wait_until(lambda before=before: copying.end() > before + 60, "some arrive", LONGER, 0.01)  # type: ignore[misc]
                kind = (*KINDS, "server")[number % (len(KINDS) + 1)]
                if kind == "server":
                    server.stop()
                    server.start()
                else:
                    kill(kind, worker, broker)
            copying.insert(1)
            assert copying.arrived() == copying.ids
            worker.wait_until_ready()
            assert worker.stop() == 0
        finally:
            if worker.process is not None:
                worker.kill()
            server.stop()


@pytest.mark.timeout(900)
def test_each_change_is_sent_once_whoever_is_killed(tmp_path: Path) -> None:
    crash(tmp_path, kills=len(KINDS) + 1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_kills_without_end(tmp_path: Path) -> None:
    crash(tmp_path, kills=20)
