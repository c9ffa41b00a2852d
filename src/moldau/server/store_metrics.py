"""This broker and what it depends on, in figures: its session with ZooKeeper under the names that Kafka gave it,
commits to the metadata and how new those are that it goes by, its lease, and what the disks take.

Of Kafka's names MetadataErrorCount is left out: a broker that cannot follow the metadata stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from math import isfinite
from time import perf_counter
from typing import Any

from moldau.metadata.store import ClusterStore, SessionState
from moldau.metrics import Histogram, MetricName, Metrics, Sample
from moldau.server.appends import RunBlocking
from moldau.storage.flushing import FlushWork

SESSION = "kafka.server", "SessionExpireListener"
#: As ZooKeeper's own client calls them.
NAMES = {SessionState.CONNECTED: "CONNECTED", SessionState.SUSPENDED: "CONNECTING", SessionState.LOST: "EXPIRED"}
COUNTED = {
    SessionState.CONNECTED: "ZooKeeperSyncConnectsPerSec",
    SessionState.SUSPENDED: "ZooKeeperDisconnectsPerSec",
    SessionState.LOST: "ZooKeeperExpiresPerSec",
}


def show_session(metrics: Metrics, store: ClusterStore) -> None:
    """What happens from now on, while there is a session."""
    counters = {state: metrics.counter(*SESSION, name) for state, name in COUNTED.items()}

    def changed(state: SessionState) -> None:
        counters[state].value += 1

    store.on_session(changed)
    for state, name in NAMES.items():
        metrics.gauge(lambda state=state: store.session_state is state, *SESSION, "SessionState", state=name)  # type: ignore[misc]


def request_times(metrics: Metrics) -> Histogram:
    return metrics.histogram("kafka.server", "ZooKeeperClientMetrics", "ZooKeeperRequestLatencyMs")


def commit_times(metrics: Metrics) -> Histogram:
    """From the moment a decision is sent until it is known to be accepted or refused."""
    return metrics.histogram("moldau.server", "MetadataStore", "CommitTimeMs")


def show_age_of_metadata(metrics: Metrics, age_seconds: Callable[[], float]) -> None:
    """For how long it has not been certain that nothing newer was decided; nothing before that was certain once."""

    def age() -> Iterator[Sample]:
        seconds = age_seconds()
        if isfinite(seconds):
            name = MetricName("kafka.controller", "KafkaController", "LastAppliedRecordLagMs")
            yield name, max(seconds, 0.0) * 1000

    metrics.collect(age)


def counting_refusals(metrics: Metrics) -> Callable[[], None]:
    """What was asked of a leader or a coordinator that has not heard for too long that it still is one."""
    counter = metrics.counter("moldau.server", "ReplicaManager", "LeaseRefusalsPerSec")

    def refused() -> None:
        counter.value += 1

    return refused


def timing_flushes(metrics: Metrics, run_blocking: RunBlocking) -> RunBlocking:
    """How long disks take to make logs durable: without the wait for a thread."""
    times = metrics.histogram("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")

    def run(work: Callable[[], Any]) -> asyncio.Future[Any]:
        if not isinstance(work, FlushWork):
            return run_blocking(work)
        took_ms: list[float] = []

        def flush() -> None:
            started = perf_counter()
            work()
            took_ms.append((perf_counter() - started) * 1000)

        def done(_: asyncio.Future[Any]) -> None:
            for each in took_ms:
                times.record(each)

        future = run_blocking(flush)
        future.add_done_callback(done)
        return future

    return run
