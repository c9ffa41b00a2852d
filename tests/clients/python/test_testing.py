"""`moldau.testing`: brokers that come, crash, go on and leave nothing, and the pytest plug-in in a run of its own."""

from __future__ import annotations

import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau.clients.errors import UnknownTopic
from moldau.testing import Broker, Registry, brokers
from moldau.testing.brokers import Kafka

TESTS = """
from pathlib import Path

def test_one(moldau_broker, moldau_topic):
    with moldau_broker.producer(value_serializer="string") as producer:
        producer.send(moldau_topic, "tea").result(30)
    assert moldau_broker.values(moldau_topic, 1, value_deserializer="string") == ["tea"]
    with Path("seen").open("a") as seen:
        print(moldau_broker.bootstrap, getattr(moldau_broker, "folder", ""), file=seen)

def test_two(moldau_broker, moldau_topic):
    test_one(moldau_broker, moldau_topic)
"""


WITH_SCHEMAS = """
from pathlib import Path
from moldau.clients.registered import Avro

def test_one(moldau_broker, moldau_topic, moldau_registry):
    schema = {"type": "record", "name": "Tea", "fields": [{"name": "leaves", "type": "int"}]}
    with moldau_broker.producer(moldau_registry.properties, value_serializer=Avro(schema)) as producer:
        producer.send(moldau_topic, {"leaves": 3}).result(30)
    read = moldau_broker.values(moldau_topic, 1, value_deserializer=Avro(), **moldau_registry.properties)
    assert read == [{"leaves": 3}]
    assert moldau_registry.register(f"{moldau_topic}-value", schema) == moldau_registry.register("tea", schema)
    with Path("seen").open("a") as seen:
        print(moldau_registry.url, file=seen)

def test_two(moldau_broker, moldau_topic, moldau_registry):
    test_one(moldau_broker, moldau_topic, moldau_registry)
"""


def run(folder: Path, *options: str, tests: str = TESTS) -> list[list[str]]:
    """The addresses, and folders, of the servers that the two tests saw."""
    (folder / "test_it.py").write_text(tests)
    # By its module's name, as it may or may not be installed here as a plug-in too.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:moldau", "-p", "moldau.testing.plugin", "-p", "no:xdist"]
    done = subprocess.run([*command, "--rootdir", str(folder), *options], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split() for line in (folder / "seen").read_text().splitlines()]


def test_values_of_a_topic_that_is_only_made_meanwhile(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"late-{secrets.token_hex(6)}"

    def make_it_instead_of_sleeping(seconds: float) -> None:
        kafka.topic(name)
        with kafka.producer(value_serializer="string") as producer:
            producer.send(name, "tea").result(30)

    monkeypatch.setattr(brokers, "sleep", make_it_instead_of_sleeping)
    assert kafka.values(name, 1) == [b"tea"]


def test_values_of_a_topic_that_nobody_makes(kafka: Kafka) -> None:
    with pytest.raises(UnknownTopic, match="nobody-makes-it"):
        kafka.values("nobody-makes-it", 1, seconds=0.0)


def test_records_with_times_of_long_ago_stay(kafka: Kafka) -> None:
    """Half a minute after a start, and every five, retention would take them away in the middle of a test."""
    if isinstance(kafka, Broker):
        with kafka.admin() as admin:
            assert admin.describe_topic_config(kafka.topic())["retention.ms"].value == "-1"


def test_one_broker_serves_a_run_and_leaves_nothing(tmp_path: Path) -> None:
    first, second = run(tmp_path)
    assert first == second
    assert not Path(first[1]).exists()


def test_each_test_may_have_its_own(tmp_path: Path) -> None:
    first, second = run(tmp_path, "-o", "moldau_scope=function")
    assert first[0] != second[0]


def test_a_run_may_use_a_kafka_that_runs_already(kafka: Kafka, tmp_path: Path) -> None:
    assert run(tmp_path, "--moldau-bootstrap", kafka.bootstrap) == [[kafka.bootstrap]] * 2


def test_a_registry_serves_a_run(tmp_path: Path) -> None:
    first, second = run(tmp_path, tests=WITH_SCHEMAS)
    assert first == second


def test_a_run_may_use_a_registry_that_runs_already(kafka: Kafka, tmp_path: Path) -> None:
    with Registry(
        kafka.bootstrap, {"schema.registry.group.id": "of-a-test", "kafkastore.topic": "of-a-test"}
    ) as running:
        options = ("--moldau-bootstrap", kafka.bootstrap, "--moldau-registry", running.url)
        assert run(tmp_path, *options, tests=WITH_SCHEMAS) == [[running.url]] * 2
        before = running.client().ask("/subjects/tea/versions/latest")
        running.kill()
        running.start()
        assert running.client().ask("/subjects/tea/versions/latest") == before


def test_a_wrong_scope_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="moldau_scope is 'always'"):
        run(tmp_path, "-o", "moldau_scope=always")


def test_a_broker_goes_on_after_a_crash() -> None:
    with Broker({"num.partitions": 2}) as broker:
        with broker.producer() as producer:
            producer.send("orders", b"tea", partition=1).result(30)
            broker.kill()
            waiting = producer.send("orders", b"coffee", partition=1)
            broker.start()
            assert waiting.result(60).offset == 1
        assert broker.values("orders", 2) == [b"tea", b"coffee"]
        folder = broker.folder
    assert not folder.exists()


def test_what_a_thread_starts_outlives_it() -> None:
    with ExitStack() as stack:

        def start() -> Broker:
            return stack.enter_context(Broker())

        with ThreadPoolExecutor(1) as helper:
            broker = helper.submit(start).result()
        # The kernel tells of the end of that thread before anybody can have waited for it.
        topic = broker.topic("orders")
        with broker.producer() as producer:
            assert producer.send(topic, b"tea").result(30).offset == 0
        broker.kill()
        with ThreadPoolExecutor(1) as helper:
            helper.submit(broker.start).result()
        assert broker.values(topic, 1) == [b"tea"]
