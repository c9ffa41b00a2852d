"""Schemas that take long to compare hold up nobody's writes but those of whoever sends them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Broker
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")

SETTINGS = {**QUICK, "schema.timeout.ms": "9000", "kafkastore.timeout.ms": "5000", "schema.workers": "1"}
HARD = [{"anyOf": [{"const": f"{row} {column}"} for column in range(60)]} for row in range(60)]
"""Compared with itself turned around, it takes longer than any of these settings allow."""


def hard(registry: Registry, subject: str, *, turned: bool) -> tuple[int, Any]:
    schema = json.dumps({"oneOf": HARD[::-1] if turned else HARD})
    return registry.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, "schemaType": "JSON"})


def test_slow_schemas_do_not_hold_up_other_writes(tmp_path: Path) -> None:
    with (
        Broker(tmp_path / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker,
        Registry(tmp_path / "registry", broker.address, SETTINGS) as registry,
    ):
        subjects = [f"slow-{number}" for number in range(4)]
        for subject in subjects:
            assert hard(registry, subject, turned=False)[0] == 200
        known = registry.ask("POST", "/subjects/known/versions", {"schema": '"int"'})
        refused: list[tuple[int, Any]] = []
        slow = [
            threading.Thread(target=lambda at=subject: refused.append(hard(registry, at, turned=True)))  # type: ignore[misc]
            for subject in subjects
        ]
        for thread in slow:
            thread.start()
        number = 0
        while any(thread.is_alive() for thread in slow):
            number += 1
            status, body = registry.ask("PUT", f"/config/quick-{number % 3}", {"compatibility": "FULL"})
            assert status == 200, body
            assert registry.ask("POST", "/subjects/known/versions", {"schema": '"int"'}) == known
        codes = {body["error_code"] for _, body in refused}
        assert 42201 in codes and codes <= {42201, 50002}, refused
        assert "free in time" in str(refused) or 50002 not in codes
