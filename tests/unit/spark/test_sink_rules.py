"""What an attempt does about what it finds, and what the driver accepts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moldau.spark.writing.decisions import (
    Step,
    TaskResult,
    audit,
    claimed,
    compare,
    finished,
    is_same_claim,
    next_step,
    opened,
    refuse_stale,
    with_room,
)
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
from moldau.spark.writing.identity import Attempt, SinkIdentity, default_sink_id, marker_partition, room_for
from moldau.spark.writing.markers import FORMER_RUNS_KEPT, MarkerUnreadable, SinkState, TaskMarker

SINK = SinkIdentity("moldau", "query", "orders")
ATTEMPT = Attempt("run", "write", 5, 2)
STATE = SinkState(batch=4, run="run", tasks=4, open=True, by="run", former=("before",))


def marker(batch: int, run: str = "run", write: str = "write", rows: int = 3, digest: int = 7) -> TaskMarker:
    return TaskMarker(batch, rows, digest, run, write)


def step(state: SinkState | None, found: TaskMarker | None = None, starts_at: int = 0) -> Step:
    return next_step(SINK, ATTEMPT, state, found, starts_at)


class TestNames:
    def test_they_hold_prefix_query_sink_and_task(self) -> None:
        assert SINK.transactional_id(7) == "moldau/query/orders/7"
        assert SINK.state_transactional_id == "moldau/query/orders/sink"
        assert SINK.group == "__moldau_sink/moldau/query/orders"

    def test_partition_0_is_the_sinks(self) -> None:
        assert [marker_partition(task) for task in (0, 1, 7)] == [1, 2, 8]

    def test_the_sink_is_named_after_its_target(self) -> None:
        assert (default_sink_id("orders"), default_sink_id(None)) == ("orders", "topic-column")

    def test_room_grows_in_powers_of_two(self) -> None:
        assert [room_for(task) for task in (0, 1, 2, 3, 4, 199)] == [1, 2, 4, 4, 8, 256]


class TestMarkers:
    def test_they_survive_their_metadata(self) -> None:
        assert TaskMarker.from_metadata(marker(5, digest=2**64 - 1).to_metadata()) == marker(5, digest=2**64 - 1)
        state = replace(STATE, taker="2/x", replay=5, former=("a", "b"))
        assert SinkState.from_metadata(state.to_metadata()) == state

    def test_a_state_of_before_takers_had_names_is_read(self) -> None:
        old = STATE.to_metadata().replace('"taker":"",', "")
        assert "taker" not in old
        assert SinkState.from_metadata(old) == STATE

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"v":2}', '{"v":1}', '{"v":1,"batch":1,"digest":"x"}'])
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(MarkerUnreadable):
            TaskMarker.from_metadata(text)
        with pytest.raises(MarkerUnreadable):
            SinkState.from_metadata(text)

    def test_the_longest_state_fits_into_a_brokers_limit(self) -> None:
        run = "16459e2f-9bcd-4454-a4b5-1bccabeb4dd1"
        state = SinkState(2**62, run, 2**31, True, f"{2**31}/{run}", 2**62, run, (run,) * FORMER_RUNS_KEPT)
        assert len(state.to_metadata()) < 4096


class TestAnAttempt:
    def test_writes_what_is_new(self) -> None:
        assert step(STATE) is Step.WRITE
        assert step(STATE, marker(4)) is Step.WRITE

    def test_verifies_what_an_earlier_attempt_committed(self) -> None:
        assert step(STATE, marker(5)) is Step.VERIFY
        assert step(STATE, marker(5, run="before", write="other")) is Step.VERIFY

    def test_leaves_the_rest_of_a_partly_written_batch_to_the_driver(self) -> None:
        assert step(replace(STATE, replay=5)) is Step.PREPARE
        assert step(replace(STATE, replay=4)) is Step.WRITE

    def test_takes_over_from_another_run(self) -> None:
        assert step(replace(STATE, run="before", former=())) is Step.TAKE_OVER
        assert next_step(SINK, replace(ATTEMPT, batch=0), None, None, 0) is Step.TAKE_OVER

    def test_waits_while_its_run_takes_over(self) -> None:
        for taker in ("1/x", "22/x", ""):
            assert step(replace(STATE, open=False, taker=taker)) is Step.WAIT

    def test_goes_on_where_an_earlier_attempt_at_its_task_has_begun_to_take_over(self) -> None:
        assert step(replace(STATE, open=False, taker="2/x")) is Step.TAKE_OVER

    def test_makes_room_for_its_number(self) -> None:
        assert step(replace(STATE, tasks=2)) is Step.MAKE_ROOM

    def test_of_a_former_run_is_refused(self) -> None:
        with pytest.raises(TakenOver):
            step(replace(STATE, run="after", former=("before", "run")))

    @pytest.mark.parametrize(("state", "found"), [(replace(STATE, batch=6), None), (STATE, marker(6))])
    def test_of_a_rewound_checkpoint_is_refused(self, state: SinkState, found: TaskMarker | None) -> None:
        with pytest.raises(CheckpointRewound, match="set a new sinkId"):
            step(state, found)

    def test_needs_the_marker_of_an_earlier_batch(self) -> None:
        with pytest.raises(MarkerMissing, match="sinkStartsAtBatch=5"):
            step(None)
        with pytest.raises(MarkerMissing):
            step(None, starts_at=4)
        assert step(None, starts_at=5) is Step.TAKE_OVER
        with pytest.raises(MarkerMissing):
            refuse_stale(SINK, ATTEMPT, None, None, 0)

    def test_of_a_second_write_is_refused(self) -> None:
        with pytest.raises(SecondWrite, match="sinkId of its own"):
            step(STATE, marker(5, write="first"))
        with pytest.raises(SecondWrite):
            step(replace(STATE, batch=5))
        with pytest.raises(SecondWrite):
            step(replace(STATE, batch=5), marker(5, run="before"))

    def test_with_rows_of_a_batch_that_was_finished_without_it_is_refused(self) -> None:
        with pytest.raises(BatchFinished):
            step(replace(STATE, batch=5, by="before"))
        assert step(replace(STATE, batch=5, by="before"), marker(5, run="before")) is Step.VERIFY

    def test_compares_count_and_digest(self) -> None:
        compare(ATTEMPT, marker(5), 3, 7)
        for rows, digest in ((3, 8), (4, 7), (0, 0)):
            with pytest.raises(RowsDiffer, match="task 2 of batch 5 committed 3 rows"):
                compare(ATTEMPT, marker(5), rows, digest)


class TestTheState:
    def test_a_new_sink_is_open_at_once(self) -> None:
        assert claimed(None, ATTEMPT, "2/x") == SinkState(batch=-1, run="run", tasks=4, open=True)

    def test_another_runs_sink_is_closed_until_its_tasks_are_fenced(self) -> None:
        state = claimed(replace(STATE, run="last", tasks=8, replay=5), ATTEMPT, "2/x")
        assert (state.run, state.open, state.tasks, state.replay) == ("run", False, 8, None)
        assert state.taker == "2/x"
        assert state.former == ("before", "last")

    def test_it_remembers_whether_the_batch_is_partly_written(self) -> None:
        state = replace(STATE, open=False, taker="2/x")
        assert opened(state, ATTEMPT, {0: marker(4), 1: marker(5)}).replay == 5
        assert opened(state, ATTEMPT, {0: marker(4)}) == replace(STATE, replay=None)

    def test_whether_it_was_claimed_since_it_was_seen(self) -> None:
        assert is_same_claim(None, None)
        assert is_same_claim(STATE, replace(STATE, tasks=8, batch=5))
        assert not is_same_claim(None, STATE)
        assert not is_same_claim(STATE, None)
        for other in (replace(STATE, run="after"), replace(STATE, open=False), replace(STATE, taker="1/x")):
            assert not is_same_claim(STATE, other)

    def test_only_so_many_former_runs_are_kept(self) -> None:
        state = replace(STATE, run="last", former=tuple(map(str, range(FORMER_RUNS_KEPT))))
        assert claimed(state, ATTEMPT, "2/x").former == (*map(str, range(1, FORMER_RUNS_KEPT)), "last")

    def test_room_never_shrinks(self) -> None:
        assert with_room(STATE, 0).tasks == 4
        assert with_room(STATE, 4).tasks == 8

    def test_a_finished_batch(self) -> None:
        state = finished(replace(STATE, replay=5), ATTEMPT)
        assert (state.batch, state.replay, state.by) == (5, None, "run")


class TestTheDriver:
    RESULTS = (TaskResult(0, 3, 7), TaskResult(1, 0, 0), TaskResult(2, 9, 1, prepared=True))

    def test_accepts_what_is_accounted_for(self) -> None:
        audit(ATTEMPT, self.RESULTS, {0: marker(5), 1: marker(4), 7: marker(3)})

    def test_refuses_rows_of_a_task_that_is_no_more(self) -> None:
        with pytest.raises(LayoutChanged, match="batch 5 has 3 tasks now, but tasks 3 committed"):
            audit(ATTEMPT, self.RESULTS, {0: marker(5), 3: marker(5)})

    def test_refuses_rows_of_a_task_that_is_empty_now(self) -> None:
        with pytest.raises(RowsDiffer):
            audit(ATTEMPT, self.RESULTS, {0: marker(5), 1: marker(5)})

    def test_refuses_other_rows(self) -> None:
        with pytest.raises(RowsDiffer):
            audit(ATTEMPT, self.RESULTS, {0: marker(5, digest=8)})

    def test_misses_the_marker_of_a_task_that_wrote(self) -> None:
        with pytest.raises(MarkerLost):
            audit(ATTEMPT, self.RESULTS, {})
