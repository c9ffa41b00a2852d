"""The records of Connect's config and status topics, as Kafka Connect writes them. Pure.

Config topic (values in JSON without schemas):

    connector-<name>           {"properties": {…}}
    task-<name>-<number>       {"properties": {…}}
    commit-<name>              {"tasks": <count>}       the task records before it count from now on
    target-state-<name>        {"state": "STARTED"|"PAUSED"|…, "state.v2": "STOPPED"}
    restart-connector-<name>   {"include-tasks": …, "only-failed": …}
    logger-cluster-<logger>    {"level": …}
    session-key                {"key": <base64>, "algorithm": "HmacSHA256", "creation-timestamp": …}

Status topic:

    status-connector-<name>           {"state", "trace", "worker_id", "generation"}
    status-task-<name>-<number>       the same
    status-topic-<topic>:connector-<name>   {"topic": {"name", "connector", "task", "discoverTimestamp"}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.connect.worker.signing import SessionKey

STARTED, PAUSED, STOPPED = "STARTED", "PAUSED", "STOPPED"
CONNECTOR, TASK, COMMIT, TARGET, RESTART, LOGGER = (
    "connector-", "task-", "commit-", "target-state-", "restart-connector-", "logger-cluster-",
)  # fmt: skip
SESSION_KEY: Final = "session-key"
OF_CONNECTOR, OF_TASK, OF_TOPIC, TOPIC_END = "status-connector-", "status-task-", "status-topic-", ":connector-"
UTF8: Final = "utf-8"


class Record(NamedTuple):
    key: str
    value: Mapping[str, Any] | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        return self.key.encode(), None if self.value is None else json.dumps(self.value, separators=(",", ":")).encode()


def decoded(key: bytes | None, value: bytes | None) -> Record:
    """Raises ValueError."""
    content = None if value is None else json.loads(value)
    if content is not None and not isinstance(content, dict):
        raise ValueError(f"an object is expected, not {content!r}")
    return Record((key or b"").decode(), content)


# -- configurations --------------------------------------------------------------------------------------------------


def connector_record(name: str, config: Mapping[str, str] | None) -> Record:
    return Record(f"{CONNECTOR}{name}", None if config is None else {"properties": dict(config)})


def target_record(name: str, state: str | None) -> Record:
    if state is None:
        return Record(f"{TARGET}{name}", None)
    # Workers before 3.5 know no STOPPED: for them it is a pause.
    return Record(f"{TARGET}{name}", {"state": PAUSED if state == STOPPED else state, "state.v2": state})


def task_records(name: str, configs: Sequence[Mapping[str, str]]) -> list[Record]:
    tasks = [Record(f"{TASK}{name}-{number}", {"properties": dict(config)}) for number, config in enumerate(configs)]
    return [*tasks, Record(f"{COMMIT}{name}", {"tasks": len(configs)})]


def restart_record(name: str, *, include_tasks: bool, only_failed: bool) -> Record:
    return Record(f"{RESTART}{name}", {"include-tasks": include_tasks, "only-failed": only_failed})


def logger_record(name: str, level: str) -> Record:
    return Record(f"{LOGGER}{name}", {"level": level})


def session_key_record(key: SessionKey) -> Record:
    return Record(SESSION_KEY, key.to_value())


# -- states ----------------------------------------------------------------------------------------------------------


def status_record(
    name: str, task: int | None, state: str | None, worker: str, generation: int, trace: str | None
) -> Record:
    key = f"{OF_CONNECTOR}{name}" if task is None else f"{OF_TASK}{name}-{task}"
    if state is None:
        return Record(key, None)
    return Record(key, {"state": state, "trace": trace, "worker_id": worker, "generation": generation})


def topic_record(topic: str, name: str, task: int, at_ms: int | None) -> Record:
    key = f"{OF_TOPIC}{topic}{TOPIC_END}{name}"
    if at_ms is None:
        return Record(key, None)
    return Record(key, {"topic": {"name": topic, "connector": name, "task": task, "discoverTimestamp": at_ms}})
