"""Workers of a group: connectors are shared, requests handed on, a dead worker's connectors taken over."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.broker import Broker
from tests.support.connect import STRING, DistributedWorker, records, values
from tests.support.waiting import wait_until


def properties(broker: Broker, name: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.address,
        "group.id": name,
        "key.converter": STRING,
        "value.converter": STRING,
        "config.storage.topic": f"{name}-configs",
        "offset.storage.topic": f"{name}-offsets",
        "status.storage.topic": f"{name}-status",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "connector.poll.interval.ms": "100",
        "connector.restart.backoff.ms": "100",
        "heartbeat.interval.ms": "300",
        "session.timeout.ms": "6000",
        "listeners": "http://127.0.0.1:0",
    }


@pytest.fixture
def settings(broker: Broker, topic: str) -> dict[str, str]:
    return properties(broker, topic[:60])


def test_connectors_are_shared_and_taken_over(
    spark: SparkSession, settings: dict[str, str], address: str, topic: str, tmp_path: Path
) -> None:
    first, second = DistributedWorker(settings, spark), DistributedWorker(settings, spark)
    names = [f"{topic}-{number}" for number in range(2)]
    for name in names:
        (tmp_path / name).write_text("before\n")
    with first:
        with second:
            for name in names:
                second.create(name, connector_class="FileStreamSource", file=str(tmp_path / name), topic=name)
            for name in names:
                second.wait_for_states(name, "RUNNING", "RUNNING")
                assert values(address, name, 1) == [b"before"]
            owners = {second.status(name)["connector"]["worker_id"] for name in names}
            assert owners == {worker.url.removeprefix("http://") for worker in (first, second)}
        for name in names:
            with (tmp_path / name).open("a") as file:
                file.write("after\n")
        for name in names:
            assert values(address, name, 2) == [b"before", b"after"]
        gone = second.url.removeprefix("http://")
        assert gone not in {first.status(name)["connector"]["worker_id"] for name in names}
        assert first.ask("GET", f"/connectors/{names[0]}/offsets")[1]["offsets"][0]["offset"]["position"] == 13
        for name in names:
            first.delete(name)
        assert first.ask("GET", "/connectors") == (200, [])
    configs = dict(records(address, settings["config.storage.topic"]))
    assert configs[f"connector-{names[0]}".encode()] is None
    assert json.loads(configs[f"task-{names[0]}-0".encode()])["properties"]["topic"] == names[0]
    assert json.loads(configs[f"commit-{names[0]}".encode()]) == {"tasks": 1}


def test_a_worker_that_is_cut_off_cannot_write_any_more(
    spark: SparkSession, settings: dict[str, str], address: str, topic: str, tmp_path: Path
) -> None:
    """It goes on to run the connector, as one would whose heartbeats are lost; the other takes over, and fences it."""
    file = tmp_path / "test.txt"
    file.write_text("")
    believer = DistributedWorker(settings, spark)
    stop = threading.Event()
    with believer:
        believer.create(topic, connector_class="FileStreamSource", file=str(file), topic=topic)
        believer.wait_for_states(topic, "RUNNING", "RUNNING")
        believer.leave_without_knowing()
        with DistributedWorker(settings, spark) as other:
            writer = threading.Thread(target=append_lines, args=(file, stop), daemon=True)
            writer.start()
            wait_until(lambda: other.status(topic)["connector"]["worker_id"] in other.url, "it is taken over", 120)
            values(address, topic, 30)
            stop.set()
            writer.join()
            lines = file.read_text().split()
            assert [value.decode() for value in values(address, topic, len(lines))] == lines
            other.delete(topic)


def append_lines(file: Path, stop: threading.Event) -> None:
    number = 0
    while not stop.wait(0.05):
        with file.open("a") as lines:
            lines.write(f"{number}\n")
        number += 1


def test_a_group_that_has_stopped_says_that_nobody_runs_its_connectors(
    spark: SparkSession, settings: dict[str, str], address: str, topic: str, tmp_path: Path
) -> None:
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": topic}
    body = {"name": topic, "config": config, "initial_state": "PAUSED"}
    with DistributedWorker({**settings, "admin.listeners": ""}, spark) as worker:
        assert worker.ask("POST", "/connectors", body)[0] == 201
        worker.wait_for_states(topic, "PAUSED", "PAUSED")
        assert worker.ask("GET", "/admin/loggers")[0] == 404
    told = records(address, settings["status.storage.topic"])
    last = {key: json.loads(value).get("state") for key, value in told if value}
    states = [last[f"status-{kind}".encode()] for kind in (f"connector-{topic}", f"task-{topic}-0")]
    assert states == ["UNASSIGNED", "UNASSIGNED"]
    with DistributedWorker(settings, spark) as worker:
        worker.wait_for_states(topic, "PAUSED", "PAUSED")
        worker.delete(topic)
