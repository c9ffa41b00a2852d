"""A worker, its tasks and the broker killed again and again while a topic is written to MongoDB's protocol and to a
bulk API, and they fail too.

At the end each target has what the last record of every key says, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.faults.test_connect_crashes import python_workers
from tests.support.broker import Broker
from tests.support.bulk_server import BulkServer, Fault, busy
from tests.support.connect import JSON, SECONDS, STRING, WorkerProcess, worker_properties
from tests.support.data_servers import DocumentServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("connect-sinks")

TOPIC = "changes"
PARTITIONS = 2
KEYS = 500
ROUND = 4000
KINDS = ("task", "broker", "worker")
READING = {
    "topics": TOPIC,
    "tasks.max": "2",
    "key.converter": STRING,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}


class Target:
    """Two servers, and what they should have."""

    def __init__(self, documents: DocumentServer, bulk: BulkServer) -> None:
        self.documents = documents
        self.bulk = bulk
        self.wanted: dict[str, dict[str, Any]] = {}

    def of_documents(self) -> dict[str, dict[str, Any]]:
        return {each.pop("_id"): each for each in self.documents.documents("shop", TOPIC)}

    def of_bulk(self) -> dict[str, dict[str, Any]]:
        return self.bulk.documents(TOPIC)

    def equal(self) -> bool:
        return self.of_bulk() == self.wanted and self.of_documents() == self.wanted


def connectors(target: Target) -> list[dict[str, str]]:
    mongo = {
        "name": "documents",
        "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
        "connection.uri": target.documents.uri,
        "database": "shop",
        "document.id.strategy": "FullKeyStrategy",
        "delete.on.null.values": "true",
        "max.batch.size": "500",
        "max.num.retries": "1",
        "retries.defer.timeout": "100",
    }
    bulk = {
        "name": "bulk",
        "connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "connection.url": target.bulk.url,
        "behavior.on.null.values": "delete",
        "batch.size": "300",
        "retry.backoff.ms": "10",
        "read.timeout.ms": "30000",
    }
    return [{**READING, **each} for each in (mongo, bulk)]


def produce(address: str, target: Target, chance: random.Random, first: int) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    for number in range(first, first + ROUND):
        key = f"k{chance.randrange(KEYS)}"
        value = None if chance.random() < 0.1 else {"n": number, "sub": {"twice": 2 * number}}
        if value is None:
            target.wanted.pop(key, None)
        else:
            target.wanted[key] = value
        producer.produce(TOPIC, None if value is None else json.dumps(value), key)
    assert producer.flush(120) == 0
    target.wanted = dict(sorted(target.wanted.items()))


def write(path: Path, properties: dict[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path.name


def failures() -> list[Fault]:
    return [Fault(), busy(503), Fault(cut="before"), Fault(cut="after"), Fault(busy_items=5)]


def kill(kind: str, worker: WorkerProcess, broker: Broker) -> None:
    if kind == "worker":
        worker.kill()
        worker.url = ""
        worker.start()
    elif kind == "broker":
        broker.kill()
        broker.start()
    else:
        for each in python_workers(worker):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


def crash(tmp_path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with Broker(tmp_path / "broker") as broker, BulkServer() as bulk:
        assert isinstance(broker, Broker)
        admin = AdminClient({"bootstrap.servers": broker.address})  # to be kept: it ends what is under way when it goes
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(60)
        documents = DocumentServer(tmp_path / "documents")
        documents.start()
        target = Target(documents, bulk)
        properties = worker_properties(tmp_path, broker.address, spark_master="local[2]")
        properties |= {"connector.restart.backoff.max.ms": "2000"}
        files = [write(tmp_path / "worker.properties", properties)]
        files += [write(tmp_path / f"{each['name']}.properties", each) for each in connectors(target)]
        worker = WorkerProcess(tmp_path, ["connect", "standalone", *files])
        try:
            worker.start()
            for number in range(kills):
                produce(broker.address, target, chance, number * ROUND)
                before, kill_after = len(bulk.requests), chance.randrange(1, 6)
                bulk.faults += [chance.choice(failures()) for _ in range(3)]
                wait_until(
                    lambda before=before, least=kill_after: len(bulk.requests) >= before + least,  # type: ignore[misc]
                    "requests go on", SECONDS, 0.001,
                )  # fmt: skip
                kill(KINDS[number % len(KINDS)], worker, broker)
                if chance.random() < 0.3:
                    documents.stop()
                    documents.start()
            produce(broker.address, target, chance, kills * ROUND)
            wait_until(target.equal, "both targets have the last record of every key", SECONDS, 0.2)
            worker.wait_until_ready()
            assert worker.stop() == 0
            assert target.equal()
        finally:
            if worker.process is not None:
                worker.kill()
            documents.stop()


@pytest.mark.timeout(600)
def test_targets_equal_the_source_whoever_is_killed(tmp_path: Path) -> None:
    crash(tmp_path, kills=len(KINDS), seed=1)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_kills_without_end(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, kills=20, seed=seed)
