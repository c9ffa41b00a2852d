"""An instance that has not read yet what another one wrote."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from moldau.registry.log import SchemaLog
from moldau.registry.node import RegistrySettings, running
from tests.support.broker import Broker
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")


class Gate:
    """Before what the follower reads: closed by the test, opened by whoever waits to have read something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.open.set()
        apply, wait_for = SchemaLog._apply, SchemaLog.wait_for

        def gated(log: SchemaLog, message: Any, offset: int) -> None:
            assert self.open.wait(60)
            apply(log, message, offset)

        def waiting(log: SchemaLog, offset: int, seconds: float | None = None) -> None:
            self.open.set()
            wait_for(log, offset, seconds)

        monkeypatch.setattr(SchemaLog, "_apply", gated)
        monkeypatch.setattr(SchemaLog, "wait_for", waiting)


def registered(registry: Registry) -> dict[str, Any]:
    status, body = registry.ask("POST", "/subjects/s/versions", {"schema": '"int"'})
    assert status == 200, body
    return dict(body)


def test_what_another_instance_has_deleted_is_registered_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)

    async def play(leader: Registry, broker: str) -> None:
        settings = {
            **QUICK,
            "kafkastore.bootstrap.servers": broker,
            "listeners": "http://127.0.0.1:0",
            "leader.eligibility": "false",
        }
        async with running(RegistrySettings.of(settings)) as (service, registry):
            await registry.until_ready()
            follower = Registry(tmp_path, broker)
            follower.url = f"http://127.0.0.1:{service.listeners[0].port}"
            first = await asyncio.to_thread(registered, follower)
            assert await asyncio.to_thread(registered, follower) == first
            gate.open.clear()
            assert await asyncio.to_thread(leader.ask, "DELETE", "/subjects/s") == (200, [1])
            again = await asyncio.to_thread(registered, follower)
            gate.open.set()
            assert (again["id"], again["version"]) == (first["id"], 2)
            assert await asyncio.to_thread(leader.ask, "GET", "/subjects/s/versions") == (200, [2])

    with (
        Broker(tmp_path / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker,
        Registry(tmp_path / "leader", broker.address, QUICK) as leader,
    ):
        asyncio.run(play(leader, broker.address))
