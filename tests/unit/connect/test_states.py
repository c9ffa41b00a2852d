"""States of connectors that nobody runs any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.config.definition import ConfigError
from moldau.connect.worker import records
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.store import MemoryStore

MINE, ANOTHER = "here:8083", "there:8083"


def settings(folder: Path, **more: str) -> WorkerSettings:
    given = {
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "offset.storage.file.filename": str(folder / "offsets"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return WorkerSettings.of(given, distributed=False)


@pytest.fixture
def herder(tmp_path: Path) -> Herder:
    made = Herder(
        settings(tmp_path), MemoryStore(), None, MINE, lambda: None, lambda: 3, lambda: None, lambda: 0  # type: ignore[arg-type]
    )  # fmt: skip
    made.store.write_configs([records.connector_record(name, {"name": name}) for name in ("a", "b")])
    return made


def test_what_was_told_late_of_a_deleted_connector_is_forgotten(herder: Herder) -> None:
    """The leader has deleted it, and taken its states away, before the worker that ran it had stopped."""
    herder.store.write_configs([records.connector_record("a", None)])
    for name in ("a", "b"):
        herder.status(name, None, "FAILED", "late")
        herder.status(name, 0, "FAILED", "late")
        herder.topics(name, [f"of-{name}"])
        herder.left(name)
    statuses = herder.store.statuses
    assert (set(statuses.connectors), statuses.tasks["a"], statuses.topics["a"]) == ({"b"}, {}, set())
    assert (set(statuses.tasks["b"]), statuses.topics["b"]) == ({0}, {"of-b"}), "that one is only somewhere else"


def test_what_a_worker_ran_is_unassigned_when_it_stops(herder: Herder) -> None:
    for worker, name in ((MINE, "a"), (ANOTHER, "b")):
        for task in (None, 0):
            herder.store.write_statuses([records.status_record(name, task, "RUNNING", worker, 2, None)])
    herder.closed(["a", "b", "c"])
    statuses = herder.store.statuses
    found = {name: (each.state, each.worker, each.generation) for name, each in statuses.connectors.items()}
    assert found == {"a": ("UNASSIGNED", MINE, 3), "b": ("RUNNING", ANOTHER, 2)}
    assert {name: each[0].state for name, each in statuses.tasks.items()} == {"a": "UNASSIGNED", "b": "RUNNING"}


def test_admin_is_not_open_to_others_than_was_meant(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"admin\.listeners"):
        settings(tmp_path, admin_listeners="http://localhost:9000")
    with pytest.raises(ConfigError, match=r"admin\.listeners"):
        settings(tmp_path, listeners="http://:1,https://:2", admin_listeners="https://:2")
    assert settings(tmp_path, listeners="http://:1", admin_listeners="http://:1").serves_admin
    assert settings(tmp_path).serves_admin
    assert not settings(tmp_path, admin_listeners="").serves_admin
