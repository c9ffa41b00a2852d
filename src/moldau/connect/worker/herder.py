"""What requests do: read the state, check, write records; what runs follows from the records.

Methods block and may be called from any thread. Those that write raise `NotLeader` where another worker has to do it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.config.providers import ProviderError
from moldau.connect.configuration import checked, described, make_job, unknown
from moldau.connect.definitions import ConfigRefused
from moldau.connect.plugins import PluginMissing, find, kind_of
from moldau.connect.task import Job
from moldau.connect.worker import errors, records
from moldau.connect.worker.loggers import LEVELS, Loggers
from moldau.connect.worker.records import PAUSED, STARTED, STOPPED
from moldau.connect.worker.runner import FAILED, RESTARTING, UNASSIGNED, Again, Runner, Wanted
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.state import Status
from moldau.connect.worker.store import Store
from moldau.web import ApiError

log = logging.getLogger(__name__)

START_SECONDS: Final = 10.0
STATES: Final = {"RUNNING": STARTED, "PAUSED": PAUSED, "STOPPED": STOPPED}
OVERRIDES: Final = ("producer.override.", "consumer.override.", "admin.override.")
PRINCIPAL: Final = ("security.protocol", "sasl.jaas.config", "sasl.mechanism")


class Herder:
    def __init__(
        self,
        settings: WorkerSettings,
        store: Store,
        runner: Runner,
        worker: str,
        assigned: Callable[[], set[str] | None],
        generation: Callable[[], int],
        check_leads: Callable[[], None],
        wall_ms: Callable[[], int],
    ) -> None:
        """`assigned`: the connectors of this worker, None for all. `check_leads` raises NotLeader."""
        self._settings = settings
        self.store = store
        self._runner = runner
        self.worker = worker
        self._assigned = assigned
        self._generation = generation
        self._check_leads = check_leads
        self._wall_ms = wall_ms
        self._writing = threading.RLock()
        self._revisions: dict[str, int] = {}
        self.loggers = Loggers()

    @property
    def serves_admin(self) -> bool:
        return self._settings.serves_admin

    # -- what runs ---------------------------------------------------------------------------------------------------

    def follow(self, record: records.Record | None = None) -> None:
        """The state has changed: has this worker run what is its own now."""
        if record is not None and record.key.startswith(records.CONNECTOR):
            name = record.key.removeprefix(records.CONNECTOR)
            self._revisions[name] = self._revisions.get(name, 0) + 1
        if record is not None and record.key.startswith(records.RESTART):
            name = record.key.removeprefix(records.RESTART)
            include_tasks, only_failed = self.store.configs.asked.get(name, (False, False))
            if self._is_mine(name):
                self._runner.restart(Again(name, only_failed=only_failed, tasks=include_tasks))
        if record is not None and record.key.startswith(records.LOGGER):
            name = record.key.removeprefix(records.LOGGER)
            if (level := self.store.configs.loggers.get(name, "")) in LEVELS:
                self.loggers.set(name, level)
        with self.store.changed:
            configs = self.store.configs
            wanted = {
                name: Wanted(dict(config), configs.target(name), self._revisions.get(name, 0))
                for name, config in configs.connectors.items()
                if self._is_mine(name)
            }
        self._runner.assign(wanted)

    def _is_mine(self, name: str) -> bool:
        mine = self._assigned()
        return mine is None or name in mine

    # -- told by the runner ------------------------------------------------------------------------------------------

    def status(self, name: str, task: int | None, state: str | None, trace: str | None) -> None:
        record = records.status_record(name, task, state, self.worker, self._generation(), trace)
        self.store.write_statuses([record])

    def tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        with self.store.changed:
            before = self.store.statuses.tasks.get(name, {})
            gone = [number for number in before if number >= len(configs)]
        self.store.write_statuses([records.status_record(name, number, None, "", 0, None) for number in gone])
        if self.store.configs.tasks.get(name) != configs:
            self.put_tasks(name, configs)

    def put_tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        self.store.write_configs(records.task_records(name, configs))

    def take_tasks(self, name: str, configs: list[dict[str, str]], headers: Mapping[str, str], body: bytes) -> None:
        """What another worker tells."""
        raise ApiError(500, "Kafka Connect in standalone mode does not support externally setting task configurations.")

    def fence(self, name: str, headers: Mapping[str, str], body: bytes) -> None:
        """Asked by another worker."""
        raise ApiError(500, "Kafka Connect in standalone mode does not support exactly-once source connectors.")

    def topics(self, name: str, topics: list[str]) -> None:
        if self._settings.flag("topic.tracking.enable"):
            known = self.store.statuses.topics.get(name, set())
            fresh = [records.topic_record(topic, name, 0, self._wall_ms()) for topic in topics if topic not in known]
            self.store.write_statuses(fresh)

    def left(self, name: str) -> None:
        """Who ran a connector that was deleted forgets its states: whatever it told late lies before that."""
        if name not in self.store.configs.connectors:
            self._forget_states(name)

    def _forget_states(self, name: str) -> None:
        with self.store.changed:
            tasks = list(self.store.statuses.tasks.get(name, {}))
            topics = list(self.store.statuses.topics.get(name, set()))
        gone = [records.status_record(name, number, None, "", 0, None) for number in (None, *tasks)]
        self.store.write_statuses([*gone, *(records.topic_record(topic, name, 0, None) for topic in topics)])

    def closed(self, names: list[str]) -> None:
        """As Kafka Connect: nobody runs them until another worker says that it does."""
        with self.store.changed:
            found = [
                records.status_record(name, number, UNASSIGNED, self.worker, self._generation(), None)
                for name in names
                for number, status in (
                    (None, self.store.statuses.connectors.get(name)),
                    *self.store.statuses.tasks.get(name, {}).items(),
                )
                if status is not None and status.worker == self.worker and name in self.store.configs.connectors
            ]
        self.store.write_statuses(found)

    # -- reading -----------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return sorted(self.store.configs.connectors)

    def config(self, name: str) -> dict[str, str]:
        found = self.store.configs.connectors.get(name)
        if found is None:
            raise errors.no_connector(name)
        return dict(found)

    def kind(self, name: str) -> str:
        try:
            return kind_of(find(self.config(name).get("connector.class", "")))
        except PluginMissing:
            return "unknown"

    def info(self, name: str) -> dict[str, Any]:
        config = self.config(name)
        tasks = [{"connector": name, "task": number} for number in range(len(self.store.configs.tasks.get(name, ())))]
        return {"name": name, "config": config, "tasks": tasks, "type": self.kind(name)}

    def task_infos(self, name: str) -> list[dict[str, Any]]:
        self.config(name)
        configs = self.store.configs.tasks.get(name, [])
        return [{"id": {"connector": name, "task": number}, "config": config} for number, config in enumerate(configs)]

    def status_of(self, name: str) -> dict[str, Any]:
        statuses = self.store.statuses
        found = statuses.connectors.get(name)
        if found is None or name not in self.store.configs.connectors:
            raise errors.not_found(f"No status found for connector {name}")
        tasks = sorted(statuses.tasks.get(name, {}).items())
        return {
            "name": name,
            "connector": told(found),
            "tasks": [{"id": number, **told(each)} for number, each in tasks],
            "type": self.kind(name),
        }

    def task_status(self, name: str, task: int) -> dict[str, Any]:
        found = self.store.statuses.tasks.get(name, {}).get(task)
        if found is None:
            raise errors.not_found(f"No status found for task {name}-{task}")
        return {"id": task, **told(found)}

    def topics_of(self, name: str) -> dict[str, Any]:
        self._check_tracking("topic.tracking.enable", "Topic tracking is disabled.")
        return {name: {"topics": sorted(self.store.statuses.topics.get(name, ()))}}

    def reset_topics(self, name: str) -> None:
        self._check_tracking("topic.tracking.enable", "Topic tracking is disabled.")
        self._check_tracking("topic.tracking.allow.reset", "Topic tracking reset is disabled.")
        topics = sorted(self.store.statuses.topics.get(name, ()))
        self.store.write_statuses([records.topic_record(topic, name, 0, None) for topic in topics])

    def _check_tracking(self, setting: str, problem: str) -> None:
        if not self._settings.flag(setting):
            raise ApiError(403, problem)

    # -- changing ----------------------------------------------------------------------------------------------------

    def put(
        self, name: str, config: Mapping[str, str | None], *, replace: bool, initial: str | None = None
    ) -> tuple[bool, dict[str, Any]]:
        """Whether it is new, and what it is now."""
        whole = {key: value for key, value in config.items() if value is not None}
        self._check_leads()
        self._check(whole)
        with self._writing:
            self._check_leads()
            created = name not in self.store.configs.connectors
            if not created and not replace:
                raise errors.exists(name)
            target = [] if initial is None else [records.target_record(name, STATES[initial])]
            self.store.write_configs([*target, records.connector_record(name, whole)])
        self._await_tasks(name)
        return created, self.info(name)

    def _check(self, config: Mapping[str, str]) -> None:
        try:
            whole = checked(self._settings.looked_up(config))
        except ConfigRefused as refused:
            raise errors.invalid(refused.problems) from None
        except ProviderError as problem:
            raise errors.invalid([str(problem)]) from None
        self._check_policy(config)
        for told in unknown(config, whole):
            log.warning("connector %s: %s", config.get("name", ""), told)

    def described(self, config: Mapping[str, str | None], name: str) -> dict[str, Any]:
        """What `validate` answers."""
        given = {key: value for key, value in config.items() if value is not None}
        return described({**config, **self._settings.looked_up(given)}, name)

    def _check_policy(self, config: Mapping[str, str]) -> None:
        policy = self._settings.text("connector.client.config.override.policy")
        allowed = {
            "Principal": PRINCIPAL,
            "Allowlist": self._settings.list("connector.client.config.override.allowlist"),
        }
        problems = [
            f"The '{policy}' policy does not allow '{key[len(prefix) :]}' to be overridden in the connector "
            "configuration."
            for key in config
            for prefix in OVERRIDES
            if key.startswith(prefix) and policy != "All" and key[len(prefix) :] not in allowed.get(policy, ())
        ]
        if problems:
            raise errors.invalid(problems)

    def _await_tasks(self, name: str) -> None:
        """A standalone worker answers when it has seen to it."""
        if self._settings.distributed:
            return
        with self.store.changed:
            self.store.changed.wait_for(lambda: self._is_settled(name), START_SECONDS)

    def _is_settled(self, name: str) -> bool:
        found = self.store.statuses.connectors.get(name)
        return found is not None and (name in self.store.configs.tasks or found.state == FAILED)

    def patch(self, name: str, patch: Mapping[str, str | None]) -> dict[str, Any]:
        self._check_leads()
        merged: dict[str, str | None] = {**self.config(name), **patch}
        return self.put(name, merged, replace=True)[1]

    def delete(self, name: str) -> None:
        self._check_leads()
        with self._writing:
            self.config(name)
            self.store.write_configs([records.connector_record(name, None), records.target_record(name, None)])
        self._runner.await_idle(name, START_SECONDS)
        self._forget_states(name)  # here too: who runs it may be gone

    def target(self, name: str, state: str) -> None:
        if state == STOPPED:
            self._check_leads()
        if name not in self.store.configs.connectors:
            raise errors.not_found(f"Unknown connector {name}")
        self._check_leads()
        with self._writing:
            stopped = [records.Record(f"{records.COMMIT}{name}", {"tasks": 0})] if state == STOPPED else []
            self.store.write_configs([*stopped, records.target_record(name, state)])

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any] | None:
        """The states that there will be, if tasks are restarted too."""
        if name not in self.store.configs.connectors:
            asked = include_tasks or only_failed
            raise errors.not_found(f"Unknown connector: {name}" if asked else f"Connector {name} not found")
        self._check_leads()
        shown = None
        if include_tasks or only_failed:
            shown = self.status_of(name)
            chosen = [shown["connector"], *(shown["tasks"] if include_tasks else ())]
            for each in chosen:
                if each["state"] == FAILED or not only_failed:
                    each["state"] = RESTARTING
                    each.pop("trace", None)
        self.store.write_configs([records.restart_record(name, include_tasks=include_tasks, only_failed=only_failed)])
        return shown

    def restart_task(self, name: str, task: int) -> None:
        if name not in self.store.configs.connectors:
            raise errors.not_found(
                f"Unknown connector: {name}" if self._settings.distributed else f"Connector {name} not found"
            )
        if task >= len(self.store.configs.tasks.get(name, ())):
            unknown = f"{name}-{task}"
            raise errors.not_found(
                f"Unknown task: {unknown}" if self._settings.distributed else f"Task {unknown} not found"
            )
        if not self._is_mine(name):
            raise errors.NotLeader
        self._runner.restart(Again(name, task))

    def set_logger(self, name: str, level: str) -> None:
        """On every worker that runs now."""
        self._check_leads()
        self.store.write_configs([records.logger_record(name, level)])

    # -- offsets -----------------------------------------------------------------------------------------------------

    def job(self, name: str) -> Job:
        return make_job(self._settings.looked_up(self.config(name)), self._settings.defaults)

    def stopped_job(self, name: str) -> Job:
        """For changing offsets: nothing may run."""
        self._check_leads()
        config = self.config(name)
        if self.store.configs.target(name) != STOPPED:
            raise errors.bad_request(errors.STOP_FIRST.format(name=name))
        found = self.store.statuses.connectors.get(name)
        if not self._runner.await_idle(name, START_SECONDS) or found is None or found.state != STOPPED:
            raise errors.bad_request(errors.STOP_FIRST.format(name=name))
        return make_job(self._settings.looked_up(config), self._settings.defaults)


def told(status: Status) -> dict[str, Any]:
    found: dict[str, Any] = {"state": status.state, "worker_id": status.worker}
    if status.trace:
        found["trace"] = status.trace
    return found
