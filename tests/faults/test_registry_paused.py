"""A registry that leads, is paused, replaced, and comes back before it can have heard of it."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.registry import Registry
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("registry")

TIMES = {
    "kafkagroup.session.timeout.ms": "1500",
    "kafkagroup.rebalance.timeout.ms": "3000",
    "schema.workers": "1",
    "kafkagroup.heartbeat.interval.ms": "200",
}
DEAF = {**TIMES, "kafkagroup.heartbeat.interval.ms": "600000"}
"""It asks the group so rarely that it does not hear by itself that another leads."""


def written(registry: Registry, number: int) -> tuple[int, Any]:
    schema = json.dumps({"type": "fixed", "name": f"F{number}", "size": 1})
    return registry.ask("POST", f"/subjects/s{number}/versions", {"schema": schema})


def is_leader(registry: Registry) -> bool:
    """As the metrics of the instance itself tell."""
    return "moldau_registry_election_leads 1" in metrics(registry)


def metrics(registry: Registry) -> str:
    with urllib.request.urlopen(f"{registry.url}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def test_a_leader_that_was_paused_and_replaced_hands_writes_on(tmp_path: Path) -> None:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with (
        Broker(tmp_path / "broker", settings) as broker,
        Registry(tmp_path / "old", broker.address, DEAF) as old,
    ):
        ids = [written(old, 0)[1]["id"]]
        assert old.process is not None
        os.kill(old.process.pid, signal.SIGSTOP)
        try:
            with Registry(tmp_path / "new", broker.address, TIMES) as new:
                answer = wait_until(lambda: led(new, 1), "another leads and writes", 60)
                ids.append(answer["id"])
                os.kill(old.process.pid, signal.SIGCONT)
                for number in range(2, 6):
                    status, body = written(old, number)
                    assert status == 200, body
                    ids.append(body["id"])
                assert not is_leader(old) and is_leader(new)
                assert written(new, 6)[1]["id"] not in ids
                assert len(set(ids)) == len(ids)
                for registry in (old, new):
                    assert {each["id"] for each in registry.ask("GET", "/schemas")[1]} >= set(ids)
        finally:
            os.kill(old.process.pid, signal.SIGCONT)


def led(registry: Registry, number: int) -> Any:
    status, body = written(registry, number)
    return body if status == 200 else None
