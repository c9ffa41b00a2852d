"""Files to topics and back, with the property files of the book."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moldau.connect.exactness import take_over
from moldau.connect.sources import SourceQuery
from moldau.connect.worker.runner import shares_now
from tests.support.broker import Broker
from tests.support.connect import JSON, SECONDS, ThreadWorker, WorkerProcess, records, values, worker_properties
from tests.support.waiting import wait_until


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_lines_go_through_a_topic_into_another_file(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    source, sink = tmp_path / "test.txt", tmp_path / "test.sink.txt"
    worker.create(f"{topic}-in", connector_class="FileStreamSource", tasks_max="1", file=str(source), topic=topic)
    worker.create(f"{topic}-out", connector_class="FileStreamSink", tasks_max="1", file=str(sink), topics=topic)
    source.write_text("test 1\ntest 2\nhalf a li")
    wait_until(lambda: text(sink) == "test 1\ntest 2\n", "two lines", SECONDS)
    with source.open("a") as file:
        file.write("ne\r\nčtyři\n")
    wait_until(lambda: text(sink) == "test 1\ntest 2\nhalf a line\nčtyři\n", "four lines", SECONDS)
    assert values(address, topic, 4) == [b"test 1", b"test 2", b"half a line", "čtyři".encode()]
    worker.delete(f"{topic}-in")
    worker.delete(f"{topic}-out")


def test_rotated_and_truncated_files_are_followed_and_restarts_repeat_nothing(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "app.log"
    file.write_text("1\n2\n")
    worker.create(topic, connector_class="FileStreamSource", file=str(file), topic=topic)
    assert values(address, topic, 2) == [b"1", b"2"]
    assert worker.ask("PUT", f"/connectors/{topic}/pause")[0] == 202
    worker.wait_for_states(topic, "PAUSED", "PAUSED")
    with file.open("a") as more:
        more.write("3\n")
    file.rename(tmp_path / "app.log.1")
    file.write_text("4\n")
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    assert values(address, topic, 4) == [b"1", b"2", b"3", b"4"]
    file.write_text("5 is as long\n")
    assert values(address, topic, 5)[4:] == [b"5 is as long"]
    assert worker.ask("POST", f"/connectors/{topic}/restart?includeTasks=true")[0] == 202
    with file.open("a") as more:
        more.write("6\n")
    assert values(address, topic, 6)[4:] == [b"5 is as long", b"6"]
    worker.delete(topic)


def test_json_with_schemas_is_what_the_printed_files_say(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    """`connect-standalone.properties` as it is printed has the JSON converter with schemas on both sides."""
    source, sink = tmp_path / "in", tmp_path / "out"
    source.write_text('test "1"\n')
    converters = {"key_converter": JSON, "value_converter": JSON}
    worker.create(f"{topic}-in", connector_class="FileStreamSource", file=str(source), topic=topic, **converters)
    worker.create(f"{topic}-out", connector_class="FileStreamSink", file=str(sink), topics=topic, **converters)
    wait_until(lambda: text(sink) == 'test "1"\n', "the line", SECONDS)
    ((key, value),) = records(address, topic)
    assert key is None
    assert json.loads(value) == {"schema": {"type": "string", "optional": False}, "payload": 'test "1"'}
    worker.delete(f"{topic}-in")
    worker.delete(f"{topic}-out")


def test_offsets_are_read_set_and_forgotten_while_a_connector_is_stopped(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "test.txt"
    file.write_text("a\nb\n")
    worker.create(topic, connector_class="FileStreamSource", file=str(file), topic=topic)
    assert values(address, topic, 2) == [b"a", b"b"]
    status, refused = worker.ask("DELETE", f"/connectors/{topic}/offsets")
    assert (status, refused["error_code"]) == (400, 400)
    assert "must be in the STOPPED state" in refused["message"]
    worker.stop_connector(topic)
    partition = {"filename": str(file)}
    (found,) = worker.ask("GET", f"/connectors/{topic}/offsets")[1]["offsets"]
    assert found["partition"] == partition
    assert found["offset"]["position"] == 4
    wrong = {"offsets": [{"partition": partition, "offset": {"position": "x"}}]}
    assert worker.ask("PATCH", f"/connectors/{topic}/offsets", wrong)[0] == 400
    right = {"offsets": [{"partition": partition, "offset": {"position": 2}}]}
    assert worker.ask("PATCH", f"/connectors/{topic}/offsets", right)[0] == 200
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    assert values(address, topic, 3) == [b"a", b"b", b"b"]
    worker.stop_connector(topic)
    assert worker.ask("DELETE", f"/connectors/{topic}/offsets")[0] == 200
    assert worker.ask("GET", f"/connectors/{topic}/offsets")[1] == {"offsets": []}
    worker.delete(topic)


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_who_does_not_know_that_a_connector_is_stopped_cannot_write_over_its_new_offsets(
    worker: ThreadWorker, spark: SparkSession, address: str, topic: str, tmp_path: Path, method: str
) -> None:
    """A worker that was paused all the time, and goes on with its query."""
    file = tmp_path / "test.txt"
    file.write_text("one\n")
    worker.create(topic, connector_class="FileStreamSource", file=str(file), topic=topic)
    assert values(address, topic, 1) == [b"one"]
    worker.stop_connector(topic)
    assert worker.worker is not None
    job = worker.worker.herder.job(topic)
    (share,) = shares_now(job)
    believer = SourceQuery(spark, job, share, take_over(job.client, share.identity))
    query = believer.start([{"position": 4}])
    try:
        with file.open("a") as lines:
            lines.write("two\n")
        assert values(address, topic, 2) == [b"one", b"two"]
        place = {"partition": {"filename": str(file)}, "offset": {"position": 0}}
        body = {"offsets": [place]} if method == "PATCH" else None
        assert worker.ask(method, f"/connectors/{topic}/offsets", body)[0] == 200
        with file.open("a") as lines:
            lines.write("three\n")
        wait_until(lambda: not query.isActive, "it is locked out", SECONDS)
        assert "TakenOver" in str(query.exception())
        wanted = {"offsets": [place] if method == "PATCH" else []}
        assert worker.ask("GET", f"/connectors/{topic}/offsets") == (200, wanted)
    finally:
        believer.stop()
        worker.delete(topic)


def test_what_stands_elsewhere_is_looked_up_and_told_nobody(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    source, secrets = tmp_path / "in.txt", tmp_path / "secrets.properties"
    source.write_text("a\n")
    secrets.write_text(f"place={source}\n")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    reference = f"${{file:{secrets}:place}}"
    with ThreadWorker({**worker_properties(tmp_path, broker.address), **providers}, spark) as worker:
        config = {"connector.class": "FileStreamSource", "file": reference, "topic": topic}
        wrong = {**config, "file": f"${{file:{secrets}:nowhere}}"}
        status, refused = worker.ask("POST", "/connectors", {"name": topic, "config": wrong})
        assert (status, f"{secrets} has no key nowhere" in refused["message"]) == (400, True)
        worker.create(topic, **config)
        assert values(broker.address, topic, 1) == [b"a"]
        shown = [worker.ask("GET", path) for path in (f"/connectors/{topic}", f"/connectors/{topic}/tasks")]
        assert all(reference in json.dumps(answer) and str(source) not in json.dumps(answer) for _, answer in shown)
        worker.delete(topic)


KILLS = 2


@pytest.mark.parametrize("kills", [KILLS, pytest.param(20, marks=[pytest.mark.chaos, pytest.mark.timeout(3600)])])
def test_a_killed_worker_loses_and_repeats_nothing(broker: Broker, tmp_path: Path, topic: str, kills: int) -> None:
    """The worker as a process, killed while lines are on their way; the second file equals the first."""
    source, sink = tmp_path / "test.txt", tmp_path / "test.sink.txt"
    properties = worker_properties(tmp_path, broker.address, spark_master="local[2]")
    write(tmp_path / "worker.properties", properties)
    write(
        tmp_path / "source.properties",
        {
            "name": f"{topic}-in",
            "connector.class": "FileStreamSource",
            "file": str(source),
            "topic": topic,
            "batch.bytes": "5000",
        },
    )
    write(
        tmp_path / "sink.properties",
        {"name": f"{topic}-out", "connector.class": "FileStreamSink", "file": str(sink), "topics": topic},
    )
    files = ["worker.properties", "source.properties", "sink.properties"]
    worker = WorkerProcess(tmp_path, ["connect", "standalone", *files])
    lines = 0
    for _ in range(kills):
        worker.start()
        with source.open("a") as file:
            file.writelines(f"line {number:06}\n" for number in range(lines, lines + 5000))
        before, lines = len(text(sink)), lines + 5000
        wait_until(lambda before=before: len(text(sink)) > before + 1000, "some lines are through", SECONDS, 0.001)  # type: ignore[misc]
        worker.kill()
    worker.start()
    worker.wait_until_ready()
    wait_until(lambda: text(sink) == text(source), "the files are equal", SECONDS)
    sent = [value.decode() for value in values(broker.address, topic, lines)]
    assert sent == text(source).splitlines()
    assert worker.stop() == 0


def write(path: Path, properties: dict[str, str]) -> None:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
