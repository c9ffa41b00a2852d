"""PostgreSQL's changes through a worker: what arrives in topics, transforms included."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.connect import JSON, SECONDS, ThreadWorker, records
from tests.support.postgres import Database, Postgres
from tests.support.waiting import wait_until

NUMBERS = itertools.count()
CONNECTOR = "io.debezium.connector.postgresql.PostgresConnector"
BOOK = "CREATE TABLE book (id INT PRIMARY KEY, title TEXT)"
Found = list[tuple[Any, Any]]


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    with postgres.database(f"changes_{next(NUMBERS)}") as made:
        yield made


@pytest.fixture
def prefix(topic: str) -> str:
    return topic[:80]


def create(worker: ThreadWorker, database: Database, prefix: str, **more: str) -> None:
    config = {
        **database.config(),
        "connector.class": CONNECTOR,
        "topic.prefix": prefix,
        "key.converter": JSON,
        "value.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    status, found = worker.ask("POST", "/connectors", {"name": prefix, "config": config})
    assert status == 201, found


def read(address: str, topic: str, count: int) -> Found:
    found = records(address, topic, lambda known: len(known) >= count)
    return [tuple(None if part is None else json.loads(part) for part in each) for each in found]


def short(found: Found) -> list[Any]:
    return [None if value is None else (value["op"], value["after"]) for _, value in found]


def test_rows_changes_new_columns_and_new_tables(
    worker: ThreadWorker, address: str, database: Database, prefix: str
) -> None:
    database.run(BOOK, "INSERT INTO book VALUES (1, 'Amerika')")
    create(worker, database, prefix, **{"heartbeat.interval.ms": "200"})
    out = f"{prefix}.public.book"
    read(address, out, 1)
    database.run("INSERT INTO book VALUES (2, 'The Trial')", "DELETE FROM book WHERE id = 1")
    expected: list[Any] = [
        ("r", {"id": 1, "title": "Amerika"}), ("c", {"id": 2, "title": "The Trial"}), ("d", None), None,
    ]  # fmt: skip
    found = read(address, out, 4)
    assert short(found) == expected
    assert [key for key, _ in found] == [{"id": 1}, {"id": 2}, {"id": 1}, {"id": 1}]
    assert found[1][1]["source"]["name"] == prefix
    database.run("ALTER TABLE book ADD COLUMN pages INT", "UPDATE book SET pages = 250")
    expected.append(("u", {"id": 2, "title": "The Trial", "pages": 250}))
    assert short(read(address, out, 5)) == expected
    database.run("CREATE TABLE shelf (id INT PRIMARY KEY)", "INSERT INTO shelf VALUES (7)")
    assert [value["after"] for _, value in read(address, f"{prefix}.public.shelf", 1)] == [{"id": 7}]
    assert worker.ask("POST", f"/connectors/{prefix}/restart?includeTasks=true")[0] == 202
    database.run("INSERT INTO book VALUES (3, 'Letters', 400)")
    expected.append(("c", {"id": 3, "title": "Letters", "pages": 400}))
    assert short(read(address, out, 6)) == expected
    (key, beat), *_ = read(address, f"__debezium-heartbeat.{prefix}", 1)
    assert key == {"serverName": prefix}
    assert beat["ts_ms"] > 0
    worker.delete(prefix)


def test_a_heartbeat_runs_its_query_and_a_slot_that_lags_is_told(
    worker: ThreadWorker, address: str, database: Database, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    database.run(BOOK, "CREATE TABLE beats (id SERIAL PRIMARY KEY)")
    create(
        worker,
        database,
        prefix,
        **{
            "table.include.list": "public.book",
            "heartbeat.interval.ms": "100",
            "heartbeat.action.query": "INSERT INTO beats DEFAULT VALUES",
            "slot.lag.warn.bytes": "1",
        },
    )
    wait_until(lambda: database.run("SELECT count(*) FROM beats")[0][0] > 1, "it is run with each", SECONDS)
    wait_until(lambda: f"slot {database.config()['slot.name']} holds" in caplog.text, "the lag is told", SECONDS)
    assert read(address, f"__debezium-heartbeat.{prefix}", 2)
    worker.delete(prefix)


def test_the_slot_moves_on_and_a_lost_one_is_said(
    worker: ThreadWorker, address: str, database: Database, prefix: str
) -> None:
    database.run(BOOK)
    create(worker, database, prefix)
    worker.wait_for_states(prefix, "RUNNING", "RUNNING")
    place = lambda: database.run("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")[0][0]  # noqa: E731
    wait_until(lambda: database.run("SELECT count(*) FROM pg_replication_slots WHERE NOT temporary") == [(1,)], "slot",
               SECONDS)  # fmt: skip
    before = place()
    database.run("INSERT INTO book SELECT n, 'n' FROM generate_series(1, 100) AS n")
    assert len(read(address, f"{prefix}.public.book", 100)) == 100
    wait_until(lambda: place() > before, "the slot has moved on", SECONDS)
    worker.stop_connector(prefix)
    wait_until(lambda: database.run("SELECT count(active_pid) FROM pg_replication_slots") == [(0,)], "unused", SECONDS)
    database.run("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    database.run("INSERT INTO book VALUES (101, 'lost')")
    assert worker.ask("PUT", f"/connectors/{prefix}/resume")[0] == 202
    wait_until(lambda: "FAILED" in worker.states(prefix), "failed", SECONDS)
    assert "was made anew or moved on by somebody else" in worker.task_trace(prefix)
    worker.delete(prefix)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("tombstone", [({"id": 1}, "c"), ({"id": 1}, None)]),
        ("rewrite", [({"id": 1}, "c"), ({"id": 1}, "d")]),
    ],
)
def test_rows_without_envelopes(
    worker: ThreadWorker, address: str, database: Database, prefix: str, mode: str, expected: list[Any]
) -> None:
    database.run(BOOK)
    create(
        worker,
        database,
        prefix,
        transforms="unwrap",
        **{
            "snapshot.mode": "no_data",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.add.fields": "op,source.db:db",
            "transforms.unwrap.delete.tombstone.handling.mode": mode,
        },
    )
    worker.wait_for_states(prefix, "RUNNING", "RUNNING")
    database.run("INSERT INTO book VALUES (1, 'Amerika')", "DELETE FROM book")
    found = read(address, f"{prefix}.public.book", 2)
    assert [(key, value and value["__op"]) for key, value in found] == expected
    row = {"id": 1, "title": "Amerika", "__op": "c", "__db": database.name}
    assert found[0][1] == (row if mode == "tombstone" else {**row, "__deleted": "false"})
    if mode == "rewrite":
        assert found[1][1]["__deleted"] == "true"
    worker.delete(prefix)


def test_messages_of_an_outbox(worker: ThreadWorker, address: str, database: Database, prefix: str) -> None:
    database.run(
        "CREATE TABLE outbox (id UUID PRIMARY KEY, aggregatetype TEXT, aggregateid TEXT, type TEXT, payload JSONB)"
    )
    create(
        worker,
        database,
        prefix,
        transforms="outbox",
        **{
            "snapshot.mode": "no_data",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.route.topic.replacement": f"{prefix}-out-${{routedByValue}}",
            "transforms.outbox.table.fields.additional.placement": "type:header:eventType",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        },
    )
    worker.wait_for_states(prefix, "RUNNING", "RUNNING")
    database.run(
        "INSERT INTO outbox VALUES ('0b684a06-9b59-4557-8694-a0aa42392564', 'order', 'o-1', 'Placed', '{\"n\": 1}')",
        "DELETE FROM outbox",
        "INSERT INTO outbox VALUES ('1b684a06-9b59-4557-8694-a0aa42392564', 'order', 'o-2', 'Placed', '{\"n\": 2}')",
    )
    found = records(address, f"{prefix}-out-order", lambda known: len(known) >= 2)
    assert found == [(b"o-1", b'{"n": 1}'), (b"o-2", b'{"n": 2}')]
    worker.delete(prefix)


def test_what_cannot_be_captured_is_refused(worker: ThreadWorker, database: Database, prefix: str) -> None:
    database.run(BOOK)
    given = {**database.config(), "connector.class": CONNECTOR, "name": prefix, "topic.prefix": prefix}
    wrong = {"slot.name": "No", "table.include.list": "(", "snapshot.mode": "sometimes", "plugin.name": "wal2json"}
    status, found = worker.ask(
        "PUT", f"/connector-plugins/{CONNECTOR}/config/validate", {**given, **wrong, "database.user": None}
    )
    assert status == 200
    errors = {each["value"]["name"] for each in found["configs"] if each["value"]["errors"]}
    assert errors == {*wrong, "database.user"}
    create(worker, database, prefix, **{"table.include.list": "public.magazine"})
    wait_until(lambda: "FAILED" in worker.states(prefix), "failed", SECONDS)
    assert "none of the tables that are chosen" in worker.status(prefix)["connector"]["trace"]
    worker.delete(prefix)
    signals = {**given, "signal.data.collection": "public.signals"}
    status, found = worker.ask("POST", "/connectors", {"name": prefix, "config": signals})
    assert status == 400 and "not followed here" in found["message"]
