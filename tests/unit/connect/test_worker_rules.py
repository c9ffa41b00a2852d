"""What a worker knows without a broker: settings, records and what they amount to, how connectors are shared."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from moldau.connect.configuration import WorkerDefaults, checked, described
from moldau.connect.definitions import ConfigRefused
from moldau.connect.interface import SourceConnector
from moldau.connect.plugins import PluginMissing, find, offered
from moldau.connect.topic_creation import rules_of
from moldau.connect.worker import records
from moldau.connect.worker.group import Assignment, shared
from moldau.connect.worker.group import described as told
from moldau.connect.worker.records import Record, decoded
from moldau.connect.worker.runner import HEALTHY_SECONDS, Backoff, Runner, Wanted, summary, trace_of
from moldau.connect.worker.state import Configs, Statuses
from moldau.spark.writing.new_topics import read_new_topics, rule_for, to_option

GOOD = {"name": "in", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}


def problems(**config: str) -> list[str]:
    with pytest.raises(ConfigRefused) as refused:
        checked({**GOOD, **{key.replace("_", "."): value for key, value in config.items()}})
    return refused.value.problems


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = problems(tasks_max="0", errors_tolerance="some", file="", transforms="a,a", name="\n")
    assert len(found) == 6
    assert "Invalid value 0 for configuration tasks.max: Value must be at least 1" in found
    assert "Invalid value some for configuration errors.tolerance: String must be one of: none, all" in found
    assert 'Missing required configuration "transforms.a.type" which has no default value.' in found


def test_a_topic_that_is_named_twice_is_refused() -> None:
    sink = {"name": "out", "connector.class": "FileStreamSink", "file": "f"}
    assert checked({**sink, "topics": "t, u"}).reading.values["topics"]
    with pytest.raises(ConfigRefused, match="Configuration 'topics' values must not be duplicated"):
        checked({**sink, "topics": "t,u, t"})


def test_a_transform_s_settings_are_checked_with_the_rest() -> None:
    cast = "org.apache.kafka.connect.transforms.Cast$Value"
    assert problems(transforms="c", transforms_c_type=cast) == [
        'Missing required configuration "transforms.c.spec" which has no default value.'
    ]
    (found,) = problems(transforms="c", transforms_c_type="Cask$Value")
    assert found.endswith("could not be found; did you mean Cast$Value?")
    (found,) = problems(transforms="f", transforms_f_type="Filter", transforms_f_predicate="p")
    assert "p is none of the predicates" in found


def test_patterns_of_transforms_and_converters_of_headers_are_checked() -> None:
    def told(**config: str) -> list[str]:
        given = {"name": "n", "connector.class": "FileStreamSink", "file": "f", "topics": "t", **config}
        try:
            checked(given)
        except ConfigRefused as refused:
            return refused.problems
        return []

    route = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.replacement": "$1"}
    assert told(**route, **{"transforms.r.regex": "(?!outbox)(.*)"}) == []
    (problem,) = told(**route, **{"transforms.r.regex": "("})
    assert "transforms.r.regex" in problem and "must be a regular expression" in problem
    storage = "org.apache.kafka.connect.storage."
    for name in (f"{storage}SimpleHeaderConverter", f"{storage}StringConverter", "ByteArrayConverter"):
        assert told(**{"header.converter": name}) == []
    (problem,) = told(**{"header.converter": "org.apache.kafka.connect.json.JsonConverter"})
    assert "headers are bytes or text here" in problem


def test_settings_of_topics_to_be_made() -> None:
    assert problems(topic_creation_groups="g") == [
        'Missing required configuration "topic.creation.g.include" which has no default value.',
        'Missing required configuration "topic.creation.default.replication.factor" which has no default value.',
        'Missing required configuration "topic.creation.default.partitions" which has no default value.',
    ]
    given = {
        **GOOD,
        "topic.creation.groups": "logs, rest",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "4",
        "topic.creation.logs.include": "log-.*,audit",
        "topic.creation.logs.exclude": "log-x",
        "topic.creation.logs.retention.ms": "1000",
        "topic.creation.rest.include": ".*",
        "topic.creation.rest.partitions": "7",
    }
    rules = rules_of(given, checked(given).reading.values)
    assert read_new_topics({"newtopics": to_option(rules)}) == tuple(rules)
    logs, rest, default = rules
    assert [rule_for(name, rules) for name in ("log-a", "audit", "log-x", "b")] == [logs, logs, rest, rest]
    assert (logs.partitions, logs.replication, logs.configs) == (4, -1, (("retention.ms", "1000"),))
    assert (rest.partitions, default.partitions) == (7, 4)
    wrong = {"topic.creation.default.partitions": "0", "topic.creation.logs.include": "["}
    found = problems(**{name: value for name, value in given.items() if name.startswith("topic.")} | wrong)
    assert [each.split(":")[0] for each in found] == [
        "Invalid value [ for configuration topic.creation.logs.include",
        "Invalid value 0 for configuration topic.creation.logs.partitions",
        "Invalid value 0 for configuration topic.creation.default.partitions",
    ]


def test_what_validate_answers() -> None:
    answer = described({**GOOD, "tasks.max": "x"}, "FileStreamSource")
    assert (answer["name"], answer["error_count"]) == ("FileStreamSource", 1)
    (tasks,) = [each for each in answer["configs"] if each["definition"]["name"] == "tasks.max"]
    assert tasks["value"]["errors"] == ["Invalid value x for configuration tasks.max: Not a number of type INT"]
    assert tasks["definition"]["default_value"] == "1"


class Mine(SourceConnector):
    pass


def test_classes_are_found_by_their_names() -> None:
    assert find("FileStreamSource") is find("org.apache.kafka.connect.file.FileStreamSourceConnector")
    assert find(f"{__name__}.Mine") is Mine or find(f"{__name__}:Mine").__name__ == "Mine"
    with pytest.raises(PluginMissing, match=r"did you mean FileStreamSource\?"):
        find("FileStramSource")
    with pytest.raises(PluginMissing, match="plug-ins of Java cannot be run"):
        find("com.example.kafka.AcmeWidgetThing")
    with pytest.raises(PluginMissing, match=r"plug-ins of Java cannot be run\); available"):
        find("io.debezium.connector.mysql.MySqlConnector")
    with pytest.raises(PluginMissing, match=r"cannot be run\); did you mean com\.mongodb\.\S+\.MongoSourceConnector\?"):
        find("io.debezium.connector.mongodb.MongoDbSourceConnector")
    with pytest.raises(PluginMissing, match="is no connector"):
        find("json:JSONDecoder")


@pytest.mark.parametrize("name", ["JmsSourceConnector", "MySqlConnector", "HdfsSinkConnector", "MirrorSourceConnector"])
def test_what_is_not_near_is_not_suggested(name: str) -> None:
    with pytest.raises(PluginMissing, match=f"matches {name}; available connectors are"):
        find(name)


def test_a_package_whose_connector_cannot_be_loaded_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[moldau.connectors]\nBroken = broken_of_mine:Broken\n")
    (tmp_path / "broken_of_mine.py").write_text("import not_installed_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginMissing, match=r"broken_of_mine:Broken, .* cannot be loaded: No module named 'not_inst"):
        find("Broken")
    with pytest.raises(PluginMissing, match=r"did you mean Broken\?.* Broken,"):
        find("Brokn")
    names = [name for name, _ in offered()]
    assert "Broken" not in names and any(name.endswith("FileStreamSourceConnector") for name in names)
    assert "Broken is not offered" in caplog.text


def test_a_package_offers_connectors_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[moldau.connectors]\nTurtles = turtles_of_mine:Turtles\n")
    (tmp_path / "turtles_of_mine.py").write_text(
        "from moldau.connect import SourceConnector\nclass Turtles(SourceConnector):\n    VERSION = '7'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert find("Turtles").VERSION == "7"
    assert "Turtles" in dict(offered())


def test_the_config_topic_amounts_to_configurations_and_targets() -> None:
    state = Configs()
    written = [
        records.connector_record("a-b", {"x": "1"}),
        *records.task_records("a-b", [{"n": "0"}, {"n": "1"}]),
        records.target_record("a-b", records.STOPPED),
        records.restart_record("a-b", include_tasks=True, only_failed=False),
    ]
    for record in written:
        state.apply(decoded(*record.encoded()))
    assert state.connectors == {"a-b": {"x": "1"}}
    assert state.tasks == {"a-b": [{"n": "0"}, {"n": "1"}]}
    assert state.target("a-b") == records.STOPPED
    assert state.restarts == {"a-b": 1}
    assert json.loads(written[4].encoded()[1] or b"") == {"state": "PAUSED", "state.v2": "STOPPED"}
    state.apply(records.connector_record("a-b", None))
    assert (state.connectors, state.tasks, state.target("a-b")) == ({}, {}, records.STARTED)


def test_the_status_topic_amounts_to_states() -> None:
    state = Statuses()
    state.apply(decoded(*records.status_record("a-b", None, "RUNNING", "w:1", 3, None).encoded()))
    state.apply(decoded(*records.status_record("a-b", 11, "FAILED", "w:1", 3, "why").encoded()))
    state.apply(decoded(*records.topic_record("t:x", "a-b", 0, 5).encoded()))
    assert state.connectors["a-b"].worker == "w:1"
    assert (state.tasks["a-b"][11].state, state.tasks["a-b"][11].trace) == ("FAILED", "why")
    assert state.topics == {"a-b": {"t:x"}}
    state.apply(Record("status-task-a-b-11", None))
    assert state.tasks["a-b"] == {}


def test_connectors_stay_where_they_are_and_are_spread_evenly() -> None:
    one = {"1": told("http://a", [], 0)}
    first = shared(one, ["x", "y", "z"])
    assert (first.leader, first.of("http://a")) == ("http://a", {"x", "y", "z"})
    two = {"1": told("http://a", first.of("http://a"), 0), "2": told("http://b", [], 0)}
    second = shared(two, ["x", "y", "z"])
    assert sorted(len(second.of(url)) for url in ("http://a", "http://b")) == [1, 2]
    assert second.of("http://a") < first.of("http://a")
    gone = {"2": told("http://b", second.of("http://b"), 0)}
    third = shared(gone, ["x", "y"])
    assert third == Assignment("http://b", {"http://b": {"x", "y"}})
    assert Assignment.from_bytes(third.to_bytes()) == third
    assert third.owner("x") == "http://b"


SPARKS = """[STREAM_FAILED] Query [id = x, runId = y] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR]
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/lib/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/lib/pyspark/sql/utils.py", line 150, in call
    raise e
pyspark.errors.exceptions.captured.PythonException: Job aborted due to stage failure: Traceback (most recent call last):
  File "/lib/moldau/connect/sinks.py", line 1, in _bad
moldau.connect.interface.RecordRefused: Tolerance exceeded in error handler: the reason
SQLSTATE: 38000
\tat org.apache.spark.sql.Thing.run(Thing.scala:1)
"""


def test_pauses_between_starts_that_fail_grow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of a connector, whose tasks cannot be made: on a machine that has long been up, and after a healthy time."""
    now = 10_000.0
    config = {"name": "in", "connector.class": "ArchiveSource", "url": str(tmp_path)}
    converter = dict.fromkeys(("key.converter", "value.converter"), "ByteArrayConverter")
    defaults = WorkerDefaults(converter, {}, {}, {}, "g", "offsets")
    states: list[tuple[str, int | None, str | None]] = []

    class Told:
        def status(self, name: str, task: int | None, state: str | None, trace: str | None) -> None:
            states.append((name, task, state))

        def tasks(self, name: str, configs: list[dict[str, str]]) -> None:
            pass

        def topics(self, name: str, topics: list[str]) -> None:
            pass

    runner = Runner(pytest.fail, defaults, None, Told(), Backoff(1, 60), monotonic=lambda: now)  # type: ignore[arg-type]
    wanted = {"in": Wanted(config, "STARTED")}
    failures = []
    for _ in range(600):
        caplog.clear()
        runner._step(wanted, [])
        if any("in failed: " in record.getMessage() for record in caplog.records):
            failures.append(now)
        now += 1
    pauses = [after - before for before, after in pairwise(failures)]
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(states) == {("in", None, "FAILED")}
    run = runner._running["in"].start
    run.since = now - HEALTHY_SECONDS - 1
    runner._failed("in", run, None, ValueError("again"))
    assert run.again_at == now + 1, "it ran for a while"


def test_of_what_spark_tells_the_reason_comes_first() -> None:
    reason = "moldau.connect.interface.RecordRefused: Tolerance exceeded in error handler: the reason"
    assert summary(RuntimeError(SPARKS)) == reason
    assert trace_of(RuntimeError(SPARKS)).splitlines()[0] == reason
    assert summary(ValueError("t has no column changed\nmore")) == "t has no column changed"
    assert summary(KeyError()) == "KeyError"
