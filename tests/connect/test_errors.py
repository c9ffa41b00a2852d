"""Records that cannot be processed, and tasks that fail: what is told, what goes on."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from moldau.connect.interface import Position, RawRecord, RecordRefused, SourceConnector, SourceRecord, Stream
from tests.support.connect import JSON, SECONDS, ThreadWorker, values
from tests.support.waiting import wait_until

CAST = "org.apache.kafka.connect.transforms.Cast$Value"


def send(address: str, topic: str, *contents: bytes) -> None:
    producer = Producer({"bootstrap.servers": address})
    for content in contents:
        producer.produce(topic, content, b"key", 0)
    assert producer.flush(60) == 0


def letters(address: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": f"{topic}-reader", "auto.offset.reset": "earliest"})
    found: list[Message] = []
    consumer.subscribe([topic])

    def look() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return len(found) >= count

    try:
        wait_until(look, "dead letters", SECONDS, pause=0)
    finally:
        consumer.close()
    return found


def told(letter: Message) -> dict[str, str]:
    pairs = [(name.removeprefix("__connect.errors."), value) for name, value in letter.headers() or []]
    return {name: value.decode() for name, value in pairs if isinstance(value, bytes)}


def test_a_record_that_does_not_decode_fails_the_task_or_is_a_dead_letter(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    good = b'{"schema":{"type":"string","optional":false},"payload":"good"}'
    send(address, topic, good, b"no JSON at all", good)
    config = {
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": topic,
        "value.converter": JSON,
    }
    assert worker.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 201
    wait_until(lambda: "FAILED" in worker.states(topic), "the task fails", SECONDS)
    trace = worker.task_trace(topic)
    assert "RecordRefused: Tolerance exceeded in error handler: VALUE_CONVERTER" in trace.splitlines()[0]
    assert f"of {topic}-0 at offset 1" in trace.splitlines()[0]
    tolerant = {
        **config,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dlq",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    assert worker.ask("PUT", f"/connectors/{topic}/config", tolerant)[0] == 200
    (letter,) = letters(address, f"{topic}-dlq", 1)
    assert (letter.key(), letter.value()) == (b"key", b"no JSON at all")
    headers = told(letter)
    assert (headers["topic"], headers["offset"], headers["stage"]) == (topic, "1", "VALUE_CONVERTER")
    assert headers["class.name"] == JSON
    wait_until(lambda: out.exists() and out.read_text() == "good\ngood\n", "the good ones are there", SECONDS)
    worker.delete(topic)


def test_a_source_has_dead_letters_in_the_transaction_of_its_records(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "numbers"
    file.write_text("1\ntwo\n3\n")
    worker.create(
        topic,
        connector_class="FileStreamSource",
        file=str(file),
        topic=topic,
        transforms="c",
        transforms_c_type=CAST,
        transforms_c_spec="int32",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=f"{topic}-dlq",
        errors_deadletterqueue_context_headers_enable="true",
    )
    assert values(address, topic, 2) == [b"1", b"3"]
    (letter,) = letters(address, f"{topic}-dlq", 1)
    assert letter.value() == b"two"
    assert told(letter) == {
        "topic": topic,
        "connector.name": topic,
        "task.id": "0",
        "stage": "TRANSFORMATION",
        "class.name": CAST,
        "exception.class.name": "org.apache.kafka.connect.errors.DataException",
        "exception.message": "the value cannot be cast",
        "exception.stacktrace": "org.apache.kafka.connect.errors.DataException: the value cannot be cast",
    }
    worker.delete(topic)


class Counting(SourceConnector):
    """Of ten numbers it cannot make one."""

    def streams(self) -> list[Stream]:
        return [Stream({"numbers": "ten"}, self.config["topic"], "int")]

    def latest(self, stream: Stream, position: Position | None) -> Position:
        return {"next": 10}

    def read(self, stream: Stream, begin: Position | None, end: Position) -> Iterator[SourceRecord | RecordRefused]:
        for number in range(begin["next"] if begin else 0, end["next"]):
            if number == 5:
                yield RecordRefused("five is right out", RawRecord(b"a key", b"\0five", [("from", b"Antioch")]))
            else:
                yield SourceRecord(number)


@pytest.mark.parametrize("transformed", [False, True])
def test_a_record_that_a_source_refuses_fails_the_task_or_is_a_dead_letter(
    worker: ThreadWorker, address: str, topic: str, transformed: bool
) -> None:
    config = {"connector.class": f"{__name__}:Counting", "topic": topic}
    if transformed:
        config |= {"transforms": "c", "transforms.c.type": CAST, "transforms.c.spec": "int64"}
    assert worker.ask("PUT", f"/connectors/{topic}/config", config)[0] == 201
    wait_until(lambda: "FAILED" in worker.states(topic), "the task fails", SECONDS)
    assert "Tolerance exceeded in error handler: five is right out" in worker.task_trace(topic)
    config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{topic}-dlq"}
    config |= {"errors.deadletterqueue.context.headers.enable": "true"}
    assert worker.ask("PUT", f"/connectors/{topic}/config", config)[0] == 200
    assert values(address, topic, 9) == [b"%d" % number for number in range(10) if number != 5]
    (letter,) = letters(address, f"{topic}-dlq", 1)
    assert (letter.key(), letter.value()) == (b"a key", b"\0five")
    headers = told(letter)
    assert (headers["from"], headers["stage"], headers["class.name"]) == (
        "Antioch",
        "TASK_POLL",
        f"{__name__}:Counting",
    )
    assert headers["exception.message"] == "five is right out"
    worker.delete(topic)


def test_a_task_that_cannot_read_says_why_and_goes_on_when_it_can(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    worker.create(topic, connector_class="FileStreamSource", file=str(place), topic=topic)
    worker.wait_for_states(topic, "RUNNING", "FAILED")
    assert "IsADirectoryError" in worker.task_trace(topic).splitlines()[0]
    place.rmdir()
    place.write_text("now\n")
    assert values(address, topic, 1) == [b"now"]
    worker.wait_for_states(topic, "RUNNING", "RUNNING")
    worker.delete(topic)


def test_topics_that_a_transform_merges_lose_nothing_and_what_the_database_refuses_is_a_dead_letter(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    database = tmp_path / "rows.db"
    with closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE everything (n INTEGER NOT NULL CHECK (n <> 13))")
    first, second = f"{topic}-a", f"{topic}-b"
    send(address, first, b'{"n":1}', b'{"n":2}', b'{"n": 13}', b'{"n":3}')
    send(address, second, b'{"n":11}', b'{"n":12}')
    worker.create(
        topic,
        connector_class="JdbcSinkConnector",
        connection_url=f"jdbc:sqlite:{database}",
        topics=f"{first},{second}",
        value_converter=JSON,
        value_converter_schemas_enable="false",
        transforms="merge,add",
        transforms_merge_type="org.apache.kafka.connect.transforms.RegexRouter",
        transforms_merge_regex=".*",
        transforms_merge_replacement="everything",
        transforms_add_type="InsertHeader",
        transforms_add_header="added",
        transforms_add_value_literal="x",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=f"{topic}-dlq",
        errors_deadletterqueue_context_headers_enable="true",
    )
    (letter,) = letters(address, f"{topic}-dlq", 1)
    assert (letter.key(), letter.value()) == (b"key", b'{"n": 13}'), "as it was read"
    headers = told(letter)
    assert "added" not in headers
    assert (headers["topic"], headers["partition"], headers["offset"]) == (first, "0", "2")
    assert (headers["stage"], headers["class.name"]) == ("TASK_PUT", "JdbcSinkConnector")
    assert "CHECK constraint failed" in headers["exception.message"]

    def rows() -> list[int]:
        with closing(sqlite3.connect(database)) as connection:
            return [number for (number,) in connection.execute("SELECT n FROM everything ORDER BY n")]

    wait_until(lambda: len(rows()) >= 5, "the rows of both topics", SECONDS)
    assert rows() == [1, 2, 3, 11, 12]
    worker.delete(topic)


def test_what_was_done_meanwhile_gives_a_later_failure_its_whole_time(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two failures, each shorter than errors.retry.timeout, with more than that between them."""
    assert worker.worker is not None
    runner, shift = worker.worker.runner, 0.0
    states: list[str | None] = []
    failures: list[str] = []
    told, failed = runner._told.status, runner._failed

    def listening(name: str, task: int | None, state: str | None, trace: str | None) -> None:
        states.append(state)
        told(name, task, state, trace)

    def counting(name: str, *rest: Any) -> None:
        failures.append(name)
        failed(name, *rest)

    monkeypatch.setattr(runner._told, "status", listening)
    monkeypatch.setattr(runner, "_failed", counting)
    monkeypatch.setattr(runner, "_monotonic", lambda: time.monotonic() + shift)
    folder, away = tmp_path / "folder", tmp_path / "away"
    folder.mkdir()
    config = {"errors_retry_timeout": "30000", "errors_retry_delay_max_ms": "100"}
    worker.create(topic, connector_class="FileStreamSink", file=str(folder / "out"), topics=topic, **config)
    for number in range(2):
        folder.rename(away)
        folder.touch()
        before = len(failures)
        send(address, topic, f"{number}".encode())
        wait_until(lambda before=before: len(failures) > before, "it fails", SECONDS)  # type: ignore[misc]
        folder.unlink()
        away.rename(folder)
        wait_until(lambda number=number: is_committed(worker, topic, number + 1), "it goes on", SECONDS)  # type: ignore[misc]
        shift += 40.0
    assert "FAILED" not in states
    worker.delete(topic)


def is_committed(worker: ThreadWorker, name: str, offset: int) -> bool:
    found = worker.ask("GET", f"/connectors/{name}/offsets")[1]["offsets"]
    return [each["offset"]["kafka_offset"] for each in found] == [offset]


def test_settings_that_nobody_knows_are_in_the_log(
    worker: ThreadWorker, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker.create(topic, connector_class="FileStreamSource", file=str(tmp_path / "f"), topic=topic, errors_tolerence="")
    assert (
        f"connector {topic}: errors.tolerence is not known, and passed over: did you mean errors.tolera" in caplog.text
    )
    worker.delete(topic)
