"""What a broker tells of what it depends on. That it tells it at all is tested in tests/cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.metadata.store import SessionState
from moldau.metrics import Metrics
from moldau.metrics.prometheus import exposition
from moldau.replication.leases import Lease
from moldau.server.store_metrics import counting_refusals, show_age_of_metadata, show_session, timing_flushes
from tests.support.logs import open_log

SESSION = "kafka_server_sessionexpirelistener"


def told(metrics: Metrics) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in exposition(metrics).splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_each_change_of_the_session_is_counted() -> None:
    metrics, watchers = Metrics(), []
    store = SimpleNamespace(session_state=SessionState.CONNECTED, on_session=watchers.append)
    show_session(metrics, cast(Any, store))
    for state in (SessionState.SUSPENDED, SessionState.CONNECTED, SessionState.SUSPENDED, SessionState.LOST):
        store.session_state = state
        watchers[0](state)
    found = told(metrics)
    counts = [found[f"{SESSION}_zookeeper{name}_total"] for name in ("disconnects", "syncconnects", "expires")]
    assert counts == [2, 1, 1]
    states = [found[f'{SESSION}_sessionstate{{state="{name}"}}'] for name in ("CONNECTED", "CONNECTING", "EXPIRED")]
    assert states == [0, 0, 1]


@pytest.mark.parametrize(("seconds", "shown"), [(inf, None), (0.25, 250), (-0.1, 0)])
def test_the_age_of_metadata_is_told_once_it_is_known(seconds: float, shown: float | None) -> None:
    metrics = Metrics()
    show_age_of_metadata(metrics, lambda: seconds)
    assert told(metrics).get("kafka_controller_kafkacontroller_lastappliedrecordlagms") == shown


def test_what_is_refused_without_a_lease_is_counted() -> None:
    metrics, heard = Metrics(), [100.0]
    lease = Lease(4.0, lambda: 103.0, lambda: heard[0], counting_refusals(metrics))
    assert lease.holds([]) and told(metrics)["moldau_server_replicamanager_leaserefusals_total"] == 0
    heard[0] = 98.0
    assert not lease.holds([98.0]) and not lease.holds([97.0]) and lease.holds([99.0])
    assert told(metrics)["moldau_server_replicamanager_leaserefusals_total"] == 2


def test_flushes_are_timed_and_other_work_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        metrics = Metrics()

        def at_once(work: Callable[[], Any]) -> asyncio.Future[Any]:
            future = asyncio.get_running_loop().create_future()
            future.set_result(work())
            return future

        run = timing_flushes(metrics, at_once)
        assert await run(lambda: 7) == 7
        await run(open_log(tmp_path).flush_work())
        await asyncio.sleep(0)
        assert told(metrics)["kafka_log_logflushstats_logflushrateandtimems_count"] == 1

    asyncio.run(scenario())
