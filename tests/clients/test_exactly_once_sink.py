"""The exactly-once sink against a real broker, without Spark: whatever is killed, the rows are there once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from moldau.client import transactions as transactions_module
from moldau.client.errors import Fenced, TransactionTimedOut
from moldau.spark.writing import task as task_module
from moldau.spark.writing.errors import (
    BatchFinished,
    CheckpointRewound,
    LayoutChanged,
    MarkerMissing,
    RowsDiffer,
    SecondWrite,
    SinkError,
    TakenOver,
)
from moldau.spark.writing.identity import Attempt
from moldau.spark.writing.links import Links
from tests.clients.conftest import StartBroker
from tests.support.admin import admin_client, create_topic
from tests.support.sink import Killed, KillSwitch, Sink, cut, read_committed, rows_of
from tests.support.waiting import wait_until

ROWS = [f"row-{number}" for number in range(12)]


@pytest.fixture
def sink(address: str, admin: AdminClient, topic: str) -> Sink:
    create_topic(admin, topic, 3)
    return Sink(address, topic, query=topic)


@pytest.fixture(autouse=True)
def fenced_attempts_give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "OTHER_ATTEMPT_SECONDS", 1.0)


@pytest.fixture
def switch(monkeypatch: pytest.MonkeyPatch) -> KillSwitch:
    made = KillSwitch()
    made.install(monkeypatch)
    return made


def rows_of_batch(batch: int, scenario: str = "") -> list[str]:
    return [f"{scenario}{batch}/{row}" for row in ROWS]


def once(*batches: int, scenario: str = "") -> Counter[str]:
    return Counter(row for batch in batches for row in rows_of_batch(batch, scenario))


def requests_of_a_batch(sink: Sink, switch: KillSwitch) -> int:
    """How many requests a batch takes; kills beyond that kill nothing."""
    sink.batch("run-0", 0, cut(rows_of_batch(0), 2))
    switch.arm(None)
    sink.batch("run-0", 1, cut(rows_of_batch(1), 2))
    return switch.requests


class TestKilledAtAnyRequest:
    """Each point at which a process can die, before a request leaves or after its answer came."""

    def killed(self, sink: Sink, switch: KillSwitch, kill_at: int, after_answer: bool, run: str, tasks: int) -> None:
        """Batch 0 is whole, batch 1 dies."""
        sink.batch("run-0", 0, cut(rows_of_batch(0, sink.query), tasks))
        switch.arm(kill_at, after_answer)
        with suppress(Killed):  # requests are repeated now and then, so the last points may lie behind the end
            sink.batch(run, 1, cut(rows_of_batch(1, sink.query), tasks))
        switch.arm(None)

    def points(self, address: str, admin: AdminClient, topic: str, switch: KillSwitch) -> Iterator[tuple[int, bool]]:
        create_topic(admin, topic, 3)
        last = requests_of_a_batch(Sink(address, topic, query=f"{topic}-count"), switch)
        for kill_at in range(1, last + 1):
            for after_answer in (False, True):
                yield kill_at, after_answer

    def test_and_restarted(self, address: str, admin: AdminClient, topic: str, switch: KillSwitch) -> None:
        wanted = once(0, 1)
        for kill_at, after_answer in self.points(address, admin, topic, switch):
            scenario = f"{kill_at}-{after_answer}-"
            sink = Sink(address, topic, query=scenario + topic)
            self.killed(sink, switch, kill_at, after_answer, "run-0", 2)
            for batch in (1, 2):
                sink.batch("run-1", batch, cut(rows_of_batch(batch, sink.query), 2))
            wanted += once(0, 1, 2, scenario=sink.query)
        assert read_committed(address, topic) == wanted

    @pytest.mark.parametrize(("before", "later"), [(2, 3), (3, 1)])
    def test_and_restarted_with_another_layout(
        self, address: str, admin: AdminClient, topic: str, switch: KillSwitch, before: int, later: int
    ) -> None:
        """Exact, or a clear error with nothing of it written; the old layout then completes the batch."""
        wanted, outcomes = once(0, 1), set()
        for kill_at, after_answer in self.points(address, admin, topic, switch):
            if not after_answer:
                continue
            scenario = f"{kill_at}-{after_answer}-"
            sink = Sink(address, topic, query=scenario + topic)
            self.killed(sink, switch, kill_at, after_answer, "run-0", before)
            try:
                sink.batch("run-1", 1, cut(rows_of_batch(1, sink.query), later))
                outcomes.add("exact")
            except (RowsDiffer, LayoutChanged, BatchFinished) as error:
                outcomes.add(type(error).__name__)
                sink.batch("run-2", 1, cut(rows_of_batch(1, sink.query), before))
            sink.batch("run-3", 2, cut(rows_of_batch(2, sink.query), later))
            wanted += once(0, 1, 2, scenario=sink.query)
        assert read_committed(address, topic) == wanted
        assert len(outcomes) > 1

    def test_while_taking_over(self, address: str, admin: AdminClient, topic: str, switch: KillSwitch) -> None:
        """Task 1 of batch 1 is written; the run that replays it dies somewhere, and another one completes it."""
        create_topic(admin, topic, 3)
        wanted: Counter[str] = Counter()
        kill_at, alive = 1, False
        while not alive:
            sink = Sink(address, topic, query=f"{kill_at}-{topic}")
            sink.batch("run-0", 0, cut(rows_of_batch(0, sink.query), 2))
            links = Links(sink.write_options.client)
            sink.task(links, Attempt("run-0", "w", 1, 1), iter([rows_of(cut(rows_of_batch(1, sink.query), 2)[1])]))
            links.close()
            switch.arm(kill_at, after_answer=True)
            try:
                sink.batch("run-1", 1, cut(rows_of_batch(1, sink.query), 2))
                alive = True
            except Killed:
                switch.arm(None)
                sink.batch("run-2", 1, cut(rows_of_batch(1, sink.query), 2))
            switch.arm(None)
            wanted += once(0, 1, scenario=sink.query)
            kill_at += 1
        assert kill_at > 20
        assert read_committed(address, topic) == wanted


class Held:
    """A task in a thread of its own that stops in the middle of its input until it is let go."""

    def __init__(self, sink: Sink, attempt: Attempt, rows: list[str]) -> None:
        self._rows = rows
        self._reached = threading.Event()
        self._let_go = threading.Event()
        self._result: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(sink, attempt))
        self._thread.start()
        assert self._reached.wait(60)

    def _run(self, sink: Sink, attempt: Attempt) -> None:
        links = Links(sink.write_options.client)
        try:
            self._result.append(sink.task(links, attempt, self._input()))
        except Exception as error:
            self._result.append(error)
        finally:
            links.close()

    def _input(self) -> Iterator[pa.RecordBatch]:
        yield rows_of(self._rows[:-1])
        self._reached.set()
        assert self._let_go.wait(60)
        yield rows_of(self._rows[-1:])

    def finish(self) -> Any:
        self._let_go.set()
        self._thread.join(60)
        return self._result[0]


class TestAttemptsThatOutliveTheirRun:
    @pytest.mark.parametrize("tasks", [1, 2, 3])
    def test_with_an_open_transaction(self, sink: Sink, tasks: int) -> None:
        """The driver was killed, an executor lives on, and the new run has as many tasks, fewer, or more."""
        eager = sink.eager()
        eager.batch("run-0", 0, cut(rows_of_batch(0), 2))
        zombie = Held(eager, Attempt("run-0", "w", 1, 1), cut(rows_of_batch(1), 2)[1])
        eager.batch("run-1", 1, cut(rows_of_batch(1), tasks))
        end = zombie.finish()
        assert isinstance(end, Fenced | RowsDiffer) if tasks != 2 else end.outcome.skipped
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1)

    @pytest.mark.parametrize("tasks", [1, 2, 3])
    def test_with_nothing_opened_yet(self, sink: Sink, tasks: int) -> None:
        sink.batch("run-0", 0, cut(rows_of_batch(0), 2))
        zombie = Held(sink, Attempt("run-0", "w", 1, 1), cut(rows_of_batch(1), 2)[1])
        sink.batch("run-1", 1, cut(rows_of_batch(1), tasks))
        assert isinstance(zombie.finish(), TakenOver)
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1)

    def test_whose_task_is_empty_in_the_new_run(self, sink: Sink) -> None:
        eager = sink.eager()
        eager.batch("run-0", 0, cut(rows_of_batch(0), 2))
        zombie = Held(eager, Attempt("run-0", "w", 1, 1), cut(rows_of_batch(1), 2)[1])
        eager.batch("run-1", 1, [rows_of_batch(1), []])
        assert isinstance(zombie.finish(), Fenced)
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1)

    def test_of_a_run_that_wrote_nothing_at_all(self, sink: Sink) -> None:
        """All tasks of the new run are empty: the driver takes over."""
        eager = sink.eager()
        eager.batch("run-0", 0, cut(rows_of_batch(0), 2))
        zombie = Held(eager, Attempt("run-0", "w", 1, 1), cut(rows_of_batch(1), 2)[1])
        eager.batch("run-1", 1, [[], []])
        assert isinstance(zombie.finish(), Fenced)
        assert read_committed(sink.bootstrap, sink.topic) == once(0)


class TestTwoAttemptsAtOneTask:
    def test_the_slow_one_accepts_what_the_fast_one_committed(self, sink: Sink) -> None:
        slow = Held(sink.eager(), Attempt("run-0", "w", 0, 0), rows_of_batch(0))
        sink.batch("run-0", 0, [rows_of_batch(0)], write="w")
        assert slow.finish().outcome.skipped
        assert read_committed(sink.bootstrap, sink.topic) == once(0)

    def test_the_late_one_finds_the_marker(self, sink: Sink) -> None:
        late = Held(sink, Attempt("run-0", "w", 0, 0), rows_of_batch(0))
        links = Links(sink.write_options.client)
        sink.task(links, Attempt("run-0", "w", 0, 0), iter([rows_of(rows_of_batch(0))]))
        links.close()
        assert late.finish().outcome.skipped
        assert read_committed(sink.bootstrap, sink.topic) == once(0)

    def test_other_rows_are_an_error(self, sink: Sink) -> None:
        links = Links(sink.write_options.client)
        sink.task(links, Attempt("run-0", "w", 0, 0), iter([rows_of(rows_of_batch(0))]))
        for rows in (rows_of_batch(0)[1:], rows_of_batch(1), []):
            with pytest.raises(RowsDiffer, match="task 0 of batch 0 committed 12 rows"):
                sink.task(links, Attempt("run-0", "w", 0, 0), iter([rows_of(rows)]))
        links.close()


class TestIdentity:
    def test_a_rewound_checkpoint(self, sink: Sink) -> None:
        for batch in range(3):
            sink.batch("run-0", batch, cut(rows_of_batch(batch), 2))
        with pytest.raises(CheckpointRewound, match="was rewound or copied; set a new sinkId"):
            sink.batch("run-1", 1, cut(rows_of_batch(1), 2))
        again = sink.with_options(sinkId="second", sinkStartsAtBatch="1")
        again.batch("run-2", 1, cut(rows_of_batch(1), 2))
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1, 2) + once(1)

    def test_a_copied_checkpoint_used_at_the_same_time(self, sink: Sink) -> None:
        sink.batch("original", 0, cut(rows_of_batch(0), 2))
        sink.batch("copy", 1, cut(rows_of_batch(1), 2))
        with pytest.raises(TakenOver, match="is its checkpoint used twice"):
            sink.batch("original", 1, cut(rows_of_batch(1), 2))
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1)

    def test_missing_markers(self, sink: Sink, admin: AdminClient) -> None:
        for batch in range(2):
            sink.batch("run-0", batch, cut(rows_of_batch(batch), 2))
        admin.delete_consumer_groups([sink.identity.group])[sink.identity.group].result(30)
        with pytest.raises(MarkerMissing, match=r"offsets\.retention\.minutes.*sinkStartsAtBatch=2"):
            sink.batch("run-1", 2, cut(rows_of_batch(2), 2))
        with pytest.raises(MarkerMissing):
            sink.batch("run-1", 2, [[], []])
        going_on = sink.with_options(sinkStartsAtBatch="2")
        for batch in (2, 3):
            going_on.batch("run-2", batch, cut(rows_of_batch(batch), 2))
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1, 2, 3)

    def test_a_second_write_in_one_batch(self, sink: Sink) -> None:
        sink.batch("run-0", 0, cut(rows_of_batch(0), 2), write="first")
        for rows in (rows_of_batch(0), rows_of_batch(1)):
            with pytest.raises(SecondWrite, match="needs a sinkId of its own"):
                sink.batch("run-0", 0, cut(rows, 3), write="second")
        sink.with_options(sinkId="second").batch("run-0", 0, cut(rows_of_batch(1), 3), write="second")
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1)

    def test_all_markers_are_in_one_group(self, sink: Sink, admin: AdminClient) -> None:
        sink.batch("run-0", 0, cut(rows_of_batch(0), 3))
        groups = admin.list_consumer_groups().result(30).valid
        assert [group.group_id for group in groups if sink.query in group.group_id] == [sink.identity.group]


def nothing_is_open(admin: AdminClient, topic: str) -> bool:
    """The last stable offset has passed the records."""
    place = TopicPartition(topic, 0)
    request = {place: OffsetSpec.latest()}
    stable = admin.list_offsets(request, isolation_level=IsolationLevel.READ_COMMITTED)[place].result(30).offset
    return bool(stable > 0)


class TestTransactions:
    def test_two_hundred_tasks_with_ten_rows(self, sink: Sink, switch: KillSwitch) -> None:
        tasks: list[list[str]] = [[] for _ in range(200)]
        for number, row in enumerate(rows_of_batch(0)[:10]):
            tasks[number * 21] = [row]
        switch.arm(None)
        sink.batch("run-0", 0, tasks)
        # Each task with rows, the sink's room for more of them, the driver's word, repetitions; never every task.
        assert 10 <= switch.names.count("ProduceRequest") <= 50
        assert 10 <= switch.names.count("EndTxnRequest") <= 50
        assert read_committed(sink.bootstrap, sink.topic) == Counter(rows_of_batch(0)[:10])

    def test_a_task_slower_than_the_time_out(self, sink: Sink) -> None:
        """Staged: the transaction opens when the input has ended, so it does not matter how long that took."""
        short = sink.with_options(**{"kafka.transaction.timeout.ms": "1000"})
        slow = Held(short, Attempt("run-0", "w", 0, 0), rows_of_batch(0))
        assert not threading.Event().wait(2.5)
        assert slow.finish().outcome.result.rows == len(ROWS)
        assert read_committed(sink.bootstrap, sink.topic) == once(0)

    def test_a_transaction_that_is_open_for_too_long(self, own_broker: StartBroker, topic: str) -> None:
        """The stage was full, so it had to be opened, and the broker ended it before the input had."""
        running = own_broker(**{"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100})
        admin = admin_client(running.address)
        create_topic(admin, topic)
        options = {"kafka.transaction.timeout.ms": "1000"}
        sink = Sink(running.address, topic, query=topic, options=options).eager()
        slow = Held(sink, Attempt("run-0", "w", 0, 0), rows_of_batch(0))
        wait_until(lambda: nothing_is_open(admin, topic), "the broker ends the transaction", 60)
        end = slow.finish()
        assert isinstance(end, TransactionTimedOut)
        assert "stageBytes" in str(end)
        sink.batch("run-0", 0, [rows_of_batch(0)])
        assert read_committed(running.address, topic) == once(0)

    def test_the_broker_caps_the_time_out(self, sink: Sink) -> None:
        sink.with_options(**{"kafka.transaction.timeout.ms": "2000000000"}).batch("run-0", 0, [rows_of_batch(0)])
        assert read_committed(sink.bootstrap, sink.topic) == once(0)

    def test_an_input_that_fails_leaves_nothing_open(self, sink: Sink) -> None:
        def failing() -> Iterator[pa.RecordBatch]:
            yield rows_of(rows_of_batch(0))
            raise RuntimeError("the user's function")

        links = Links(sink.write_options.client)
        with pytest.raises(RuntimeError, match="the user's function"):
            sink.eager().task(links, Attempt("run-0", "w", 0, 0), failing())
        links.close()
        assert read_committed(sink.bootstrap, sink.topic) == Counter()
        sink.batch("run-0", 0, [rows_of_batch(0)])
        assert read_committed(sink.bootstrap, sink.topic) == once(0)

    def test_a_topic_that_does_not_exist_is_created(self, address: str, topic: str) -> None:
        sink = Sink(address, topic, query=topic)
        sink.batch("run-0", 0, cut(rows_of_batch(0), 2))
        assert read_committed(address, topic) == once(0)

    def test_compressed(self, sink: Sink) -> None:
        for batch, codec in enumerate(("gzip", "snappy", "lz4", "zstd")):
            sink.with_options(**{"kafka.compression.type": codec}).batch("run-0", batch, cut(rows_of_batch(batch), 2))
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1, 2, 3)

    def test_rows_that_are_too_large(self, sink: Sink) -> None:
        with pytest.raises(SinkError, match=r"max\.message\.bytes"):
            sink.batch("run-0", 0, [["x" * 2_000_000]])
        sink.batch("run-0", 0, [rows_of_batch(0)])
        assert read_committed(sink.bootstrap, sink.topic) == once(0)


class TestTransactionsOfTheFirstForm:
    """Before KIP-890 partitions and groups were added to a transaction first; clusters with that form are many."""

    @pytest.fixture(autouse=True)
    def nobody_offers_the_second_form(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transactions_module, "VERSION_2", 99)

    def test_batches(self, sink: Sink, switch: KillSwitch) -> None:
        switch.arm(None)
        for batch in range(3):
            sink.batch("run-0", batch, cut(rows_of_batch(batch), 2))
        assert {"AddPartitionsToTxnRequest", "AddOffsetsToTxnRequest"} <= set(switch.names)
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1, 2)

    def test_killed_and_restarted(self, address: str, admin: AdminClient, topic: str, switch: KillSwitch) -> None:
        create_topic(admin, topic, 3)
        wanted: Counter[str] = Counter()
        last = requests_of_a_batch(Sink(address, topic, query=f"{topic}-count"), switch)
        wanted += once(0, 1)
        for kill_at in range(2, last + 1, 3):
            sink = Sink(address, topic, query=f"{kill_at}-{topic}")
            sink.batch("run-0", 0, cut(rows_of_batch(0, sink.query), 2))
            switch.arm(kill_at, after_answer=True)
            with suppress(Killed):
                sink.batch("run-0", 1, cut(rows_of_batch(1, sink.query), 2))
            switch.arm(None)
            sink.batch("run-1", 1, cut(rows_of_batch(1, sink.query), 2))
            wanted += once(0, 1, scenario=sink.query)
        assert read_committed(address, topic) == wanted

    def test_an_attempt_that_outlives_its_run(self, sink: Sink) -> None:
        eager = sink.eager()
        eager.batch("run-0", 0, cut(rows_of_batch(0), 2))
        zombie = Held(eager, Attempt("run-0", "w", 1, 1), cut(rows_of_batch(1), 2)[1])
        eager.batch("run-1", 1, [rows_of_batch(1)])
        assert isinstance(zombie.finish(), Fenced)
        assert read_committed(sink.bootstrap, sink.topic) == once(0, 1)
