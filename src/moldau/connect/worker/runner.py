"""Runs what is assigned to this worker: one thread that starts and stops queries, sees them fail and starts them again.

Nothing here decides what is to run: `assign` says it, whole, and the thread brings it about. States are told as they
change. A task that fails is FAILED with the reason, and started again after a pause that grows.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from moldau.connect.configuration import WorkerDefaults, make_job
from moldau.connect.interface import StreamsChanged
from moldau.connect.sinks import SinkQuery
from moldau.connect.sources import Share, SourceQuery, fence_all, shares_of
from moldau.connect.task import Job
from moldau.connect.worker.confirming import Confirming, wants_to_know
from moldau.connect.worker.generations import generations_now
from moldau.connect.worker.group_offsets import NONE as NO_RESET
from moldau.connect.worker.group_offsets import POLICY, begin_offsets, has_gone, topics_now
from moldau.connect.worker.jvm import how_it_ended
from moldau.connect.worker.positions import PositionTables
from moldau.connect.worker.records import PAUSED, STARTED, STOPPED
from moldau.connect.worker.topic_making import make_topics
from moldau.connect.worker.topics import TopicUnavailable
from moldau.spark.errors import DataLoss

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

RUNNING, FAILED, RESTARTING, UNASSIGNED = "RUNNING", "FAILED", "RESTARTING", "UNASSIGNED"
LOOK_SECONDS: Final = 0.2
HEALTHY_SECONDS: Final = 60.0
"""A task that ran for as long begins with the shortest pause again."""
TOPICS_SECONDS: Final = 10.0
TRACEBACK: Final = "Traceback (most recent call last):"
STREAMS_CHANGED: Final = f"{StreamsChanged.__module__}.{StreamsChanged.__name__}"
DATA_LOSS: Final = f"{DataLoss.__module__}.{DataLoss.__name__}"
RAISED: Final = re.compile(r"^(?:\w+\.)*[A-Z]\w*(?:: .*)?$", re.MULTILINE)
"""The line of a Python traceback, which Spark hands on among others, that says what was raised."""
AROUND: Final = ("pyspark.", "py4j.", "org.", "java.", "SQLSTATE")
"""What Spark raises because of it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A connector that this worker is to run."""

    config: Mapping[str, str]
    target: str
    revision: int = 0
    """Another number means: start it again."""


@dataclass(frozen=True, slots=True)
class Again:
    """A restart that somebody asked for."""

    name: str
    task: int | None = None
    """None: of the connector."""
    only_failed: bool = False
    tasks: bool = True
    """Of the connector with its tasks."""


class Told(Protocol):
    def status(self, name: str, task: int | None, state: str | None, trace: str | None) -> None: ...

    def tasks(self, name: str, configs: list[dict[str, str]]) -> None: ...

    def topics(self, name: str, topics: list[str]) -> None: ...

    def left(self, name: str) -> None:
        """It runs here no more, and nothing more is told of it."""

    def closed(self, names: list[str]) -> None:
        """The worker stops."""


@dataclass(slots=True)
class Run:
    """A task, or several that share a query: what runs, and how it fared."""

    numbers: list[int]
    shares: list[Share] = field(default_factory=list)
    queries: list[SourceQuery | SinkQuery] = field(default_factory=list)
    streaming: list[StreamingQuery] = field(default_factory=list)
    topics: dict[str, list[int]] = field(default_factory=dict)
    looked_at: float = 0.0
    failed: bool = False
    attempts: int = 0
    again_at: float | None = None
    since: float | None = None
    """When it was started; None once its end was seen."""
    first_failure: float | None = None
    state: tuple[str, str | None] | None = None
    """With the reason."""
    told: tuple[str, str | None] | None = None
    """The state that others know."""

    def stop(self) -> None:
        for query in self.queries:
            query.stop()
        self.queries, self.streaming = [], []


@dataclass(slots=True)
class Running:
    wanted: Wanted
    job: Job | None = None
    runs: list[Run] = field(default_factory=list)
    start: Run = field(default_factory=lambda: Run([]))
    """Of the connector itself."""
    confirming: Confirming | None = None

    def stop(self) -> None:
        if self.confirming is not None:
            self.confirming.stop()
            self.confirming = None
        for run in self.runs:
            run.stop()


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float
    longest: float | None
    """None: what failed stays failed."""

    def pause(self, attempts: int) -> float | None:
        return None if self.longest is None else min(self.first * 2 ** min(attempts, 20), self.longest)


class Runner:
    def __init__(
        self,
        make_spark: Callable[[], SparkSession],
        defaults: WorkerDefaults,
        positions: PositionTables,
        told: Told,
        backoff: Backoff,
        look_up: Callable[[Mapping[str, str]], dict[str, str]] = dict,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`look_up`: a connector's configuration with the values that stand elsewhere."""
        self._make_spark = make_spark
        self._spark: SparkSession | None = None
        self._defaults = defaults
        self._positions = positions
        self._told = told
        self._backoff = backoff
        self._look_up = look_up
        self._monotonic = monotonic
        self._wanted: dict[str, Wanted] = {}
        self._running: dict[str, Running] = {}
        self._again: list[Again] = []
        self._unheard = False
        self._changed = threading.Condition()
        self._stopping = False
        self.lost: str | None = None
        """Why nothing can run here any more."""
        self.on_lost: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._loop, name="connect-runner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    # -- what others ask ---------------------------------------------------------------------------------------------

    def assign(self, wanted: Mapping[str, Wanted]) -> None:
        with self._changed:
            self._wanted = dict(wanted)
            self._changed.notify_all()

    def restart(self, again: Again) -> None:
        with self._changed:
            self._again.append(again)
            self._changed.notify_all()

    def await_idle(self, name: str, seconds: float) -> bool:
        """Until no query of the connector runs."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_busy(name), seconds)

    def _is_busy(self, name: str) -> bool:
        running = self._running.get(name)
        return running is not None and any(run.queries for run in running.runs)

    # -- the thread --------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        stopping = False
        while not stopping:
            with self._changed:
                self._changed.wait(LOOK_SECONDS)
                wanted, again, self._again = dict(self._wanted), self._again, []
                stopping = self._stopping
            try:
                if stopping:
                    self._leave_all()
                else:
                    self._step(wanted, again)
            except Exception:
                log.exception("the runner stumbled; it goes on")
            with self._changed:
                self._changed.notify_all()

    def _leave_all(self) -> None:
        """Before others may take the connectors over: what they tell comes behind."""
        names = list(self._running)
        for name in names:
            safely(name, self._running.pop(name).stop)
        self._told.closed(names)

    def _step(self, wanted: Mapping[str, Wanted], again: list[Again]) -> None:
        self._unheard = False
        if self.lost is None and self._spark is not None and (problem := how_it_ended(self._spark)) is not None:
            log.critical("%s", problem)
            self.lost = problem
            self.on_lost()
        if self.lost is not None:
            self._give_up()
            return
        for name in [name for name, running in self._running.items() if wanted.get(name) != running.wanted]:
            safely(name, self._running.pop(name).stop)
            if name not in wanted:
                safely(name, partial(self._told.left, name))
        for one in again:
            safely(one.name, partial(self._ask_again, one))
        for name, each in wanted.items():
            if name not in self._running:
                self._running[name] = Running(each)
                safely(name, partial(self._begin, name, self._running[name]))
        for name, running in self._running.items():
            safely(name, partial(self._look_after, name, running))

    def _give_up(self) -> None:
        """Nothing is told of the connectors: whoever takes them over does that."""
        for running in self._running.values():
            if running.confirming is not None:
                running.confirming.stop()
        self._running.clear()

    def _ask_again(self, again: Again) -> None:
        running = self._running.get(again.name)
        if running is None or running.wanted.target != STARTED:
            return
        for run in running.runs if again.tasks and not running.start.failed else ():
            if (again.task is None or again.task in run.numbers) and (run.failed or not again.only_failed):
                run.stop()
                run.attempts, run.again_at = 0, self._monotonic()
                self._tell(again.name, run, RESTARTING, None)
        if again.task is None and (running.start.failed or not again.only_failed):
            running.start.attempts = 0
            if again.tasks or running.start.failed or self._has_other_tasks(again.name, running):
                running.start.again_at = self._monotonic()
                self._tell(again.name, running.start, RESTARTING, None)

    def _has_other_tasks(self, name: str, running: Running) -> bool:
        """Whether a connector that starts now would have others: those that it has go on otherwise."""
        job = running.job
        if job is None or not job.is_source:
            return False
        try:
            return shares_now(job) != [share for run in running.runs for share in run.shares]
        except Exception as error:
            self._failed(name, running.start, job, error)
            return False

    def _begin(self, name: str, running: Running) -> None:
        target = running.wanted.target
        running.start.again_at = None
        try:
            running.job = make_job(self._look_up(running.wanted.config), self._defaults)
            if target == STOPPED:
                self._told.tasks(name, [])
                running.start.failed = False
                self._tell(name, running.start, STOPPED, None)
                return
            running.runs = self._runs(name, running.job, running.wanted.config)
        except Exception as error:
            self._failed(name, running.start, None, error)
            for run in running.runs:  # of the start before; there is nothing that they could go on with
                run.stop()
                run.again_at = None
                self._tell(name, run, UNASSIGNED, None)
            return
        running.start.failed = False
        running.start.since = self._monotonic()
        self._tell(name, running.start, PAUSED if target == PAUSED else RUNNING, None)
        if target == PAUSED:
            for run in running.runs:
                self._tell(name, run, PAUSED, None)
            return
        for run in running.runs:
            self._start(name, running, run)

    def _confirm(self, running: Running) -> None:
        job = running.job
        if running.confirming is None and running.start.since is not None and job is not None and wants_to_know(job):
            streams = [stream for run in running.runs for share in run.shares for stream in share.streams]
            running.confirming = Confirming(job, streams, self._positions.table(job.offsets_topic))
            running.confirming.start()

    def _runs(self, name: str, job: Job, given: Mapping[str, str]) -> list[Run]:
        if job.is_source:
            shares = shares_now(job)
            runs = [Run([number]) for number in sorted({share.task for share in shares})]
            for share in shares:
                runs[share.task].shares.append(share)
            self._told.topics(name, sorted({stream.topic for share in shares for stream in share.streams}))
            if job.kafka:
                fence_all(job, shares)
        else:
            sink = job.sink()  # refuses settings that do not go together
            sink.close()
            one = sink.ONE_WRITER
            runs = [Run(list(range(1 if one else job.tasks_max)))]
            self._told.topics(name, list(job.topics))
        # As it was given: what was looked up elsewhere is nobody's to read.
        configs = [{**given, "task.class": job.place} for run in runs for _ in run.numbers]
        self._told.tasks(name, configs)
        return runs

    def _start(self, name: str, running: Running, run: Run) -> None:
        assert running.job is not None
        run.again_at = None
        try:
            if self._spark is None:
                self._spark = self._make_spark()
            if running.job.is_source:
                self._start_source(running.job, run)
            elif not self._start_sink(running.job, run):
                run.again_at = self._monotonic() + self._defaults.poll_ms / 1000
        except Exception as error:
            run.stop()
            self._failed(name, run, running.job, error)
            return
        run.since = self._monotonic()
        run.failed = False
        self._tell(name, run, RUNNING, None)

    def _start_source(self, job: Job, run: Run) -> None:
        from moldau.connect.exactness import take_over

        assert self._spark is not None
        make_topics(job, {stream.topic for share in run.shares for stream in share.streams})
        table = self._positions.table(job.offsets_topic)
        batches = [take_over(job.client, share.identity) for share in run.shares]
        for share, batch in zip(run.shares, batches, strict=True):
            query = SourceQuery(self._spark, job, share, batch)
            run.queries.append(query)
            run.streaming.append(query.start(table.of_streams(job.offsets_name, share.streams)))

    def _start_sink(self, job: Job, run: Run) -> bool:
        """Whether its topics are there."""
        assert self._spark is not None
        topics = topics_now(job)
        run.looked_at = self._monotonic()
        if topics is None:
            return False
        run.topics = topics
        if job.topics_pattern:
            self._told.topics(job.name, sorted(topics))
        make_topics(job, ())
        query = SinkQuery(self._spark, job)
        run.queries.append(query)
        generations = generations_now(job, self._positions.table(job.offsets_topic), topics)
        run.streaming.append(query.start(begin_offsets(job, topics), generations))
        return True

    # -- looking after it --------------------------------------------------------------------------------------------

    def _look_after(self, name: str, running: Running) -> None:
        if self._is_due(running.start) or (running.confirming is not None and running.confirming.streams_changed):
            running.stop()
            self._begin(name, running)
            return
        for run in running.runs:
            if self._is_due(run):
                run.stop()
                self._start(name, running, run)
            elif run.streaming and not all(query.isActive for query in run.streaming):
                self._ended(name, running, run)
            elif run.streaming:
                self._look_at_topics(name, running, run)
        for run in (running.start, *running.runs):
            self._tell_now(name, run)
        if running.wanted.target == STARTED:
            self._confirm(running)

    def _is_due(self, run: Run) -> bool:
        return run.again_at is not None and self._monotonic() >= run.again_at

    def _ended(self, name: str, running: Running, run: Run) -> None:
        problems = [query.exception() for query in run.streaming if not query.isActive]
        if any(query.lastProgress for query in run.streaming):
            run.first_failure = None  # what failed before was done since
        run.stop()
        problem = next((each for each in problems if each is not None), None)
        if STREAMS_CHANGED in str(problem):
            log.info("%s: %s", name, summary(problem or StreamsChanged()))
            running.start.again_at = self._monotonic()
            return
        if running.job is not None and self._may_go_on(running.job, run, str(problem)):
            log.warning("%s: %s", name, summary(problem or RuntimeError()))
            run.again_at = self._monotonic()
            return
        self._failed(name, run, running.job, problem or RuntimeError("the query ended"))

    def _may_go_on(self, job: Job, run: Run, problem: str) -> bool:
        """Whether a sink's records were deleted before it read them, and it is to go on behind them."""
        if job.is_source or DATA_LOSS not in problem or job.consumer.get(POLICY) == NO_RESET:
            return False
        try:
            return has_gone(job, run.topics)
        except TopicUnavailable:
            return False

    def _look_at_topics(self, name: str, running: Running, run: Run) -> None:
        """A sink with a pattern follows topics that come and go."""
        job = running.job
        if job is None or job.is_source or not job.topics_pattern:
            return
        if self._monotonic() - run.looked_at < TOPICS_SECONDS:
            return
        run.looked_at = self._monotonic()
        found = topics_now(job)
        if found is not None and set(found) != set(run.topics):
            self._told.topics(name, sorted(found))
            run.stop()
            self._start(name, running, run)

    def _failed(self, name: str, run: Run, job: Job | None, error: BaseException) -> None:
        now = self._monotonic()
        if run.since is not None and now - run.since > HEALTHY_SECONDS:
            run.attempts, run.first_failure = 0, None
        run.since = None
        pause = self._backoff.pause(run.attempts)
        run.attempts += 1
        run.first_failure = now if run.first_failure is None else run.first_failure
        retried = job is not None and is_within(job.errors.retry_ms, now - run.first_failure)
        if retried and job is not None:
            pause = min(self._backoff.first * 2 ** min(run.attempts, 20), job.errors.longest_delay_ms / 1000)
        run.again_at = None if pause is None else now + pause
        log.error("%s%s failed: %s", name, f"-{run.numbers}" if run.numbers else "", summary(error))
        if retried:
            return
        run.failed = True
        self._tell(name, run, FAILED, trace_of(error))

    def _tell(self, name: str, run: Run, state: str, trace: str | None) -> None:
        run.state = state, trace
        self._tell_now(name, run)

    def _tell_now(self, name: str, run: Run) -> None:
        """What is not heard is told again in the next step: it holds up nothing else."""
        if run.state is None or run.state == run.told or self._unheard:
            return
        numbers: list[int | None] = [*run.numbers] or [None]
        try:
            for number in numbers:
                self._told.status(name, number, *run.state)
        except Exception as error:
            log.warning("%s is %s, which cannot be told yet: %s", name, run.state[0], error)
            self._unheard = True
            return
        run.told = run.state


def shares_now(job: Job) -> list[Share]:
    source = job.source()
    try:
        return shares_of(job, source.streams())
    finally:
        source.close()


def safely(name: str, action: Callable[[], None]) -> None:
    """What goes wrong with a connector is not the others' concern."""
    try:
        action()
    except Exception:
        log.exception("%s: the runner stumbled; it goes on", name)


def is_within(timeout_ms: int, seconds: float) -> bool:
    return timeout_ms < 0 or seconds * 1000 < timeout_ms


def trace_of(error: BaseException) -> str:
    """The cause first: what Spark says around it fills pages."""
    return f"{summary(error)}\n{''.join(traceback.format_exception(error))}"


def summary(error: BaseException) -> str:
    text = str(error)
    raised = [found.group(0) for found in RAISED.finditer(text.partition(TRACEBACK)[2])]
    own = next((line for line in raised if not line.startswith(AROUND)), None)
    return own or text.partition("\n")[0] or type(error).__name__
