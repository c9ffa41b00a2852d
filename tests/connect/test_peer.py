"""The same requests to Apache Kafka Connect's own worker and to ours, on one broker; the answers are compared.

What differs on purpose stands in `DIFFERENCES` with its reason.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest
from pyspark.sql import SparkSession

from tests.connect.test_distributed import properties as group_properties
from tests.peers.apache_kafka import java_program
from tests.peers.java_programs import CONNECT_FILE, OPTIONS, can_run
from tests.support.broker import Broker
from tests.support.connect import SECONDS, DistributedWorker, Rest, ThreadWorker, values, worker_properties
from tests.support.process import die_with_parent, free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.skipif(not can_run(CONNECT_FILE), reason="no Maven to fetch the peer")]

Request = tuple[str, str, Any]
UNLIKE: Final = ("worker_id", "version", "commit")
SOURCE: Final = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "FILE", "topic": "TOPIC"}
SINK: Final = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": "FILE.out", "topics": "TOPIC"}
PLACE: Final = {"kafka_topic": "TOPIC", "kafka_partition": 0}
CREATE: Final = ("POST", "/connectors", {"name": "in", "config": SOURCE})


def offset_of(partition: dict[str, Any], offset: dict[str, Any]) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset}]}


# Each list runs on a worker without connectors; states are waited for after each request.
SCENARIOS: Final[Mapping[str, list[Request]]] = {
    "nothing there": [
        ("GET", "/connectors", None),
        ("GET", "/connectors/none", None),
        ("GET", "/connectors/none/config", None),
        ("GET", "/connectors/none/status", None),
        ("GET", "/connectors/none/tasks", None),
        ("GET", "/connectors/none/tasks/0/status", None),
        ("GET", "/connectors/none/offsets", None),
        ("DELETE", "/connectors/none", None),
        ("PUT", "/connectors/none/pause", None),
        ("PUT", "/connectors/none/resume", None),
        ("POST", "/connectors/none/restart?includeTasks=true", None),
        ("PATCH", "/connectors/none/config", {"a": "b"}),
        ("DELETE", "/connectors/none/offsets", None),
        ("GET", "/connectors/none/topics", None),
        ("GET", "/nothing/here", None),
    ],
    "made, read, changed, deleted": [
        CREATE,
        CREATE,
        ("GET", "/connectors", None),
        ("GET", "/connectors/in", None),
        ("GET", "/connectors/in/config", None),
        ("GET", "/connectors/in/status", None),
        ("GET", "/connectors/in/tasks/0/status", None),
        ("GET", "/connectors/in/tasks/7/status", None),
        ("GET", "/connectors?expand=status", None),
        ("GET", "/connectors?expand=info", None),
        ("PATCH", "/connectors/in/config", {"tasks.max": "2", "batch.size": "100"}),
        ("PATCH", "/connectors/in/config", {"batch.size": None}),
        ("PUT", "/connectors/in/config", {**SOURCE, "name": "other"}),
        ("PUT", "/connectors/in/config", SOURCE),
        ("PUT", "/connectors/new/config", SINK),
        ("DELETE", "/connectors/new", None),
        ("DELETE", "/connectors/in", None),
        ("GET", "/connectors", None),
    ],
    "states": [
        CREATE,
        ("PUT", "/connectors/in/pause", None),
        ("GET", "/connectors/in/status", None),
        ("PUT", "/connectors/in/resume", None),
        ("GET", "/connectors/in/status", None),
        ("POST", "/connectors/in/restart", None),
        ("POST", "/connectors/in/tasks/0/restart", None),
        ("POST", "/connectors/in/tasks/9/restart", None),
        ("PUT", "/connectors/in/stop", None),
        ("GET", "/connectors/in/status", None),
        ("GET", "/connectors/in/tasks", None),
        ("DELETE", "/connectors/in", None),
        ("POST", "/connectors", {"name": "in", "config": SOURCE, "initial_state": "STOPPED"}),
        ("GET", "/connectors/in/status", None),
        ("DELETE", "/connectors/in", None),
    ],
    "offsets": [
        CREATE,
        ("DELETE", "/connectors/in/offsets", None),
        ("PUT", "/connectors/in/stop", None),
        ("PATCH", "/connectors/in/offsets", {"offsets": []}),
        ("PATCH", "/connectors/in/offsets", offset_of({"x": 1}, {"position": 1})),
        ("PATCH", "/connectors/in/offsets", offset_of({"filename": "FILE"}, {"p": 1})),
        ("PATCH", "/connectors/in/offsets", offset_of({"filename": "FILE"}, {"position": 3})),
        ("GET", "/connectors/in/offsets", None),
        ("DELETE", "/connectors/in/offsets", None),
        ("GET", "/connectors/in/offsets", None),
        ("DELETE", "/connectors/in", None),
        ("PUT", "/connectors/out/config", SINK),
        ("PUT", "/connectors/out/stop", None),
        ("PATCH", "/connectors/out/offsets", offset_of({"kafka_topic": "TOPIC"}, {})),
        ("PATCH", "/connectors/out/offsets", offset_of({"kafka_topic": "TOPIC", "kafka_partition": "x"}, {})),
        ("PATCH", "/connectors/out/offsets", offset_of(PLACE, {"kafka_offset": 5})),
        ("GET", "/connectors/out/offsets", None),
        ("DELETE", "/connectors/out/offsets", None),
        ("GET", "/connectors/out/offsets", None),
        ("DELETE", "/connectors/out", None),
    ],
    "what is refused": [
        ("POST", "/connectors", {"name": "bad", "config": {"connector.class": "FileStreamSource"}}),
        ("POST", "/connectors", {"name": "bad", "config": {**SOURCE, "tasks.max": "0"}}),
        ("POST", "/connectors", {"name": "bad", "config": {**SOURCE, "tasks.max": "many"}}),
        ("POST", "/connectors", {"name": "bad", "config": {**SOURCE, "errors.tolerance": "some"}}),
        ("POST", "/connectors", {"name": "bad", "config": {"connector.class": "FileStreamSink", "file": "FILE"}}),
        ("POST", "/connectors", {"name": "bad", "config": {**SINK, "topics.regex": "a.*"}}),
        ("POST", "/connectors", {"name": "bad", "config": {**SINK, "topics": "TOPIC,TOPIC"}}),
        ("POST", "/connectors", {"name": "bad", "config": {**SOURCE, "name": "worse"}}),
        ("GET", "/connectors", None),
        ("PUT", "/connector-plugins/FileStreamSink/config/validate", SOURCE),
        ("PUT", "/admin/loggers/x", {"level": "LOUD"}),
        ("PUT", "/admin/loggers/x", {}),
        ("GET", "/admin/loggers/no.such.logger", None),
    ],
    "odd requests": [
        ("GET", "/", None),
        ("GET", "/health", None),
        ("PUT", "/connectors", {}),
        ("DELETE", "/connectors", None),
        ("POST", "/connectors", {"config": SOURCE}),
        ("POST", "/connectors", {"name": "in"}),
        ("POST", "/connectors", {"name": "", "config": SOURCE}),
        ("POST", "/connectors", {"name": "a/b", "config": SOURCE, "initial_state": "STOPPED"}),
        ("GET", "/connectors/a%2Fb", None),
        ("DELETE", "/connectors/a%2Fb", None),
        ("POST", "/connectors", {"name": "in", "config": SOURCE, "initial_state": "ASLEEP"}),
        ("POST", "/connectors", {"name": "in", "config": SOURCE, "initial_state": "paused"}),
        ("GET", "/connectors/in/status", None),
        ("DELETE", "/connectors/in", None),
        ("DELETE", "/connectors/in", None),
        CREATE,
        ("PATCH", "/connectors/in", {}),
        ("GET", "/connectors?expand=status&expand=info", None),
        ("GET", "/connectors?expand=nothing", None),
        ("PATCH", "/connectors/in/config", {}),
        ("PATCH", "/connectors/in/config", {"tasks.max": "-1"}),
        ("PATCH", "/connectors/in/offsets", {}),
        ("POST", "/connectors/in/restart?includeTasks=True&onlyFailed=True", None),
        ("POST", "/connectors/in/restart?includeTasks=true", None),
        ("PUT", "/connectors/in/topics/reset", None),
        ("GET", "/connectors/in/tasks/x/status", None),
        ("PUT", "/connectors/in/resume", None),
        ("PUT", "/connectors/in/stop", None),
        ("PUT", "/connectors/in/pause", None),
        ("GET", "/connectors/in/status", None),
        ("PUT", "/connectors/in/resume", None),
        ("GET", "/connectors/in/status", None),
        ("DELETE", "/connectors/in", None),
        ("PUT", "/connector-plugins/NoSuchThing/config/validate", SOURCE),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", {"file": "FILE"}),
        ("GET", "/connector-plugins/NoSuchThing/config", None),
    ],
}  # fmt: skip
DIFFERENCES: Final[Mapping[tuple[str, str, str], str]] = {}
"""By scenario, method and path: why ours answers something else."""


class Peer(Rest):
    """Apache Kafka Connect as a process: in standalone mode, or as a worker of a group."""

    def __init__(self, directory: Path, broker: str, group: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        super().__init__(f"http://127.0.0.1:{self.port}")
        properties = worker_properties(directory, broker, listeners=self.url)
        if group is not None:
            replicas = {f"{name}.storage.replication.factor": "1" for name in ("config", "offset", "status")}
            properties = {**group, **replicas, "listeners": self.url, "offset.flush.interval.ms": "500"}
        self._main = f"org.apache.kafka.connect.cli.Connect{'Standalone' if group is None else 'Distributed'}"
        self._file = directory / "peer.properties"
        self._file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._log = directory / "peer.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        path = f"{CONNECT_FILE.folder()}/*"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [java_program(), *OPTIONS, "-cp", path, self._main, str(self._file)],
                stdout=out,
                stderr=out,
                preexec_fn=die_with_parent,  # noqa: PLW1509
            )
        wait_until(self._answers, "Apache Kafka Connect answers", SECONDS, 0.5)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        try:
            return self.ask("GET", "/connectors")[0] == 200
        except OSError:
            return False

    def stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def end(self) -> None:
        """As with Ctrl-C: it leaves the group."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(SECONDS)


@pytest.fixture(scope="module")
def peer(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    running = Peer(tmp_path_factory.mktemp("peer"), broker.address)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def ours(spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadWorker]:
    folder = tmp_path_factory.mktemp("ours")
    with ThreadWorker(worker_properties(folder, broker.address), spark) as running:
        yield running


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_answer_alike(peer: Peer, ours: ThreadWorker, name: str, topic: str, tmp_path: Path) -> None:
    theirs = played(peer, SCENARIOS[name], f"{topic}-theirs", tmp_path / "theirs")
    found = played(ours, SCENARIOS[name], f"{topic}-ours", tmp_path / "ours")
    different = [
        (request[:2], their, our)
        for request, their, our in zip(SCENARIOS[name], theirs, found, strict=True)
        if their != our and (name, *request[:2]) not in DIFFERENCES
    ]
    assert different == []


WRONG: Final = {
    "name": "x",
    "connector.class": "FileStreamSource",
    "tasks.max": "many",
    "errors.tolerance": "some",
    "transforms": "cut,cut",
    "predicates": "p",
    "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "batch.size": "x",
}


def test_both_tell_the_same_of_each_setting(peer: Peer, ours: ThreadWorker) -> None:
    """Texts apart, and settings that one of both has alone."""
    path = "/connector-plugins/FileStreamSource/config/validate"
    theirs, found = (settings_of(rest.ask("PUT", path, WRONG)) for rest in (peer, ours))
    assert set(theirs) - set(found) == set()
    assert {name: found[name] for name in theirs} == theirs
    assert found["tasks.max"][-1] == ["Invalid value many for configuration tasks.max: Not a number of type INT"]


def settings_of(answer: tuple[int, Any]) -> dict[str, tuple[Any, ...]]:
    status, content = answer
    assert status == 200, content
    return {
        each["definition"]["name"]: (
            *(each["definition"][part] for part in ("type", "required", "default_value", "importance", "group")),
            each["value"]["value"],
            each["value"]["errors"],
        )
        for each in content["configs"]
    }


def test_topics_of_a_group_go_over_from_kafka_connect_and_back(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path
) -> None:
    """Connectors, how far they are, and which of them are paused: whoever runs them last."""
    file = tmp_path / "test.txt"
    file.write_text("one\n")
    settings = group_properties(broker, topic[:60])

    def lines(count: int) -> list[str]:
        return [value.decode() for value in values(broker.address, topic, count)]

    def append(line: str) -> None:
        with file.open("a") as out:
            out.write(f"{line}\n")

    config = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(file), "topic": topic}
    with Peer(tmp_path, broker.address, settings) as theirs:
        theirs.create("in", **config)
        theirs.create("idle", **{**config, "topic": f"{topic}-idle"})
        assert lines(1) == ["one"]
        assert theirs.ask("PUT", "/connectors/idle/stop")[0] == 204
        theirs.wait_for_states("idle", "STOPPED")
        wait_until(lambda: position_of(theirs) == 4, "the position is stored", SECONDS)
        theirs.end()
    append("two")
    with DistributedWorker(settings, spark) as our_own:
        assert our_own.ask("GET", "/connectors")[1] == ["idle", "in"]
        our_own.wait_for_states("in", "RUNNING", "RUNNING")
        our_own.wait_for_states("idle", "STOPPED")
        assert lines(2) == ["one", "two"]
        assert our_own.ask("PUT", "/connectors/idle/pause")[0] == 202
        our_own.wait_for_states("idle", "PAUSED", "PAUSED")
        wait_until(lambda: position_of(our_own) == 8, "the position is stored", SECONDS)
    append("three")
    with Peer(tmp_path, broker.address, settings) as theirs:
        assert theirs.ask("GET", "/connectors")[1] == ["idle", "in"]
        theirs.wait_for_states("idle", "PAUSED", "PAUSED")
        assert lines(3) == ["one", "two", "three"]
        assert theirs.ask("GET", "/connectors/in/config")[1] == {**config, "name": "in"}
        theirs.end()


def position_of(rest: Rest) -> int | None:
    status, found = rest.ask("GET", "/connectors/in/offsets")
    return found["offsets"][0]["offset"]["position"] if status == 200 and found["offsets"] else None


def played(rest: Rest, requests: list[Request], topic: str, file: Path) -> list[Any]:
    file.write_text("line\n")
    known = {"TOPIC": topic, "FILE": str(file)}
    answers = []
    for method, path, body in requests:
        status, answer = rest.ask(method, path, filled(body, known))
        answers.append((status, normal(answer, {str(file): "FILE", topic: "TOPIC"})))
        settle(rest)
    return answers


def settle(rest: Rest) -> None:
    """Until what was asked for has come about."""

    def settled() -> bool:
        for status in rest.ask("GET", "/connectors?expand=status")[1].values():
            found = status["status"]
            states = {found["connector"]["state"], *(task["state"] for task in found["tasks"])}
            if len(states) > 1 or states & {"UNASSIGNED", "RESTARTING", "FAILED"}:
                return False
            if states != {"STOPPED"} and not found["tasks"]:
                return False
        return True

    wait_until(settled, "all states agree", SECONDS, 0.1)


def filled(body: Any, known: Mapping[str, str]) -> Any:
    if isinstance(body, dict):
        return {key: filled(value, known) for key, value in body.items()}
    if isinstance(body, list):
        return [filled(each, known) for each in body]
    if isinstance(body, str):
        for name, value in known.items():
            body = body.replace(name, value)
    return body


def normal(answer: Any, known: Mapping[str, str]) -> Any:
    """Without what has to differ: addresses, names of files and topics, positions' additions."""
    if isinstance(answer, dict):
        kept = {key: normal(value, known) for key, value in answer.items() if key not in UNLIKE}
        if "position" in kept:
            return {"position": kept["position"]}
        return kept
    if isinstance(answer, list):
        return [normal(each, known) for each in answer]
    if isinstance(answer, str):
        for value, name in known.items():
            answer = answer.replace(value, name)
        return "\n".join(sorted(re.sub(r"\s+", " ", line) for line in answer.split("\n")))
    return answer
