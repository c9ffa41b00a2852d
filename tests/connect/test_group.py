"""A worker's place in its group, without connectors: who may write the config topic, and what ends neither that nor the
place for good."""

from __future__ import annotations

import base64
import json
import logging
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from moldau.connect.worker import records
from moldau.connect.worker.errors import NotLeader
from moldau.connect.worker.group import Assignment
from moldau.connect.worker.group_node import GroupWorker, TopicStore
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.signing import SessionKey, signed
from moldau.connect.worker.topics import TopicUnavailable
from moldau.web.passwords import hash_password
from tests.connect.test_distributed import properties
from tests.support.broker import Broker
from tests.support.connect import DistributedWorker, Rest
from tests.support.connect import records as records_of
from tests.support.tls import make_certificates
from tests.support.waiting import wait_until

SECONDS = 120.0
URL = "http://localhost:8083"
RECORD = records.target_record("any", records.PAUSED)


@contextmanager
def group_worker(broker: Broker, name: str, seconds: float = 30.0) -> Iterator[tuple[GroupWorker, TopicStore]]:
    settings = WorkerSettings.of(properties(broker, name), distributed=True)
    store = TopicStore(settings, lambda record: None, seconds)
    worker = GroupWorker(settings, store, lambda: 1)
    worker.url = URL
    store.open()
    try:
        yield worker, store
    finally:
        if worker.membership is not None:
            worker.membership.close(SECONDS)
        store.close()


def writes(worker: GroupWorker, store: TopicStore) -> bool:
    try:
        worker.check_leads()
        store.write_configs([RECORD])
    except (NotLeader, TopicUnavailable):
        return False
    return True


def test_who_leads_goes_on_to_write_after_the_brokers_were_away(tmp_path: Path) -> None:
    alone = Assignment(URL, {URL: set()}).to_bytes()
    with Broker(tmp_path / "broker") as broker, group_worker(broker, "g", seconds=2.0) as (worker, store):  # type: ignore[arg-type]
        worker.assigned(alone, 1)
        assert writes(worker, store)
        broker.kill()
        with pytest.raises(TopicUnavailable):
            store.write_configs([RECORD])
        with pytest.raises(TopicUnavailable):
            worker.check_leads()
        worker.assigned(alone, 2)
        broker.start()
        wait_until(lambda: writes(worker, store), "the leader writes again", SECONDS)


def test_a_leader_that_was_fenced_by_one_of_the_past_takes_over_again(broker: Broker, topic: str) -> None:
    with group_worker(broker, topic[:60]) as (worker, store), group_worker(broker, topic[:60]) as (_, past):
        worker.join()
        wait_until(lambda: writes(worker, store), "it leads", SECONDS)
        past.config_table.lead()
        past.write_configs([RECORD])
        with pytest.raises(NotLeader):
            store.write_configs([RECORD])
        with pytest.raises(NotLeader):
            worker.check_leads()  # not before the group has said so again
        wait_until(lambda: writes(worker, store), "it leads again", SECONDS)
        with pytest.raises(NotLeader):
            past.write_configs([RECORD])


def test_an_assignment_that_could_not_be_made_is_made_later(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The config topic cannot be read for a while; the worker leaves what it had, and stays in the group."""
    with group_worker(broker, topic[:60]) as (worker, _):
        assign, lost, problems = worker.assign, worker.lost, [TopicUnavailable("away"), ValueError("unheard of")]
        seen: list[str] = []

        def failing(members: Mapping[str, bytes]) -> Mapping[str, bytes]:
            if problems:
                raise problems.pop()
            return assign(members)

        def told() -> None:
            seen.append("lost")
            lost()

        monkeypatch.setattr(worker, "assign", failing)
        monkeypatch.setattr(worker, "lost", told)
        worker.join()
        wait_until(lambda: worker.leader == URL, "it has joined", SECONDS)
        assert seen == ["lost", "lost"]


def test_levels_of_loggers_are_set_on_every_worker(broker: Broker, topic: str) -> None:
    """Whichever is asked. All levels lie in one process here, but each worker tells which were set through it."""
    settings = properties(broker, topic[:60])
    names = [f"{topic}.first", f"{topic}.second"]
    with DistributedWorker(settings, None) as first, DistributedWorker(settings, None) as second:  # type: ignore[arg-type]
        for worker, name in zip((first, second), names, strict=True):
            wait_until(partial(takes_level, worker, name), f"{name} is set", SECONDS)
        for worker in (first, second):
            wait_until(partial(knows_levels, worker, names), "both are set", SECONDS)
    assert [logging.getLogger(name).level for name in names] == [logging.WARNING] * 2


def takes_level(worker: Rest, name: str) -> bool:
    return worker.ask("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "warn"})[0] == 204


def knows_levels(worker: Rest, names: list[str]) -> bool:
    return set(names) <= set(worker.ask("GET", "/admin/loggers")[1])


def test_workers_tell_each_other_what_runs_where_users_log_in(broker: Broker, topic: str, tmp_path: Path) -> None:
    """SX-17, at Connect. Over TLS with certificates of their own, which each shows the other; nobody has given them a
    password."""
    made = make_certificates(tmp_path)
    both = tmp_path / "worker.pem"
    both.write_bytes(made.key.read_bytes() + made.certificate.read_bytes())
    users = tmp_path / "users"
    users.write_text(f"ada: {hash_password('x', bytes(16))},admin\n")
    settings = {
        **properties(broker, topic[:60]),
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.location": str(both),
        "ssl.truststore.location": str(made.certificate),
        "ssl.client.authentication": "REQUIRED",
        "authentication.method": "BASIC",
        "authentication.password.file": str(users),
    }
    (tmp_path / "lines").touch()
    names = [f"{topic}-{number}" for number in range(2)]
    with DistributedWorker(settings, None) as first, DistributedWorker(settings, None) as second:  # type: ignore[arg-type]
        for worker in (first, second):
            worker.tls = ssl.create_default_context(cafile=str(made.certificate))
            worker.tls.load_cert_chain(both)
            worker.headers["authorization"] = f"Basic {base64.b64encode(b'ada:x').decode()}"
        for worker, name in zip((first, second), names, strict=True):
            wait_until(partial(makes_source, worker, name, tmp_path / "lines"), f"{name} is made", SECONDS)
        for name in names:  # each worker has one, and one worker leads
            wait_until(partial(has_task, first, name), f"the task of {name} is told", SECONDS)
            wait_until(partial(is_running, first, name), f"{name} runs", SECONDS)
        owners = {first.status(name)["connector"]["worker_id"] for name in names}
        assert owners == {worker.url.removeprefix("https://") for worker in (first, second)}
        for worker in (first, second):
            for method, path in (("POST", "tasks"), ("PUT", "fence")):
                status, answer = worker.ask(method, f"/connectors/{names[0]}/{path}", [])
                assert (status, answer["message"]) == (400, "Internal request missing required signature")
        key = dict(records_of(broker.address, settings["config.storage.topic"]))[b"session-key"]
        for worker in (first, second):
            fence = f"/connectors/{names[0]}/fence"
            worker.headers |= signed(SessionKey.from_value(json.loads(key)), "HmacSHA256", b"[]")
            assert worker.ask("PUT", fence, []) == (204, None)
            assert worker.ask("PUT", "/connectors/none/fence", [])[0] == 404
            assert worker.ask("PUT", fence, {})[0] == 403


def makes_source(worker: Rest, name: str, file: Path) -> bool:
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": name}
    return worker.ask("PUT", f"/connectors/{name}/config", config)[0] in (200, 201)


def is_running(worker: Rest, name: str) -> bool:
    """Its state is told by the worker that runs it, later than its tasks."""
    return worker.status(name).get("connector", {}).get("state") == "RUNNING"


def has_task(worker: Rest, name: str) -> bool:
    status, found = worker.ask("GET", f"/connectors/{name}/tasks")
    return status == 200 and len(found) == 1
