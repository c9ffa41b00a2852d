"""Watches a session's queries: how fast, how far behind; and publishes what they have consumed.

Spark reports a Python source's progress as bare offsets. Here they become a lag in records, and, for a query
without `kafka.group.id`, commits of a consumer group with the query's name, so that every lag tool sees the job.
The events come on a thread of Spark's; a query never waits for what happens here and never fails by it.
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALLED = "_moldau_listener"
TRACEBACK = "Traceback (most recent call last):"
AFTER_TRACEBACK = "\n SQLSTATE"
BETWEEN_TRACEBACKS = (TRACEBACK, "During handling of", "The above exception was")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """What one batch of a query did."""

    query: str
    """Its name, or its id where it has none."""
    batch: int
    """The number of the batch."""
    rows: int
    """Read by it, from all sources."""
    rows_per_second: float
    """Processed."""
    milliseconds: int
    """It took."""
    lag: int | None
    """Records that are in the topics and were not read by this batch; None if a source does not tell."""
    watermark: str | None
    """Of event time, as Spark writes it; None where the query has none."""
    dropped_late: int
    """Rows behind the watermark."""
    state_rows: int
    """Kept by all operators."""


class ProgressListener(StreamingQueryListener):
    """Calls `on_progress` with the `Progress` of every batch. With `publish_lag`, publishes what was consumed to a
    group with the query's name, where a query has no `kafka.group.id`; `properties` (Java's names) carry the login
    where the cluster wants one. For `spark.streams.addListener`; `session()` installs one of its own."""

    def __init__(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        *,
        publish_lag: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._on_progress = on_progress
        self._publish_lag = publish_lag
        self._properties = dict(properties) if properties else None
        self._names: dict[UUID, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing has been read yet."""
        if event.name is not None:
            self._names[event.id] = repr(event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is done."""
        progress = json.loads(event.progress.json)
        if self._on_progress is not None:
            self._on_progress(progress_of(progress))
        if self._publish_lag:
            self._publish(progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing new to read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Its last batch was told already. One that has failed is told in a line: the whole cause comes to whoever
        awaits the query, and perhaps nobody does."""
        if event.exception is not None:
            log.error("query %s has failed: %s", self._names.pop(event.id, event.id), cause_of(event.exception))

    def _publish(self, progress: Mapping[str, Any]) -> None:
        from moldau.spark.planning.lag import publish_progress

        name = progress.get("name") or str(progress["id"])
        for source in progress.get("sources", ()):
            if isinstance(offset := source.get("endOffset"), dict):
                publish_progress(name, json.dumps(offset), self._properties)


def watch_queries(
    spark: "SparkSession", *, publish_lag: bool = True, properties: Mapping[str, str] | None = None
) -> None:
    """Let the session's queries be seen by lag tools, and their failures be told; a second call changes nothing."""
    if not hasattr(spark, INSTALLED):
        listener = ProgressListener(publish_lag=publish_lag, properties=properties)
        spark.streams.addListener(listener)
        setattr(spark, INSTALLED, listener)


def cause_of(report: str) -> str:
    """The line of Spark's report that says why: the last one of Python's traceback, else the first of all."""
    traced = report.partition(TRACEBACK)[2].partition(AFTER_TRACEBACK)[0]
    lines = [line for line in traced.splitlines() if line and not line.startswith((" ", *BETWEEN_TRACEBACKS))]
    return lines[-1] if lines else report.partition("\n")[0]


def progress_of(report: Mapping[str, Any]) -> Progress:
    """Read what Spark tells of a batch, in its JSON form."""
    sources = report.get("sources", ())
    lags = [_lag(source) for source in sources]
    state = report.get("stateOperators", ())
    return Progress(
        query=report.get("name") or str(report.get("id", "")),
        batch=int(report.get("batchId", -1)),
        rows=sum(max(0, int(source.get("numInputRows") or 0)) for source in sources),
        rows_per_second=sum(_number(source.get("processedRowsPerSecond")) for source in sources),
        milliseconds=int(report.get("batchDuration") or report.get("durationMs", {}).get("triggerExecution", 0)),
        lag=None if None in lags else sum(lag for lag in lags if lag is not None),
        watermark=report.get("eventTime", {}).get("watermark"),
        dropped_late=sum(int(operator.get("numRowsDroppedByWatermark") or 0) for operator in state),
        state_rows=sum(int(operator.get("numRowsTotal") or 0) for operator in state),
    )


def _lag(source: Mapping[str, Any]) -> int | None:
    end, latest = _positions(source.get("endOffset")), _positions(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, offset - end.get(place, offset)) for place, offset in latest.items())


def _positions(offset: object) -> dict[tuple[str, str], int] | None:
    """Topic and partition with the next offset, from our source's offsets; None for anything else."""
    tree = offset.get("offsets") if isinstance(offset, dict) else None
    if not isinstance(tree, dict):
        return None
    return {(topic, number): place for topic, numbers in tree.items() for number, place in numbers.items()}


def _number(value: object) -> float:
    number = float(value) if isinstance(value, int | float | str) else 0.0
    return number if number == number and abs(number) != float("inf") else 0.0
