"""Offsets of sinks: read, set, forgotten; and what is told of records that were deleted before they were read."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.connect.worker.group_offsets import places_now
from tests.support.connect import SECONDS, ThreadWorker
from tests.support.waiting import wait_until


def send(address: str, topic: str, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(first, last):
        producer.produce(topic, f"{number}".encode(), partition=0)
    assert producer.flush(60) == 0


def delete_before(address: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(60)


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def offsets(worker: ThreadWorker, name: str) -> list[Any]:
    found = worker.ask("GET", f"/connectors/{name}/offsets")[1]["offsets"]
    assert isinstance(found, list)
    return found


def wait_for_offset(worker: ThreadWorker, name: str, offset: int) -> None:
    """Until the group has it: what is written may not be committed yet."""
    wait_until(lambda: [each["offset"] for each in offsets(worker, name)] == [{"kafka_offset": offset}], "", SECONDS)


def test_a_sinks_offsets_are_read_set_and_forgotten(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    send(address, topic, 0, 10)
    worker.create(topic, connector_class="FileStreamSink", file=str(out), topics=topic)
    place = {"kafka_topic": topic, "kafka_partition": 0}
    wait_for_offset(worker, topic, 10)
    assert lines(out) == numbers(0, 10)
    refused = worker.ask("PATCH", f"/connectors/{topic}/offsets", {"offsets": []})
    assert refused[0] == 400, "it runs"
    worker.stop_connector(topic)
    assert offsets(worker, topic) == [{"partition": place, "offset": {"kafka_offset": 10}}]
    wrong = {"offsets": [{"partition": place, "offset": {"kafka_offset": "x"}}]}
    assert worker.ask("PATCH", f"/connectors/{topic}/offsets", wrong)[0] == 400
    back = {"offsets": [{"partition": place, "offset": {"kafka_offset": 7}}]}
    assert worker.ask("PATCH", f"/connectors/{topic}/offsets", back)[0] == 200
    assert offsets(worker, topic) == [{"partition": place, "offset": {"kafka_offset": 7}}]
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    wait_until(lambda: lines(out) == numbers(0, 10) + numbers(7, 10), "three again", SECONDS)
    wait_for_offset(worker, topic, 10)
    worker.stop_connector(topic)
    assert worker.ask("DELETE", f"/connectors/{topic}/offsets")[0] == 200
    assert offsets(worker, topic) == []
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    wait_until(lambda: lines(out) == numbers(0, 10) + numbers(7, 10) + numbers(0, 10), "all again", SECONDS)
    worker.delete(topic)


def test_an_offset_behind_the_last_stable_one_is_a_place(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    """Of a sink that reads what is not committed, while a transaction is open."""
    send(address, topic, 0, 3)
    writer = Producer({"bootstrap.servers": address, "transactional.id": topic})
    writer.init_transactions(60)
    writer.begin_transaction()
    for number in range(3, 6):
        writer.produce(topic, f"{number}".encode(), partition=0)
    writer.flush(60)
    overrides = {"consumer.override.isolation.level": "read_uncommitted"}
    worker.create(topic, connector_class="FileStreamSink", file=str(tmp_path / "out"), topics=topic, **overrides)
    wait_for_offset(worker, topic, 6)
    worker.stop_connector(topic)
    assert worker.worker is not None
    (place,) = places_now(worker.worker.herder.job(topic), {topic: [0]}).values()
    assert (place.committed, place.is_gone) == (6, False)
    writer.abort_transaction(60)
    worker.delete(topic)


def make_anew(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([topic])[topic].result(60)
    wait_until(lambda: topic not in admin.list_topics(timeout=30).topics, "it is gone", SECONDS)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_topic_that_was_made_anew_is_read_from_its_beginning(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path, stopped: bool
) -> None:
    """Though the target knows that more records of the former one are written."""
    out = tmp_path / "out"
    send(address, topic, 0, 10)
    worker.create(topic, connector_class="FileStreamSink", file=str(out), topics=topic)
    wait_for_offset(worker, topic, 10)
    if stopped:
        worker.stop_connector(topic)
    make_anew(address, topic)
    send(address, topic, 100, 105)
    if stopped:
        assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    wait_until(lambda: lines(out) == numbers(0, 10) + numbers(100, 105), "the five new ones", SECONDS)
    wait_for_offset(worker, topic, 5)
    worker.stop_connector(topic)
    back = {"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 3}}
    assert worker.ask("PATCH", f"/connectors/{topic}/offsets", {"offsets": [back]})[0] == 200
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    expected = numbers(0, 10) + numbers(100, 105) + numbers(103, 105)
    wait_until(lambda: lines(out) == expected, "two again", SECONDS)
    worker.delete(topic)


def test_records_that_were_deleted_while_a_sink_was_stopped_are_told(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "out"
    send(address, topic, 0, 4)
    worker.create(topic, connector_class="FileStreamSink", file=str(out), topics=topic)
    wait_for_offset(worker, topic, 4)
    worker.stop_connector(topic)
    send(address, topic, 4, 10)
    delete_before(address, topic, 7)
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    wait_until(lambda: lines(out) == numbers(0, 4) + numbers(7, 10), "what is left", SECONDS)
    assert f"{topic}-0 begins at offset 7 now: 3 offsets from 4 on were deleted before they were read" in caplog.text
    worker.delete(topic)


def test_records_that_were_deleted_under_a_sink_that_runs_are_told(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The sink is held up in its first batch by the lock of its file."""
    out = tmp_path / "out"
    send(address, topic, 0, 4)
    with (tmp_path / ".out.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        worker.create(topic, connector_class="FileStreamSink", file=str(out), topics=topic)
        worker.wait_for_states(topic, "RUNNING", "RUNNING")
        wait_until(lambda: is_waited_for(tmp_path / ".out.lock"), "a batch is under way", SECONDS)
        send(address, topic, 4, 10)
        delete_before(address, topic, 7)
    wait_until(lambda: lines(out)[-3:] == numbers(7, 10), "what is left", SECONDS)
    assert "were deleted before they were read" in caplog.text
    assert worker.states(topic) == ["RUNNING", "RUNNING"]
    worker.delete(topic)


def is_waited_for(path: Path) -> bool:
    """Whether somebody waits for the lock of a file."""
    inode = path.stat().st_ino
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if " -> " in line]
    return any(fields[6].endswith(f":{inode}") for fields in waiting)


def test_with_no_policy_a_sink_fails_until_its_offsets_are_set(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    send(address, topic, 0, 6)
    delete_before(address, topic, 2)
    config = {"consumer_override_auto_offset_reset": "none"}
    worker.create(topic, connector_class="FileStreamSink", file=str(out), topics=topic, **config)
    wait_until(lambda: worker.states(topic) == ["RUNNING", "FAILED"], "it fails", SECONDS)
    assert f"there is no committed offset of {topic}-0" in worker.task_trace(topic)
    worker.stop_connector(topic)
    place = {"kafka_topic": topic, "kafka_partition": 0}
    first = {"offsets": [{"partition": place, "offset": {"kafka_offset": 3}}]}
    assert worker.ask("PATCH", f"/connectors/{topic}/offsets", first)[0] == 200
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    wait_until(lambda: lines(out) == numbers(3, 6), "the rest", SECONDS)
    worker.delete(topic)


def test_a_new_sink_may_begin_at_the_end(worker: ThreadWorker, address: str, topic: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    send(address, topic, 0, 6)
    config = {"consumer_override_auto_offset_reset": "latest"}
    worker.create(topic, connector_class="FileStreamSink", file=str(out), topics=topic, **config)
    worker.wait_for_states(topic, "RUNNING", "RUNNING")
    sent = 6

    def more_arrives() -> bool:
        nonlocal sent
        send(address, topic, sent, sent + 1)
        sent += 1
        return bool(lines(out))

    wait_until(more_arrives, "what came later", SECONDS)
    found = lines(out)
    assert found == numbers(int(found[0]), int(found[-1]) + 1)
    assert int(found[0]) >= 6
    worker.delete(topic)
