"""The JDBC connectors without a worker, on SQLite: ranges of rows, types, repetitions."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from moldau.connect.connectors.databases import Misfit, decimal_type, engine_of, exact
from moldau.connect.connectors.jdbc_sink import JdbcSink
from moldau.connect.connectors.jdbc_source import JdbcSource
from moldau.connect.connectors.jdbc_urls import sqlalchemy_url
from moldau.connect.interface import Position, RecordRefused, SinkRecord, StreamsChanged
from moldau.types.ids import TopicPartition
from tests.support.connect_settings import problems_of


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"jdbc:sqlite:{tmp_path}/test.db"


def run(url: str, *statements: str) -> list[Any]:
    engine = engine_of({"connection.url": url, "connection.user": None, "connection.password": None})
    found: list[Any] = []
    with engine.begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
            found = [tuple(row) for row in result] if result.returns_rows else []
    engine.dispose()
    return found


class Reader:
    def __init__(self, url: str, **config: str) -> None:
        given = {"connection.url": url, "table.whitelist": "t", "mode": "incrementing"}
        given |= {name.replace("_", "."): value for name, value in config.items()}
        self.source = JdbcSource(JdbcSource.CONFIG.checked(given))
        (self.stream,) = self.source.streams()
        self.position: Position | None = None
        self.batches = 0

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while (end := self.source.latest(self.stream, self.position)) != self.position:
            assert end is not None
            for batch in self.source.read(self.stream, self.position, end):
                found += batch.column("value").to_pylist()
            self.position, self.batches = end, self.batches + 1
        return found


def test_each_row_comes_once_in_batches_of_a_bounded_size(url: str) -> None:
    run(url, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    run(url, *(f"INSERT INTO t VALUES ({number}, 'n{number}')" for number in range(1, 11)))
    reader = Reader(url, batch_max_rows="4")
    assert [row["id"] for row in reader.rows()] == list(range(1, 11))
    assert reader.batches == 3
    assert reader.rows() == []
    run(url, "INSERT INTO t VALUES (20, NULL)")
    assert reader.rows() == [{"id": 20, "name": None}]
    assert reader.position == {"incrementing": 20}


def test_changes_are_seen_by_their_time_and_rows_of_one_time_by_their_id(url: str) -> None:
    run(url, "CREATE TABLE t (id INTEGER PRIMARY KEY, at DATETIME)")
    times = ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "2024-01-01 00:00:00.500", "2024-01-01 00:00:01"]
    run(url, *(f"INSERT INTO t VALUES ({number}, '{at}')" for number, at in enumerate(times, 1)))
    reader = Reader(url, mode="timestamp+incrementing", timestamp_column_name="at", batch_max_rows="1")
    assert [row["id"] for row in reader.rows()] == [1, 2, 3, 4]
    run(url, "UPDATE t SET at = '2024-01-01 00:00:02' WHERE id = 2")
    assert [row["id"] for row in reader.rows()] == [2]
    run(url, "INSERT INTO t VALUES (9, NULL)", "INSERT INTO t VALUES (8, '2999-01-01 00:00:00')")
    assert reader.rows() == [], "without a time, and of the future"
    first = Reader(url, mode="timestamp", timestamp_column_name="at", timestamp_initial="1704067201000")
    assert [row["id"] for row in first.rows()] == [2]


def test_the_types_of_a_table(url: str) -> None:
    run(
        url,
        "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, a REAL, b DECIMAL(10,2), c BOOLEAN, d DATE, e BLOB, "
        "f CHAR(5))",
        "INSERT INTO t VALUES (1, 1.5, 2.25, 1, '2024-02-29', x'00ff', 'abc')",
    )
    reader = Reader(url)
    expected = (
        "`id`: bigint NOT NULL, `a`: double, `b`: decimal(10,2), `c`: boolean, `d`: date, `e`: binary, `f`: string"
    )
    assert reader.stream.value == f"struct<{expected}>"
    (row,) = reader.rows()
    assert (str(row["b"]), row["c"], str(row["d"]), row["e"]) == ("2.25", True, "2024-02-29", b"\x00\xff")
    assert [decimal_type(9, 0, "best_fit"), decimal_type(12, 0, "precision_only"), decimal_type(20, 3, "none")] == [
        "int", "bigint", "decimal(20,3)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"table_whitelist": "nowhere"}, "there is no table nowhere; there are t"),
        ({"mode": "timestamp", "timestamp_column_name": "at"}, "t has no column at; it has a, b"),
        ({}, "t has no single primary key: set incrementing.column.name"),
    ],
)
def test_what_does_not_fit_the_database_is_told(url: str, config: dict[str, str], problem: str) -> None:
    run(url, "CREATE TABLE t (a TEXT, b TEXT)")
    with pytest.raises(ValueError, match=problem):
        Reader(url, **config)


def test_a_query_is_read_as_a_table_is(url: str) -> None:
    run(
        url,
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(10))",
        "CREATE TABLE orders (person INTEGER, amount DECIMAL(10,2))",
        "INSERT INTO people VALUES (1, 'Ada'), (2, 'Bob')",
        "INSERT INTO orders VALUES (1, 5), (2, 7)",
    )
    query = (
        "SELECT p.id, p.name, o.amount, o.amount * 2.5 AS more, 'a:b %' AS sign, NULL AS missing "
        "FROM people p JOIN orders o ON o.person = p.id ORDER BY p.name DESC"
    )
    config = {"table_whitelist": "", "query": query, "topic_prefix": "orders", "incrementing_column_name": "id"}
    reader = Reader(url, **config, batch_max_rows="1")
    assert (reader.stream.partition, reader.stream.topic) == ({"query": "query"}, "orders")
    assert reader.stream.value == (
        "struct<`id`: bigint, `name`: string, `amount`: decimal(10,2), `more`: double, `sign`: string, "
        "`missing`: string>"
    )
    first, second = reader.rows()
    assert {**first, "amount": str(first["amount"])} == {
        "id": 1, "name": "Ada", "amount": "5.00", "more": 12.5, "sign": "a:b %", "missing": None,
    }  # fmt: skip
    assert (second["id"], reader.batches) == (2, 2)
    run(url, "INSERT INTO people VALUES (3, 'Cy')", "INSERT INTO orders VALUES (3, 1)")
    assert [row["id"] for row in reader.rows()] == [3]
    whole = Reader(url, table_whitelist="", query="SELECT count(*) AS n FROM people", mode="bulk", topic_prefix="n")
    (batch,) = whole.source.read(whole.stream, None, {"round": 1})
    assert batch.column("value").to_pylist() == [{"n": 3}]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"table_whitelist": "", "incrementing_column_name": "nr"}, "query has no column nr; it has id, name"),
        ({"table_whitelist": ""}, "query has no single primary key: set incrementing.column.name"),
    ],
)
def test_a_query_that_does_not_fit_is_told(url: str, config: dict[str, str], problem: str) -> None:
    run(url, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    with pytest.raises(ValueError, match=problem):
        Reader(url, query="SELECT id, name FROM t", topic_prefix="q", **config)


def test_columns_of_a_query_have_different_names(url: str) -> None:
    run(url, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    with pytest.raises(OperationalError, match="nowhere"):
        Reader(url, table_whitelist="", query="SELECT * FROM nowhere", topic_prefix="q", mode="bulk")


def test_new_tables_and_columns_are_noticed(url: str) -> None:
    now = 0.0
    run(url, "CREATE TABLE a (id INTEGER PRIMARY KEY)")
    config = JdbcSource.CONFIG.checked({"connection.url": url, "mode": "bulk", "table.poll.interval.ms": "5000"})
    source = JdbcSource(config, lambda: now)
    for change in ("CREATE TABLE b (id INTEGER PRIMARY KEY)", "ALTER TABLE a ADD COLUMN name TEXT", "DROP TABLE b"):
        known = [(stream, None) for stream in source.streams()]
        run(url, change)
        source.committed(known)
        now += 5
        with pytest.raises(StreamsChanged):
            source.committed(known)
    now += 5
    source.committed([(stream, None) for stream in source.streams()])


def test_urls_of_jdbc() -> None:
    assert sqlalchemy_url("jdbc:sqlite:/tmp/a.db") == "sqlite:////tmp/a.db"
    assert sqlalchemy_url("jdbc:postgresql://h:5/d?user=u&password=p") == "postgresql+psycopg://u:p@h:5/d"
    assert sqlalchemy_url("mysql+pymysql://h/d") == "mysql+pymysql://h/d"


def asked(url: str) -> Any:
    """What the driver is told."""
    found = create_engine(sqlalchemy_url(url)).dialect.create_connect_args(make_url(sqlalchemy_url(url)))[1]
    return {name: value for name, value in found.items() if name != "context"}


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("//h:5/d?user=u&password=p%40x", {"host": "h", "port": 5, "dbname": "d", "user": "u", "password": "p@x"}),
        ("//u%3A:p%2F@h/d", {"host": "h", "dbname": "d", "user": "u:", "password": "p/"}),
        ("//h/d?user=u&password=a+b", {"host": "h", "dbname": "d", "user": "u", "password": "a b"}),
        ("//h/d?ssl=true", {"host": "h", "dbname": "d", "sslmode": "verify-full"}),
        ("//h/d?ssl=false", {"host": "h", "dbname": "d"}),
        ("//h/d?ssl", {"host": "h", "dbname": "d", "sslmode": "verify-full"}),
        ("//h/d?ssl=true&sslmode=require", {"host": "h", "dbname": "d", "sslmode": "require"}),
        (
            "//h/d?ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory",
            {"host": "h", "dbname": "d", "sslmode": "require"},
        ),
        (
            "//h/d?sslrootcert=/a%20b.crt&connectTimeout=5&ApplicationName=me",
            {"host": "h", "dbname": "d", "sslrootcert": "/a b.crt", "connect_timeout": "5", "application_name": "me"},
        ),
        (
            "//h/d?currentSchema=my%20own,public&options=-c%20statement_timeout=9&readOnly=true",
            {
                "host": "h", "dbname": "d",
                "options": "-c search_path=my\\ own,public -c statement_timeout=9 -c default_transaction_read_only=on",
            },
        ),
        (
            "//a:1,b:2/d?targetServerType=primary&tcpKeepAlive=true&rewriteBatchedInserts=true",
            {"host": "a,b", "port": "1,2", "dbname": "d", "target_session_attrs": "primary", "keepalives": "1"},
        ),
        ("d?user=u", {"dbname": "d", "user": "u"}),
    ],
)  # fmt: skip
def test_what_a_url_asks_for_is_done(url: str, told: dict[str, str]) -> None:
    assert asked(f"jdbc:postgresql:{url}") == told


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://h/d?stringtype=unspecified", "stringtype"),
        ("postgresql://h/d?ssl=true&sslfactory=com.example.Mine", "sslfactory=com.example.Mine"),
        ("postgresql://h/d?targetServerType=nearest", "targetServerType"),
        ("postgresql://h/d?curentSchema=s", "curentSchema"),
        ("mysql://h/d?useSSL=true", "useSSL=true"),
        ("mysql://h/d?sslMode=VERIFY_CA", "sslMode=VERIFY_CA"),
        ("mysql://h/d?serverTimezone=Europe/Prague", "serverTimezone=Europe/Prague"),
        ("sqlite:a.db?cache=shared", "cache"),
        ("sqlserver://h;databaseName=d", "jdbc:sqlserver: is not understood"),
        ("oracle:thin:@h:1521:d", "jdbc:oracle: is not understood"),
    ],
)
def test_what_a_url_asks_for_in_vain_is_told_before_anything_runs(url: str, name: str) -> None:
    found = problems_of(JdbcSource, {"connection.url": f"jdbc:{url}", "mode": "bulk"})
    assert found.startswith("connection.url: ")
    assert name in found


def test_the_parameters_of_mysql() -> None:
    url = "jdbc:mysql://u:p@h:3/d?connectTimeout=1500&socketTimeout=10000&useSSL=false&serverTimezone=UTC"
    timeouts = "connect_timeout=2&read_timeout=10&write_timeout=10"
    assert sqlalchemy_url(url) == f"mysql+pymysql://u:p@h:3/d?{timeouts}"


def test_only_utc_is_followed() -> None:
    given = {"connection.url": "jdbc:sqlite:a.db", "mode": "bulk"}
    assert problems_of(JdbcSource, {**given, "db.timezone": "Etc/UTC"}) == ""
    told = "Invalid value Europe/Prague for configuration db.timezone: only UTC is followed here"
    assert problems_of(JdbcSource, {**given, "db.timezone": "Europe/Prague"}).startswith(told)


# -- decimals --------------------------------------------------------------------------------------------------------


def mixed(reader: Reader) -> list[Any]:
    """What a read gives where some records cannot be made."""
    end = reader.source.latest(reader.stream, reader.position)
    assert end is not None
    found: list[Any] = []
    for each in reader.source.read(reader.stream, reader.position, end):
        found += each.column("value").to_pylist() if hasattr(each, "column") else [each]
    return found


@pytest.mark.parametrize("value", ["0.12345678901", "123456789012345678901234567890.5", "0.3000000000000004"])
def test_a_decimal_is_exact_or_refused(url: str, value: str) -> None:
    run(
        url,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n NUMERIC, more NUMERIC(10,2))",
        f"INSERT INTO t VALUES (1, 1.5, 2.25), (2, CAST('{value}' AS TEXT) || '', 0.1), (3, 7, NULL)",
    )
    one, refused, three = mixed(Reader(url))
    assert (one["n"], one["more"], three["n"]) == (Decimal("1.5"), Decimal("2.25"), 7)
    assert isinstance(refused, RecordRefused)
    assert str(refused).startswith("the column n: ")
    assert "does not fit decimal(38,9): set numeric.mapping=best_fit" in str(refused)
    assert refused.raw is not None and json.loads(refused.raw.value or b"")["id"] == 2
    (_, two, _) = Reader(url, numeric_mapping="best_fit").rows()
    assert two["n"] == float(value)


def test_digits_that_a_column_does_not_have_are_no_reason_to_round(url: str) -> None:
    run(url, "CREATE TABLE t (id INTEGER PRIMARY KEY, n NUMERIC(10,2))", "INSERT INTO t VALUES (1, 0.125)")
    (refused,) = mixed(Reader(url))
    assert "the column n: 0.125 does not fit decimal(10,2)" in str(refused)


def test_large_decimals_keep_all_their_digits() -> None:
    digits = "12345678901234567890123456789.123456789"
    assert str(exact(Decimal(digits), 38, 9)) == digits
    assert str(exact(7, 38, 9)) == "7.000000000"
    for wrong in ("NaN", "Infinity", "1e40", "0.0000000001"):
        with pytest.raises(Misfit, match=r"does not fit decimal\(38,9\)"):
            exact(Decimal(wrong), 38, 9)


def test_what_becomes_of_decimals(url: str) -> None:
    def of(precision: int | None, scale: int | None) -> list[str]:
        mappings = ("none", "precision_only", "best_fit", "best_fit_eager_double")
        return [decimal_type(precision, scale, mapping) for mapping in mappings]

    assert of(None, None) == ["decimal(38,9)", "decimal(38,9)", "double", "double"]
    assert of(9, 0) == ["decimal(9,0)", "int", "int", "int"]
    assert of(18, 0) == ["decimal(18,0)", "bigint", "bigint", "bigint"]
    assert of(19, 0) == ["decimal(19,0)"] * 4
    assert of(10, 2) == ["decimal(10,2)", "decimal(10,2)", "double", "double"]
    assert of(20, 3) == ["decimal(20,3)", "decimal(20,3)", "decimal(20,3)", "double"]
    assert of(3, -2) == ["decimal(5,0)", "int", "int", "int"]
    run(
        url,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a NUMERIC(30,5), b NUMERIC(5,0))",
        "INSERT INTO t VALUES (1, 1.5, 7)",
    )
    assert Reader(url, numeric_mapping="best_fit_eager_double").rows() == [{"id": 1, "a": 1.5, "b": 7}]


# -- which tables ----------------------------------------------------------------------------------------------------


def tables(url: str, **config: str) -> list[str]:
    given = {"connection.url": url, "mode": "bulk", **{name.replace("_", "."): each for name, each in config.items()}}
    source = JdbcSource(JdbcSource.CONFIG.checked(given))
    found = [stream.partition["table"] for stream in source.streams()]
    source.close()
    return found


def test_tables_are_chosen_by_names_and_patterns(url: str) -> None:
    names = ("orders", "orders_old", "people", "people_2")
    run(url, *(f"CREATE TABLE {name} (id INTEGER)" for name in names), "CREATE VIEW shown AS SELECT * FROM people")
    assert tables(url) == list(names), "views are read when they are named"
    assert tables(url, table_whitelist="people,shown") == ["people", "shown"]
    assert tables(url, table_blacklist="people,orders") == ["orders_old", "people_2"]
    assert tables(url, table_include_list="orders.*,.*_2") == ["orders", "orders_old", "people_2"]
    assert tables(url, table_include_list="orders.*", table_exclude_list=".*_old") == ["orders"]
    with pytest.raises(ValueError, match="no table was found"):
        tables(url, table_include_list="order")
    with pytest.raises(ValueError, match="there is no table nobody; there are orders"):
        tables(url, table_whitelist="nobody")


def test_a_schema_is_chosen_by_its_name(url: str) -> None:
    run(url, "CREATE TABLE t (id INTEGER)")
    assert tables(url, schema_pattern="main") == ["t"]
    with pytest.raises(ValueError, match="no table was found"):
        tables(url, schema_pattern="temp")


# -- the sink --------------------------------------------------------------------------------------------------------


def write(url: str, records: Sequence[SinkRecord], refused: list[str] | None = None, **config: str) -> None:
    """`refused` collects, as a tolerant worker does."""
    given = {"connection.url": url, "auto.create": "true", "auto.evolve": "true", "table.name.format": "t"}
    given |= {name.replace("_", "."): value for name, value in config.items()}
    sink = JdbcSink({"name": "out", **JdbcSink.CONFIG.checked(given)})
    if refused is not None:
        sink.refuse = lambda _, problem: refused.append(str(problem))  # type: ignore[method-assign]
    try:
        sink.write(iter(records))
    finally:
        sink.close()


def record(offset: int, value: Any, key: Any = None, partition: int = 0) -> SinkRecord:
    return SinkRecord("topic", partition, offset, None, key, value)


def test_records_that_come_again_are_left_out_even_without_a_key(url: str) -> None:
    rows = [record(offset, {"n": offset}) for offset in range(5)]
    write(url, rows[:3], batch_size="2")
    write(url, rows, batch_size="2")
    write(url, [record(0, {"n": 100}, partition=1)])
    assert run(url, "SELECT n FROM t") == [(0,), (1,), (2,), (3,), (4,), (100,)]
    offsets = "SELECT connector, topic, part, next_offset FROM moldau_connect_offsets ORDER BY part"
    assert run(url, offsets) == [("out", "topic", 0, 5), ("out", "topic", 1, 1)]


def test_records_of_a_topic_that_was_made_anew_are_no_repetitions(url: str) -> None:
    write(url, [record(offset, {"n": offset}) for offset in range(3)])
    for _ in range(2):
        write(url, [record(0, {"n": 100})._replace(generation=1)])
    write(url, [record(offset, {"n": offset}) for offset in range(3)])
    assert run(url, "SELECT n FROM t ORDER BY n") == [(0,), (1,), (2,), (100,)]


def test_a_batch_that_fails_leaves_nothing(url: str) -> None:
    run(url, "CREATE TABLE t (n INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (2)")
    with pytest.raises(RecordRefused, match="topic-0 at offset 1: IntegrityError: UNIQUE constraint failed"):
        write(url, [record(0, {"n": 1}), record(1, {"n": 2})])
    assert run(url, "SELECT n FROM t") == [(2,)]
    write(url, [record(0, {"n": 1}), record(1, {"n": 3})])
    assert run(url, "SELECT n FROM t ORDER BY n") == [(1,), (2,), (3,)]


def test_rows_are_changed_and_deleted_by_key(url: str) -> None:
    config = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}
    write(
        url,
        [record(0, {"v": 1}, "a"), record(1, {"v": 2}, "b"), record(2, {"v": 3}, "a"), record(3, None, "b")],
        **config,
    )
    assert run(url, "SELECT id, v FROM t") == [("a", 3)]
    write(url, [record(4, {"v": 4, "more": "x"}, "a"), record(5, {"v": 5}, "c")], **config)
    assert run(url, "SELECT id, v, more FROM t ORDER BY id") == [("a", 4, "x"), ("c", 5, None)]
    write(url, [record(6, {"v": 7}, "c"), record(7, {"v": 8}, "z")], **{**config, "insert_mode": "update"})
    assert run(url, "SELECT id, v FROM t ORDER BY id") == [("a", 4), ("c", 7)]


def test_records_that_fit_no_row_are_refused(url: str) -> None:
    with pytest.raises(RecordRefused, match="topic-0 at offset 0: the value is no struct"):
        write(url, [record(0, "text")])
    with pytest.raises(RecordRefused, match=r"is a tombstone, and delete\.enabled is false"):
        write(url, [record(0, None)])
    with pytest.raises(RecordRefused, match="the primary key's field id is missing or null"):
        write(url, [record(0, {"v": 1})], pk_mode="record_value", pk_fields="id")


def test_missing_tables_and_columns_are_told(url: str) -> None:
    with pytest.raises(ValueError, match=r"table t is missing, and auto\.create is false"):
        write(url, [record(0, {"n": 1})], auto_create="false")
    run(url, "CREATE TABLE t (n INTEGER)")
    with pytest.raises(ValueError, match=r"table t has no column m, and auto.evolve is false; it has n"):
        write(url, [record(0, {"m": 1})], auto_evolve="false")


def test_a_server_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.connect.connectors.databases.CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = engine_of(
            {
                "connection.url": f"jdbc:postgresql://127.0.0.1:{silent.getsockname()[1]}/db",
                "connection.user": "me",
                "connection.password": None,
            }
        )
        with pytest.raises(OperationalError, match="timeout expired"):
            engine.connect()


def test_offsets_that_were_set_count(url: str) -> None:
    write(url, [record(0, {"n": 0}), record(1, {"n": 1})])
    sink = JdbcSink({"name": "out", **JdbcSink.CONFIG.checked({"connection.url": url})})
    sink.alter({TopicPartition("topic", 0): 1})
    write(url, [record(0, {"n": 0}), record(1, {"n": 1})])
    assert run(url, "SELECT n FROM t") == [(0,), (1,), (1,)]


@pytest.mark.parametrize("keys", [{}, {"pk_mode": "kafka", "insert_mode": "upsert"}])
def test_partitions_of_topics_that_a_transform_merged_are_counted_apart(url: str, keys: dict[str, str]) -> None:
    rows = [
        SinkRecord("all", 0, offset, None, None, {"n": f"{topic}{offset}"}, source_topic=topic)
        for topic, offset in [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    ]
    write(url, rows, **keys)
    write(url, rows, **keys)
    assert run(url, "SELECT n FROM t ORDER BY n") == [("a0",), ("a1",), ("b0",), ("b1",)]
    assert run(url, "SELECT topic, next_offset FROM moldau_connect_offsets ORDER BY topic") == [("a", 2), ("b", 2)]


def test_records_that_the_database_refuses_are_found_and_the_others_written(url: str) -> None:
    run(url, "CREATE TABLE t (n INTEGER PRIMARY KEY CHECK (n < 90), s TEXT NOT NULL)")
    rows = [record(offset, {"n": offset, "s": f"s{offset}"}) for offset in range(100)]
    rows[3] = record(3, {"n": 2, "s": "twice"})
    rows[7] = record(7, {"n": 7, "s": None})
    rows[8] = record(8, {"n": 2**70, "s": "long"})
    refused: list[str] = []
    write(url, rows, refused, batch_size="40")
    assert [each.partition(": ")[0] for each in refused] == [
        f"topic-0 at offset {offset}" for offset in [3, 7, 8, *range(90, 100)]
    ]
    assert "UNIQUE constraint failed" in refused[0]
    assert "NOT NULL constraint failed" in refused[1]
    assert "OverflowError" in refused[2]
    assert "CHECK constraint failed" in refused[3]
    assert [n for (n,) in run(url, "SELECT n FROM t ORDER BY n")] == [n for n in range(90) if n not in (3, 7, 8)]
    assert run(url, "SELECT next_offset FROM moldau_connect_offsets") == [(100,)]


def test_a_database_that_is_locked_refuses_no_record(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.connect.connectors.databases.TIMEOUT_SECONDS", 0)
    write(url, [record(0, {"n": 0})])
    refused: list[str] = []
    with closing(sqlite3.connect(url.removeprefix("jdbc:sqlite:"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="database is locked"):
            write(url, [record(1, {"n": 1})], refused)
    assert (refused, run(url, "SELECT n FROM t")) == ([], [(0,)])


@pytest.mark.parametrize("pages", [4, 8])
def test_a_database_without_room_is_told_as_such(url: str, pages: int) -> None:
    """SQLite rolls the whole transaction back then, and with it the savepoint that the row stands behind."""
    refused: list[str] = []

    def bound(connection: sqlite3.Connection, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    event.listen(Engine, "connect", bound)
    try:
        with pytest.raises(OperationalError, match="database or disk is full"):
            write(url, [record(offset, {"n": "x" * 3000}) for offset in range(20)], refused)
    finally:
        event.remove(Engine, "connect", bound)
    assert refused == []
    write(url, [record(offset, {"n": "x" * 3000}) for offset in range(20)])
    assert run(url, "SELECT count(*) FROM t") == [(20,)]


def test_only_fields_of_the_whitelist_are_written(url: str) -> None:
    config = {"fields_whitelist": "a,nowhere", "pk_mode": "record_value", "pk_fields": "id"}
    write(url, [record(0, {"id": 1, "a": 2, "b": 3}), record(1, {"id": 2, "b": 4})], **config)
    assert run(url, "SELECT id, a FROM t ORDER BY id") == [(1, 2), (2, None)], "those of the key are written too"
    with pytest.raises(OperationalError, match="no such column: b"):
        run(url, "SELECT b FROM t")
