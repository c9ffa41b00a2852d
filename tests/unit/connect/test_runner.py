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
        self.history: list[tuple[int | None, str | None]] = []
        self.gone: list[str] = []
        self.at_the_end: list[str] = []

    def status(self, name: str, task: int | None, state: str | None, trace: str | None) -> None:
        self.asked += 1
        if self.away:
            raise TopicUnavailable("the status topic is away")
        self.states[name, task] = state
        self.history.append((task, state))

    def tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        if self.away and not configs:
            raise TopicUnavailable("the config topic is away")

    def topics(self, name: str, topics: list[str]) -> None:
        pass

    def left(self, name: str) -> None:
        self.gone.append(name)

    def closed(self, names: list[str]) -> None:
        self.at_the_end += names


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


def test_a_restart_is_told_before_what_comes_of_it(world: World, tmp_path: Path) -> None:
    sink = wanted(tmp_path, STARTED, "a")
    world.runner._step(sink, [])
    world.told.history.clear()
    world.runner._step(sink, [Again("a")])
    assert world.told.history == [(0, "RESTARTING"), (None, "RESTARTING"), (None, "RUNNING"), (0, "FAILED")]
    world.told.history.clear()
    world.runner._step(sink, [Again("a", 0)])
    assert world.told.history == [(0, "RESTARTING"), (0, "FAILED")]


def test_tasks_of_a_connector_that_cannot_start_again_are_told_to_run_nowhere(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its streams have changed, say, and now it cannot be asked for them: its queries have been stopped."""
    sink = wanted(tmp_path, STARTED, "a")
    world.runner._step(sink, [])
    world.runner._running["a"].start.again_at = world.now
    with monkeypatch.context() as patch:
        patch.setattr(Runner, "_runs", lambda *_: (_ for _ in ()).throw(OSError("the database is away")))
        world.runner._step(sink, [])
        assert world.told.states == {("a", None): "FAILED", ("a", 0): "UNASSIGNED"}
        starts = world.starts
        world.runner._step(sink, [Again("a", 0)])
        assert (world.told.states["a", 0], world.starts) == ("UNASSIGNED", starts), "there is nothing to start"
    world.now += 60
    world.runner._step(sink, [])
    assert world.told.states == {("a", None): "RUNNING", ("a", 0): "FAILED"}
    assert world.starts == starts + 1


def test_who_ran_a_connector_tells_when_it_has_left_it(world: World, tmp_path: Path) -> None:
    both = wanted(tmp_path, PAUSED, "a", "b")
    world.runner._step(both, [])
    again = {name: Wanted(each.config, each.target, 1) for name, each in both.items()}
    world.runner._step(again, [])
    assert world.told.gone == [], "started again"
    world.runner._step({"b": again["b"]}, [])
    assert world.told.gone == ["a"]
    world.runner._leave_all()
    assert (world.told.gone, world.told.at_the_end) == (["a"], ["b"])


def test_a_worker_that_stops_leaves_its_connectors_though_it_is_told_so_in_the_midst_of_a_step(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = world.runner._step

    def told_meanwhile(wanted: dict[str, Wanted], again: list[Again]) -> None:
        step(wanted, again)
        world.runner._stopping = True

    monkeypatch.setattr(world.runner, "_step", told_meanwhile)
    world.runner.assign(wanted(tmp_path, PAUSED, "a"))
    world.runner._loop()
    assert world.told.at_the_end == ["a"]
