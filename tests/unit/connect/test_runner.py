"""What the runner does about others that fail: here no connector gets as far as Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.connect.configuration import WorkerDefaults
from moldau.connect.interface import SourceConnector, Stream
from moldau.connect.plugins import loaded
from moldau.connect.worker.records import PAUSED, STARTED, STOPPED
from moldau.connect.worker.runner import Again, Backoff, Runner, Wanted
from moldau.connect.worker.topics import TopicUnavailable

CONVERTERS = dict.fromkeys(("key.converter", "value.converter"), "StringConverter")


class Told:
    """A status topic that may be away."""

    def __init__(self) -> None:
        self.away = False
        self.asked = 0
        self.states: dict[tuple[str, int | None], str | None] = {}

    def status(self, name: str, task: int | None, state: str | None, trace: str | None) -> None:
        self.asked += 1
        if self.away:
            raise TopicUnavailable("the status topic is away")
        self.states[name, task] = state

    def tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        if self.away and not configs:
            raise TopicUnavailable("the config topic is away")

    def topics(self, name: str, topics: list[str]) -> None:
        pass


class Growing(SourceConnector):
    streams_there = 1

    def streams(self) -> list[Stream]:
        return [Stream({"number": number}, "t") for number in range(self.streams_there)]


class World:
    def __init__(self) -> None:
        self.told = Told()
        self.starts = 0
        self.now = 10_000.0
        defaults = WorkerDefaults(CONVERTERS, {}, {}, {}, "g", "offsets")
        self.runner = Runner(self._no_spark, defaults, None, self.told, Backoff(1, 60), monotonic=lambda: self.now)  # type: ignore[arg-type]

    def _no_spark(self) -> None:
        self.starts += 1
        raise OSError("there is no Spark here")


def wanted(folder: Path, target: str, *names: str) -> dict[str, Wanted]:
    config = {"connector.class": "FileStreamSink", "file": str(folder / "out"), "topics": "t"}
    return {name: Wanted({**config, "name": name}, target) for name in names}


@pytest.fixture
def world() -> World:
    return World()


def test_connectors_start_though_nobody_can_be_told(world: World, tmp_path: Path) -> None:
    both = wanted(tmp_path, STARTED, "a", "b")
    world.told.away = True
    world.runner._step(both, [])
    assert world.starts == 2, "each has tried"
    assert world.told.asked == 1, "one that does not answer is not asked again for every task"
    world.told.away = False
    world.runner._step(both, [])
    assert world.told.states == {("a", None): "RUNNING", ("a", 0): "FAILED", ("b", None): "RUNNING", ("b", 0): "FAILED"}
    asked = world.told.asked
    world.runner._step(both, [])
    assert (world.starts, world.told.asked) == (2, asked), "nothing is new"
    world.now += 1
    world.runner._step(both, [])
    assert world.starts == 4, "and again after the pause"


def test_a_state_that_was_not_heard_is_told_again(world: World, tmp_path: Path) -> None:
    world.told.away = True
    paused = wanted(tmp_path, PAUSED, "a")
    world.runner._step(paused, [])
    assert world.told.states == {}
    world.told.away = False
    world.runner._step(paused, [])
    assert world.told.states == {("a", None): "PAUSED", ("a", 0): "PAUSED"}


def test_a_connector_is_stopped_once_that_can_be_written(world: World, tmp_path: Path) -> None:
    stopped = wanted(tmp_path, STOPPED, "a")
    world.told.away = True
    world.runner._step(stopped, [])
    world.told.away = False
    for _ in range(3):
        world.now += 1
        world.runner._step(stopped, [])
    assert (world.told.states, world.told.asked) == ({("a", None): "STOPPED"}, 2)
    assert world.runner._running["a"].start.again_at is None


def test_one_that_stumbles_does_not_hold_up_the_others(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = world.runner._begin

    def stumbling(name: str, running: object) -> None:
        if name == "a":
            raise LookupError("unheard of")
        begin(name, running)  # type: ignore[arg-type]

    monkeypatch.setattr(world.runner, "_begin", stumbling)
    world.runner._step(wanted(tmp_path, STARTED, "a", "b"), [])
    assert world.told.states == {("b", None): "RUNNING", ("b", 0): "FAILED"}


@pytest.mark.parametrize(
    ("again", "starts"),
    [
        (Again("a", tasks=False), 1),
        (Again("a", tasks=False, only_failed=True), 1),
        (Again("a", only_failed=True), 2),
        (Again("a"), 2),
        (Again("a", 0), 2),
        (Again("a", 1), 1),
    ],
)
def test_tasks_are_started_again_if_that_is_asked(world: World, tmp_path: Path, again: Again, starts: int) -> None:
    sink = wanted(tmp_path, STARTED, "a")
    world.runner._step(sink, [])
    world.runner._step(sink, [again])
    assert world.starts == starts


def test_a_connector_that_is_started_again_without_its_tasks_looks_for_new_ones(world: World) -> None:
    source = {"a": Wanted({"name": "a", "connector.class": f"{__name__}.Growing", "tasks.max": "9"}, STARTED)}
    world.runner._step(source, [])
    world.runner._step(source, [Again("a", tasks=False)])
    assert (world.starts, len(world.runner._running["a"].runs)) == (1, 1), "its tasks go on"
    loaded(f"{__name__}.Growing").streams_there = 2  # type: ignore[attr-defined]
    world.runner._step(source, [Again("a", tasks=False)])
    assert (world.starts, len(world.runner._running["a"].runs)) == (3, 2)
