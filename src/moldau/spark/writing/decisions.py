"""What an attempt does about what it finds; what the driver checks before a batch counts as written. Pure.

The attempt has called InitProducerId already, which aborted what an earlier attempt at its task left open, and then
read the sink's state and its own marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from moldau.spark.writing.errors import (
    BatchFinished,
    CheckpointRewound,
    LayoutChanged,
    MarkerLost,
    MarkerMissing,
    RowsDiffer,
    SecondWrite,
    TakenOver,
)
from moldau.spark.writing.identity import Attempt, SinkIdentity, room_for
from moldau.spark.writing.markers import FORMER_RUNS_KEPT, NO_BATCH, SinkState, TaskMarker, is_taker_of


class Step(Enum):
    TAKE_OVER = "make this run the one that writes, then look again"
    WAIT = "another task of this run is taking over; look again"
    MAKE_ROOM = "tell the state that tasks with this number exist, then look again"
    WRITE = "write and commit"
    PREPARE = "write, and leave the commit to the driver"
    VERIFY = "read the input, compare it with the marker, write nothing"


def next_step(
    identity: SinkIdentity,
    attempt: Attempt,
    state: SinkState | None,
    marker: TaskMarker | None,
    starts_at_batch: int,
) -> Step:
    refuse_stale(identity, attempt, state, marker, starts_at_batch)
    if state is None or state.run != attempt.run:
        return Step.TAKE_OVER
    if not state.open:
        # An earlier attempt at this very task began to take over: it is no more, or this one is there in its place.
        return Step.TAKE_OVER if is_taker_of(attempt.task, state.taker) else Step.WAIT
    if attempt.task >= state.tasks:
        return Step.MAKE_ROOM
    if state.batch == attempt.batch and state.by == attempt.run:
        raise SecondWrite(identity.sink, attempt.batch)
    if marker is not None and marker.batch == attempt.batch:
        if marker.run == attempt.run and marker.write != attempt.write:
            raise SecondWrite(identity.sink, attempt.batch)
        return Step.VERIFY
    if state.batch == attempt.batch:
        raise BatchFinished(attempt.task, attempt.batch)
    return Step.PREPARE if state.replay == attempt.batch else Step.WRITE


def refuse_stale(
    identity: SinkIdentity,
    attempt: Attempt,
    state: SinkState | None,
    marker: TaskMarker | None,
    starts_at_batch: int,
) -> None:
    """What holds for tasks with and without rows."""
    if state is None:
        if attempt.batch > starts_at_batch:
            raise MarkerMissing(identity.group, attempt.batch)
        return
    if attempt.run in state.former:
        raise TakenOver(identity.group, state.run)
    newest = max(state.batch, NO_BATCH if marker is None else marker.batch)
    if newest > attempt.batch:
        raise CheckpointRewound(identity.group, attempt.batch, newest)


def compare(attempt: Attempt, marker: TaskMarker, rows: int, digest: int) -> None:
    if not marker.holds(rows, digest):
        raise RowsDiffer(attempt.task, attempt.batch, (marker.rows, marker.digest), (rows, digest))


# -- the sink's state ------------------------------------------------------------------------------------------------


def is_same_claim(seen: SinkState | None, state: SinkState | None) -> bool:
    """Whether nobody has taken the sink over, or begun to, since it was seen."""
    if seen is None or state is None:
        return seen is state
    return (seen.run, seen.open, seen.taker) == (state.run, state.open, state.taker)


def claimed(state: SinkState | None, attempt: Attempt, taker: str) -> SinkState:
    """This run has begun to take over: from now on attempts of former runs that look at the state refuse to write."""
    room = room_for(attempt.task)
    if state is None:  # no run can have written before: nobody has to be fenced
        return SinkState(batch=NO_BATCH, run=attempt.run, tasks=room, open=True)
    former = tuple(run for run in (*state.former, state.run) if run != attempt.run)[-FORMER_RUNS_KEPT:]
    tasks = max(state.tasks, room)
    return replace(state, run=attempt.run, tasks=tasks, open=False, taker=taker, replay=None, former=former)


def opened(state: SinkState, attempt: Attempt, markers: Mapping[int, TaskMarker]) -> SinkState:
    """All tasks of former runs are fenced, and these are the markers they left."""
    partly_written = any(marker.batch == attempt.batch for marker in markers.values())
    return replace(state, open=True, taker="", replay=attempt.batch if partly_written else None)


def with_room(state: SinkState, task: int) -> SinkState:
    return replace(state, tasks=max(state.tasks, room_for(task)))


def finished(state: SinkState, attempt: Attempt) -> SinkState:
    return replace(state, batch=attempt.batch, replay=None, by=attempt.run)


# -- the driver ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a task reports to the driver about its rows."""

    task: int
    rows: int
    digest: int
    prepared: bool = False


def audit(attempt: Attempt, results: Iterable[TaskResult], markers: Mapping[int, TaskMarker]) -> None:
    """Every committed row of this batch is accounted for by a task of this run, and the other way round. `attempt` is
    any of this run and batch; `markers` are those of all tasks, without what is prepared only."""
    by_task = {result.task: result for result in results}
    of_batch = {task: marker for task, marker in markers.items() if marker.batch == attempt.batch}
    strangers = sorted(set(of_batch) - set(by_task))
    if strangers:
        raise LayoutChanged(attempt.batch, "tasks " + ", ".join(map(str, strangers)), len(by_task))
    for task, result in sorted(by_task.items()):
        marker = of_batch.get(task)
        if marker is not None and not marker.holds(result.rows, result.digest):
            raise RowsDiffer(task, attempt.batch, (marker.rows, marker.digest), (result.rows, result.digest))
        if marker is None and result.rows and not result.prepared:
            raise MarkerLost(task, attempt.batch, result.rows)
