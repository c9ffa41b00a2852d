"""What the view shows while the demo runs: collected from the messages of generator and job, read by the view."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

SHOWN_ALARMS = 5
QUERIES = ("clean", "alarms", "results")


@dataclass(frozen=True, slots=True)
class QueryState:
    """The newest word of a query."""

    batch: int = -1
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    milliseconds: int = 0
    lag: int | None = None
    watermark: str | None = None
    dropped_late: int = 0
    state_rows: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of the plot."""

    seconds: float
    generated: int
    cleaned: int
    lag: int


@dataclass(slots=True)
class Scene:
    """Everything there is to show. Messages come from two threads, drawing from a third."""

    total: int
    clock: Callable[[], float]
    phase: str = "starting"
    generated: int = 0
    complete: bool = False
    ready: bool = False
    """All queries of the job run."""
    kill_at: float | None = None
    back_at: float | None = None
    alarms_seen: int = 0
    queries: dict[str, QueryState] = field(default_factory=lambda: {name: QueryState() for name in QUERIES})
    alarms: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=SHOWN_ALARMS))
    samples: list[Sample] = field(default_factory=list)
    failure: str | None = None
    finished: bool = False
    _begun: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._begun = self.clock()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return self.clock() - self._begun

    def from_generator(self, message: dict[str, Any]) -> None:
        """A line of the generator."""
        with self._lock:
            match message["kind"]:
                case "generated":
                    self.generated = message["written"]
                    self._sample()
                case "complete":
                    self.complete = message["failed"] == 0
                    if message["failed"]:
                        self.failure = f"{message['failed']} events could not be written"

    def from_job(self, message: dict[str, Any]) -> None:
        """A line of the job."""
        with self._lock:
            match message["kind"]:
                case "starting":
                    self.phase = "Spark starts"
                case "session":
                    self.phase = "queries start"
                case "progress":
                    self._progress(message)
                case "ready":
                    self.ready = True
                    self.phase = "running"
                case "finishing":
                    self.phase = "processing the rest"
                case "finished":
                    self.finished = True
                case "failed":
                    self.failure = message["error"]

    def _progress(self, message: dict[str, Any]) -> None:
        known = self.queries[message["query"]]
        self.queries[message["query"]] = replace(
            known,
            batch=message["batch"],
            batches=known.batches + 1,
            rows=known.rows + message["rows"],
            rows_per_second=message["rows_per_second"],
            milliseconds=message["milliseconds"],
            lag=message["lag"],
            watermark=message["watermark"],
            dropped_late=known.dropped_late + message["dropped_late"],
            state_rows=message["state_rows"],
        )
        if self.kill_at is not None and self.back_at is None:
            self.back_at = self.seconds
        self._sample()

    def _sample(self) -> None:
        cleaned = self.queries["clean"].rows
        lag = max(0, self.generated - cleaned)
        self.samples.append(Sample(self.seconds, self.generated, cleaned, lag))

    def alarm(self, row: dict[str, Any]) -> None:
        """A row of the topic of alarms."""
        with self._lock:
            self.alarms.append(row)
            self.alarms_seen += 1

    def killed(self) -> None:
        """The job is gone. What its last batch read is not known to be done: the counts go on from what was told."""
        with self._lock:
            self.kill_at = self.seconds
            self.back_at = None
            self.ready = False
            self.phase = "killed"

    @property
    def every_query_works(self) -> bool:
        """Whether each has finished a batch with rows."""
        return all(state.rows > 0 for state in self.queries.values())
