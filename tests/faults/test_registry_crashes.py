"""Registries killed at random moments under registration: ids are unique, nothing acknowledged is lost, all agree."""

from __future__ import annotations

import json
import random
import threading
import urllib.error
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.registry import Registry
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("registry")

SETTINGS = {
    "kafkagroup.heartbeat.interval.ms": "200",
    "kafkagroup.session.timeout.ms": "1500",
    "kafkagroup.rebalance.timeout.ms": "3000",
    "schema.workers": "1",
}
CLIENTS = 3


class Client(threading.Thread):
    """Registers schema after schema, each until it is acknowledged, wherever that is possible."""

    def __init__(self, number: int, registries: list[Registry], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[str, int] = {}
        self.count = 0
        self._number = number
        self._registries = registries
        self._stop_asked = stop
        self._random = random.Random(number)

    def run(self) -> None:
        while not self._stop_asked.is_set():
            schema = json.dumps({"type": "fixed", "name": f"F{self._number}_{self.count}", "size": 1})
            subject = f"s{self._random.randrange(5)}-{self._number}"
            registry = self._random.choice(self._registries)
            try:
                status, body = registry.ask("POST", f"/subjects/{subject}/versions", {"schema": schema})
            except (OSError, urllib.error.URLError, ValueError):
                continue
            if status == 200:
                self.acknowledged[schema] = body["id"]
                self.count += 1


def wait_for_more(clients: list[Client], more: int) -> None:
    wanted = sum(client.count for client in clients) + more
    wait_until(lambda: sum(client.count for client in clients) >= wanted, "registrations go on", 60)


def crash(tmp_path: Path, kills: int, seed: int) -> int:
    chance = random.Random(seed)
    stop = threading.Event()
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with Broker(tmp_path / "broker", settings) as broker:
        registries = [Registry(tmp_path / f"r{number}", broker.address, SETTINGS) for number in range(2)]
        for registry in registries:
            registry.start()
            registry.ask("PUT", "/config", {"compatibility": "NONE"})
        clients = [Client(number, registries, stop) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for _ in range(kills):
            wait_for_more(clients, chance.randrange(1, 25))
            victim = chance.choice(registries)
            victim.kill()
            victim.start()
        stop.set()
        for client in clients:
            client.join(90)
        acknowledged = {schema: number for client in clients for schema, number in client.acknowledged.items()}
        assert len(set(acknowledged.values())) == len(acknowledged)
        tables = [
            {each["id"]: each["schema"] for each in registry.ask("GET", "/schemas")[1]} for registry in registries
        ]
        assert tables[0] == tables[1]
        for schema, number in acknowledged.items():
            assert json.loads(tables[0][number]) == json.loads(schema)
        for registry in registries:
            assert registry.stop() == 0
        return len(acknowledged)


def test_killed_registries_lose_nothing_and_give_no_id_twice(tmp_path: Path) -> None:
    assert crash(tmp_path, kills=3, seed=1) > 3


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(5))
def test_registries_killed_many_times(tmp_path: Path, seed: int) -> None:
    assert crash(tmp_path, kills=20, seed=seed) > 20
