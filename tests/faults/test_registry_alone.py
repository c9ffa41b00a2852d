"""The schema registry while its brokers are away: it goes on reading, and registers what it has; what it would have to
write it refuses soon, says so, and recovers."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.registry import Registry
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("registry")

SETTINGS = {
    "kafkastore.timeout.ms": "2000",
    "kafkagroup.heartbeat.interval.ms": "200",
    "kafkagroup.session.timeout.ms": "1500",
    "kafkagroup.rebalance.timeout.ms": "3000",
    "schema.workers": "1",
}
WRITES = 20
STORE_ERRORS = (50001, 50002, 50003, 50004)


def written(registry: Registry, number: int) -> tuple[int, Any]:
    schema = json.dumps({"type": "fixed", "name": f"F{number}", "size": 1})
    return registry.ask("POST", f"/subjects/s{number}/versions", {"schema": schema})


def test_without_brokers_it_reads_and_refuses_writes_until_they_are_back(tmp_path: Path) -> None:
    """Hanging is a failure too: a request is given up after a minute, and so many may not wait for each other."""
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with (
        Broker(tmp_path / "broker", settings) as broker,
        Registry(tmp_path / "a", broker.address, SETTINGS) as one,
        Registry(tmp_path / "b", broker.address, SETTINGS) as other,
    ):
        registries = (one, other)
        schema_id = written(one, 0)[1]["id"]
        wait_until(lambda: other.ask("GET", f"/schemas/ids/{schema_id}")[0] == 200, "both have the schema")
        os.kill(broker.pid, signal.SIGSTOP)
        refused(registries, schema_id, 1)
        os.kill(broker.pid, signal.SIGCONT)
        writes_again(registries, 100)
        broker.kill()
        refused(registries, schema_id, 200)
        for registry in registries:
            wait_until(lambda at=registry: at.ask("GET", "/ready")[0] == 503, "it says that it is not ready")  # type: ignore[misc]
            assert registry.ask("GET", "/health")[0] == 200
        refused(registries, schema_id, 300)
        broker.start()
        writes_again(registries, 400)
        tables = [{each["id"]: each["schema"] for each in at.ask("GET", "/schemas")[1]} for at in registries]
        assert tables[0] == tables[1]
        assert schema_id in tables[0]


def refused(registries: Sequence[Registry], schema_id: int, first: int) -> None:
    answers: list[tuple[int, Any]] = []
    asking = [
        threading.Thread(target=lambda at=at, number=number: answers.append(written(at, number)))  # type: ignore[misc]
        for at in registries
        for number in range(first, first + WRITES)
    ]
    for thread in asking:
        thread.start()
    for registry in registries:
        assert registry.ask("GET", f"/schemas/ids/{schema_id}")[0] == 200
        assert registry.ask("GET", "/subjects/s0/versions") == (200, [1])
        assert registry.ask("POST", "/compatibility/subjects/s0/versions", {"schema": '"int"'})[0] == 200
        assert written(registry, 0)[1]["id"] == schema_id, "what is there is registered without a broker"
    for thread in asking:
        thread.join()
    assert len(answers) == len(asking)
    assert {(status, body["error_code"] in STORE_ERRORS) for status, body in answers} == {(500, True)}, answers


def writes_again(registries: Sequence[Registry], first: int) -> None:
    for number, registry in enumerate(registries, first):
        wait_until(lambda at=registry: at.ask("GET", "/ready")[0] == 200, "it is ready again", 60)  # type: ignore[misc]
        wait_until(lambda at=registry, n=number: written(at, n)[0] == 200, "it writes again", 60)  # type: ignore[misc]
