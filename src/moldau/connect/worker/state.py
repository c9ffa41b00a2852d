"""What the records of the config and status topics amount to. Pure; applied in the topics' order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.worker.records import (
    COMMIT,
    CONNECTOR,
    LOGGER,
    OF_CONNECTOR,
    OF_TASK,
    OF_TOPIC,
    RESTART,
    SESSION_KEY,
    STARTED,
    TARGET,
    TASK,
    TOPIC_END,
    Record,
)
from moldau.connect.worker.signing import SessionKey


@dataclass(frozen=True, slots=True)
class Status:
    state: str
    worker: str
    generation: int
    trace: str | None


@dataclass(slots=True)
class Configs:
    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    """Those that are committed."""
    restarts: dict[str, int] = field(default_factory=dict)
    """How many restarts were asked for, by connector."""
    asked: dict[str, tuple[bool, bool]] = field(default_factory=dict)
    """What the last of them was: with tasks, only what has failed."""
    loggers: dict[str, str] = field(default_factory=dict)
    session_key: SessionKey | None = None
    _written: dict[tuple[str, int], dict[str, str]] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        key, value = record
        if key.startswith(CONNECTOR):
            self._connector(key.removeprefix(CONNECTOR), value)
        elif key.startswith(TARGET):
            name = key.removeprefix(TARGET)
            if value is None:
                self.targets.pop(name, None)
            else:
                self.targets[name] = str(value.get("state.v2") or value.get("state") or STARTED)
        elif key.startswith(TASK):
            name, _, number = key.removeprefix(TASK).rpartition("-")
            if value is not None and number.isdigit():
                self._written[name, int(number)] = dict(value.get("properties") or {})
        elif key.startswith(COMMIT) and value is not None:
            name = key.removeprefix(COMMIT)
            self.tasks[name] = [self._written.get((name, number), {}) for number in range(int(value.get("tasks", 0)))]
        elif key.startswith(RESTART) and value is not None:
            name = key.removeprefix(RESTART)
            self.restarts[name] = self.restarts.get(name, 0) + 1
            self.asked[name] = bool(value.get("include-tasks")), bool(value.get("only-failed"))
        elif key.startswith(LOGGER) and value is not None:
            self.loggers[key.removeprefix(LOGGER)] = str(value.get("level"))
        elif key == SESSION_KEY and value is not None:
            self.session_key = SessionKey.from_value(value)

    def _connector(self, name: str, value: Mapping[str, Any] | None) -> None:
        if value is None:
            self.connectors.pop(name, None)
            self.tasks.pop(name, None)
            self.targets.pop(name, None)
        else:
            self.connectors[name] = dict(value.get("properties") or {})

    def target(self, name: str) -> str:
        return self.targets.get(name, STARTED)


@dataclass(slots=True)
class Statuses:
    connectors: dict[str, Status] = field(default_factory=dict)
    tasks: dict[str, dict[int, Status]] = field(default_factory=dict)
    topics: dict[str, set[str]] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        key, value = record
        if key.startswith(OF_CONNECTOR):
            name = key.removeprefix(OF_CONNECTOR)
            if value is None:
                self.connectors.pop(name, None)
            else:
                self.connectors[name] = status_of(value)
        elif key.startswith(OF_TASK):
            name, _, number = key.removeprefix(OF_TASK).rpartition("-")
            if value is None:
                self.tasks.get(name, {}).pop(int(number), None)
            else:
                self.tasks.setdefault(name, {})[int(number)] = status_of(value)
        elif key.startswith(OF_TOPIC):
            topic, _, name = key.removeprefix(OF_TOPIC).rpartition(TOPIC_END)
            if value is None:
                self.topics.get(name, set()).discard(topic)
            else:
                self.topics.setdefault(name, set()).add(topic)


def status_of(value: Mapping[str, Any]) -> Status:
    return Status(
        str(value.get("state")), str(value.get("worker_id")), int(value.get("generation") or 0), value.get("trace")
    )
