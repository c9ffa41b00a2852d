"""A new run takes a sink over: one task does it for all, and none waits for one that is no more."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from moldau.client.errors import Fenced
from moldau.spark.writing.driver import commit_batch
from moldau.spark.writing.identity import Attempt
from moldau.spark.writing.links import Links
from moldau.spark.writing.marker_store import MarkerStore
from moldau.spark.writing.sink_state import SinkRegister
from moldau.spark.writing.task import LOOK_AGAIN_SECONDS, TAKE_OVER_SECONDS, Clock
from tests.peers.apache_kafka import ApacheKafka
from tests.support.admin import create_topic
from tests.support.sink import Killed, KillSwitch, Sink, read_committed, rows_of

TASKS = 6
RUNS = 10
SINKS_ON_PEER = 15
TRANSACTION_MS = 60_000


def register_of(sink: Sink, links: Links) -> SinkRegister:
    store = MarkerStore(links.cluster, sink.identity.group)
    return SinkRegister(links.cluster, sink.identity, store, TRANSACTION_MS, time.monotonic)


def never(seconds: float) -> None:
    assert seconds != LOOK_AGAIN_SECONDS, "the task waits for another one to take the sink over"
    Event().wait(seconds)


class Patient:
    """A clock of somebody who has waited for long enough at his first look at it."""

    def __init__(self) -> None:
        self.waits = 0

    def monotonic(self) -> float:
        return time.monotonic() + self.waits * TAKE_OVER_SECONDS

    def sleep(self, seconds: float) -> None:
        self.waits += 1


def test_tasks_that_begin_together(address: str, topic: str) -> None:
    let_tasks_begin_together(Sink(address, topic, query=topic), RUNS)


@pytest.mark.live
@pytest.mark.timeout(300)
def test_tasks_that_begin_together_on_apache_kafka(tmp_path: Path, topic: str) -> None:
    peer = ApacheKafka(tmp_path)
    peer.start()
    try:
        for number in range(SINKS_ON_PEER):
            let_tasks_begin_together(Sink(peer.address, f"{topic}-{number}", query=f"{topic}-{number}"), RUNS)
    finally:
        peer.stop()


def let_tasks_begin_together(sink: Sink, runs: int) -> None:
    barrier = Barrier(TASKS)
    with ExitStack() as stack, ThreadPoolExecutor(TASKS) as workers:
        links = [stack.enter_context(closing(Links(sink.write_options.client))) for _ in range(TASKS)]

        def write(run: int, task: int) -> Any:
            barrier.wait()
            return sink.task(
                links[task], Attempt(f"run-{run}", f"write-{run}", run, task), iter([rows_of([f"{run}/{task}"])])
            )

        for run in range(runs):
            reports = list(workers.map(write, [run] * TASKS, range(TASKS)))
            commit_batch(sink.write_options, reports, links[0])
            state = register_of(sink, links[0]).state()
            assert state is not None
            assert (state.run, state.open, state.taker, state.batch) == (f"run-{run}", True, "", run)
    expected = {f"{run}/{task}": 1 for run in range(runs) for task in range(TASKS)}
    assert read_committed(sink.bootstrap, sink.topic) == expected


def test_the_next_attempt_at_a_task_goes_on_where_the_last_one_died(
    address: str, admin: AdminClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after each of its answers. Nothing else is there to take over, so that waiting would be for nothing."""
    create_topic(admin, topic, 1)
    switch = KillSwitch()
    switch.install(monkeypatch)
    kill_at, alive, expected = 1, False, []
    while not alive:
        sink = Sink(address, topic, query=f"{kill_at}-{topic}")
        rows = [f"{kill_at}/{batch}" for batch in range(2)]
        sink.batch("run-0", 0, [[rows[0]], []])
        attempt = Attempt("run-1", "w", 1, 0)
        switch.arm(kill_at, after_answer=True)
        with closing(Links(sink.write_options.client)) as links:
            try:
                sink.task(links, attempt, iter([rows_of(rows[1:])]))
                alive = True
            except Killed:
                pass
            finally:
                switch.arm(None)
        with closing(Links(sink.write_options.client)) as links:
            report = sink.task(links, attempt, iter([rows_of(rows[1:])]), Clock(sleep=never))
            commit_batch(sink.write_options, [report], links)
        expected += rows
        kill_at += 1
    assert kill_at > 15
    assert read_committed(address, topic) == dict.fromkeys(expected, 1)


def test_a_task_that_hangs_is_replaced_and_does_no_harm_later(address: str, topic: str) -> None:
    """Task 0 has put its name into the state and stands still; task 1 loses patience."""
    sink = Sink(address, topic, query=topic)
    sink.batch("run-0", 0, [["0/0"], ["0/1"]])
    with closing(Links(sink.write_options.client)) as slow, closing(Links(sink.write_options.client)) as links:
        hanging = register_of(sink, slow)
        patient = Patient()
        reports = []

        def meanwhile(task: int) -> None:
            if not reports:
                attempt = Attempt("run-1", "w", 1, 1)
                clock = Clock(monotonic=patient.monotonic, sleep=patient.sleep)
                reports.append(sink.task(links, attempt, iter([rows_of(["1/1"])]), clock))

        hanging._store.make_room = lambda task: meanwhile(task) if task else None  # type: ignore[method-assign]
        hanging.take_over(Attempt("run-1", "w", 1, 0), hanging.state())
        state = hanging.state()
        assert state is not None
        assert (state.run, state.open, state.taker) == ("run-1", True, "")
        assert patient.waits == 1
        commit_batch(sink.write_options, reports, links)
    assert read_committed(address, topic) == {"0/0": 1, "0/1": 1, "1/1": 1}


def test_a_claim_whose_answer_is_lost_is_still_ones_own(address: str, topic: str) -> None:
    """The commit is done, and what comes back says that somebody else was faster."""
    sink = Sink(address, topic, query=topic)
    sink.batch("run-0", 0, [["0/0"], ["0/1"]])
    with closing(Links(sink.write_options.client)) as links:
        register = register_of(sink, links)
        commit, answers = register._commit, iter([False, True, True])

        def committed(*given: Any) -> None:
            commit(*given)
            if not next(answers):
                raise Fenced("the answer was lost, and the request repeated")

        register._commit = committed  # type: ignore[method-assign]
        register.take_over(Attempt("run-1", "w", 1, 0), register.state())
        state = register.state()
    assert state is not None
    assert (state.run, state.open) == ("run-1", True)
