"""Kafka Streams and Kafka Connect, exactly once, killed in the middle of their work and started again: the results are
as if nothing had happened. Their programs are tests/peers/java.
"""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.test_transactions import SECONDS, reader, values
from tests.peers.java_programs import CONNECT, STREAMS, command
from tests.support.admin import create_topic
from tests.support.clients import Confluent, Message
from tests.support.process import die_with_parent, free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]
APPLICATION_SECONDS = 180.0
PARTITIONS = 2
KEYS = 7
COUNTED = 3000
ROUNDS = 3
NUMBERS = 2000


@contextmanager
def running(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is killed at the end, whatever it is doing by then."""
    with log.open("ab") as out:
        process = subprocess.Popen(arguments, stdout=out, stderr=out, preexec_fn=die_with_parent)  # noqa: PLW1509
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def all_written(address: str, topic: str) -> int:
    """Records that are there, decided or not."""
    return len(values(address, topic, PARTITIONS, "read_uncommitted"))


def keyed(address: str, topic: str) -> list[tuple[bytes, int]]:
    """Keys and counts of everything that is committed."""
    consumer = reader(address)
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        found, ended = [], 0
        while ended < PARTITIONS:
            message = consumer.poll(SECONDS)
            assert message is not None
            if message.error() is None:
                found.append((message.key(), int(message.value())))
            else:
                ended += 1
        return found
    finally:
        consumer.close()


def test_streams_application_is_killed(address: str, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    """Each record gives the count of its key so far: every number once, whatever was killed."""
    source, target, log = f"{topic}-in", f"{topic}-out", tmp_path / "log"
    create_topic(admin, source, PARTITIONS)
    create_topic(admin, target, PARTITIONS)
    given = {"bootstrap": address, "input": source, "output": target, "id": topic, "state": tmp_path / "state",
             "threads": 2}  # fmt: skip
    arguments = command("StreamsCount", STREAMS, [f"{name}={value}" for name, value in given.items()])
    wanted: Counter[bytes] = Counter()
    for part in range(ROUNDS):
        keys = [b"k%d" % (number % KEYS) for number in range(COUNTED)]
        wanted.update(keys)
        Confluent().produce(address, source, [Message(b"x", key) for key in keys])
        before = all_written(address, target)
        with running(arguments, log) as application:
            if part < ROUNDS - 1:
                enough = before + COUNTED // 3
                wait_until(
                    lambda enough=enough, application=application: (
                        application.poll() is not None or all_written(address, target) > enough
                    ),
                    "a part is counted",
                    seconds=APPLICATION_SECONDS,
                )
            else:
                wait_until(
                    lambda application=application: (
                        application.poll() is not None or len(keyed(address, target)) >= wanted.total()
                    ),
                    "all is counted",
                    seconds=APPLICATION_SECONDS,
                )
            assert application.poll() is None, log.read_text()[-8000:]
    assert sorted(keyed(address, target)) == sorted(
        (key, count) for key, total in wanted.items() for count in range(1, total + 1)
    )


def call(port: int, path: str, body: object | None = None) -> object | None:
    """Connect's answer, or None while it has none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return json.loads(answer.read())  # type: ignore[no-any-return]
    except urllib.error.HTTPError as error:
        if error.code in (404, 409, 500, 503):
            return None
        raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from error
    except OSError:
        return None


def worker_settings(address: str, topic: str, port: int) -> str:
    settings = {
        "bootstrap.servers": address,
        "group.id": f"{topic}-workers",
        "exactly.once.source.support": "enabled",
        "config.storage.topic": f"{topic}-configs",
        "offset.storage.topic": f"{topic}-offsets",
        "status.storage.topic": f"{topic}-status",
        "config.storage.replication.factor": 1,
        "offset.storage.replication.factor": 1,
        "status.storage.replication.factor": 1,
        "offset.storage.partitions": 5,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "only_scan",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
        "scheduled.rebalance.max.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def test_connect_worker_is_killed(address: str, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    """A source task goes on where its offsets say, which are written in the transactions of its records."""
    target, log, port = f"{topic}-out", tmp_path / "log", free_port()
    create_topic(admin, target)
    properties = tmp_path / "worker.properties"
    properties.write_text(worker_settings(address, topic, port))
    arguments = command("NumberSource", CONNECT, [properties])
    connector = {
        "name": "numbers",
        "config": {
            "connector.class": "NumberSource", "tasks.max": 1, "topic": target, "count": NUMBERS,
            "exactly.once.support": "required", "transaction.boundary": "poll",
        },
    }  # fmt: skip
    for part in range(ROUNDS):
        with running(arguments, log) as worker:
            if part == 0:
                wait_until(
                    lambda worker=worker: worker.poll() is not None or call(port, "/connectors", connector) is not None,
                    "the connector is there",
                    seconds=APPLICATION_SECONDS,
                )
            enough = NUMBERS * (part + 1) // ROUNDS
            wait_until(
                lambda worker=worker, enough=enough: (
                    worker.poll() is not None or len(values(address, target)) >= enough
                ),
                f"{enough} numbers are written",
                seconds=APPLICATION_SECONDS,
            )
            assert worker.poll() is None, log.read_text()[-8000:]
    assert values(address, target) == [b"%d" % number for number in range(NUMBERS)]
