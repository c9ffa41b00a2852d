"""PostgreSQL's changes without a worker: positions, snapshots, envelopes, with a real server."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.connectors.postgres import server as server_module
from moldau.connect.connectors.postgres.capture import SnapshotCut
from moldau.connect.connectors.postgres.server import SlotLost, SnapshotStale
from moldau.connect.connectors.postgres.source import PostgresSource
from moldau.connect.interface import Position, RecordRefused, SourceRecord, Stream, StreamsChanged
from moldau.connect.source_reading import arrow_batches, schema_of
from tests.support.postgres import Database, Postgres

NUMBERS = itertools.count()
BOOK = "CREATE TABLE book (id INT PRIMARY KEY, title TEXT)"


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    with postgres.database(f"source_{next(NUMBERS)}") as made:
        yield made


class Reader:
    """Reads as the worker does: a batch is what lies between two positions, and counts once it is committed."""

    def __init__(self, database: Database, **config: str) -> None:
        self.config = PostgresSource.CONFIG.checked(database.config(**config))
        self.positions: dict[str, Position | None] = {}
        self.found: list[SourceRecord] = []
        self.topics: list[str] = []
        self.start()

    def start(self) -> None:
        self.source = PostgresSource(self.config)
        try:
            self.streams = {stream.topic.rpartition(".")[2]: stream for stream in self.source.streams()}
        except BaseException:
            self.source.close()
            raise

    def restart(self) -> None:
        """As after a crash: what was not committed is forgotten."""
        self.source.close()
        self.start()

    def batch(self, name: str, *, commit: bool = True) -> list[SourceRecord] | None:
        """None: nothing is new."""
        stream, position = self.streams[name], self.positions.get(name)
        end = self.source.latest(stream, position)
        if end is None or end == position:
            return None
        found = self.task(stream, position, end)
        if commit:
            self.positions[name] = end
            self.found += found
        return found

    def task(self, stream: Stream, begin: Position | None, end: Position) -> list[SourceRecord]:
        """In another object, as it is in another process; a repetition gives the same."""
        given: list[list[SourceRecord]] = []
        for _ in range(2):
            other = PostgresSource(self.config)
            try:
                given.append(list(other.read(stream, begin, json.loads(json.dumps(end)))))
            finally:
                other.close()
        assert given[0] == given[1]
        return given[0]

    def records(self, name: str = "book") -> list[SourceRecord]:
        found: list[SourceRecord] = []
        while (more := self.batch(name)) is not None:
            found += more
        return found

    def confirm(self) -> None:
        other = PostgresSource(self.config)
        try:
            other.committed([(stream, self.positions.get(name)) for name, stream in self.streams.items()])
        finally:
            other.close()


@pytest.fixture
def reader(database: Database) -> Iterator[Reader]:
    database.run(BOOK)
    made = Reader(database)
    yield made
    made.source.close()


def short(records: Sequence[SourceRecord]) -> list[tuple[Any, ...]]:
    return [
        (record.key and record.key["id"], None)
        if record.value is None
        else (
            record.key and record.key["id"],
            record.value["op"],
            record.value["after"] and tuple(record.value["after"].values())[1],
        )
        for record in records
    ]


def state(records: Sequence[SourceRecord]) -> dict[int, Mapping[str, Any]]:
    """What somebody has who followed the records; each creates what was not there, or changes what was."""
    rows: dict[int, Mapping[str, Any]] = {}
    for record in records:
        if record.value is None:
            continue
        key, operation = record.key["id"], record.value["op"]
        assert (key in rows) == (operation in "ud"), f"{operation} of {key}"
        if operation == "d":
            del rows[key]
        else:
            rows[key] = record.value["after"]
    return rows


def test_rows_then_changes_each_once(database: Database) -> None:
    database.run(BOOK, "INSERT INTO book VALUES (1, 'Amerika'), (2, 'The Trial')")
    reader = Reader(database)
    assert short(reader.records()) == [(1, "r", "Amerika"), (2, "r", "The Trial")]
    assert reader.records() == []
    database.run(
        "INSERT INTO book VALUES (3, 'Letters')",
        "UPDATE book SET title = 'Process' WHERE id = 2",
        "DELETE FROM book WHERE id = 1",
        "UPDATE book SET id = 30 WHERE id = 3",
    )
    changes = reader.records()
    assert short(changes) == [
        (3, "c", "Letters"), (2, "u", "Process"), (1, "d", None), (1, None), (3, "d", None), (3, None),
        (30, "c", "Letters"),
    ]  # fmt: skip
    assert reader.records() == []
    first = changes[0].value
    assert first["before"] is None
    assert first["after"] == {"id": 3, "title": "Letters"}
    assert first["source"]["snapshot"] == "false"
    assert first["source"]["name"] == "shop"
    assert (first["source"]["schema"], first["source"]["table"], first["source"]["db"]) == (
        "public", "book", database.name,
    )  # fmt: skip
    assert first["source"]["txId"] is not None
    assert first["source"]["lsn"] < changes[1].value["source"]["lsn"]
    assert first["ts_ms"] == first["source"]["ts_ms"] == first["ts_us"] // 1000
    assert reader.streams["book"].topic == "shop.public.book"
    reader.source.close()


def test_a_slot_moves_on_behind_what_every_table_has_committed(database: Database) -> None:
    database.run(BOOK, "CREATE TABLE shelf (id INT PRIMARY KEY, title TEXT)")
    reader = Reader(database, max_batch_wal_bytes="1000")
    confirmed = lambda: database.run("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")[0][0]  # noqa: E731
    begin = confirmed()
    reader.records()
    reader.confirm()
    assert confirmed() == begin, "the shelf was not read yet"
    reader.records("shelf")
    for number in range(40):
        database.run(f"INSERT INTO book VALUES ({number}, 'n{number}')")
    assert short(reader.records()) == [(number, "c", f"n{number}") for number in range(40)]
    reader.confirm()
    assert confirmed() == min(position["lsn"] for position in reader.positions.values() if position)
    assert confirmed() < reader.positions["book"]["lsn"], "the idle shelf holds it back, but not for long"
    reader.records("shelf")
    reader.confirm()
    assert confirmed() > begin
    database.run("INSERT INTO shelf VALUES (1, 'top')")
    reader.restart()
    assert short(reader.records("shelf")) == [(1, "c", "top")]
    assert reader.records() == []
    reader.source.close()


def test_a_table_is_read_in_batches_while_it_changes(database: Database) -> None:
    database.run(BOOK, "INSERT INTO book SELECT n, 'n' || n FROM generate_series(1, 25) AS n")
    reader = Reader(database, snapshot_batch_rows="10")
    assert len(reader.batch("book") or ()) == 10
    database.run(
        "UPDATE book SET title = 'early' WHERE id = 3",
        "UPDATE book SET title = 'late' WHERE id = 23",
        "DELETE FROM book WHERE id = 24",
        "INSERT INTO book VALUES (26, 'new')",
    )
    assert [len(reader.batch("book") or ()) for _ in range(2)] == [10, 5]
    assert short(reader.records()) == [
        (3, "u", "early"), (23, "u", "late"), (24, "d", None), (24, None), (26, "c", "new"),
    ]  # fmt: skip
    assert titles(reader) == table(database)
    reader.source.close()


@pytest.mark.parametrize("batches", range(5))
def test_a_crash_in_the_middle_of_the_first_reading_neither_loses_nor_doubles(database: Database, batches: int) -> None:
    """Keys are texts, which the database orders in its own way."""
    database.run(
        'CREATE TABLE book (id TEXT COLLATE "en-x-icu" PRIMARY KEY, title TEXT)'
        if has_icu(database)
        else "CREATE TABLE book (id TEXT PRIMARY KEY, title TEXT)",
        "INSERT INTO book SELECT chr(65 + n % 26) || lower(chr(65 + n % 7)) || n, 'n' FROM generate_series(1, 40) AS n",
    )
    reader = Reader(database, snapshot_batch_rows="10")
    for number in range(batches):
        assert reader.batch("book") is not None
        churn(database, number)
    reader.batch("book", commit=False)  # read, never committed
    churn(database, 10)
    reader.restart()
    churn(database, 11)
    reader.batch("book")
    churn(database, 12)
    reader.restart()
    reader.records()
    churn(database, 13)
    reader.records()
    assert state_titles(reader) == table(database)
    reader.source.close()


def has_icu(database: Database) -> bool:
    return bool(database.run("SELECT count(*) FROM pg_collation WHERE collname = 'en-x-icu'")[0][0])


def churn(database: Database, number: int) -> None:
    """A change of a row in every quarter, keys that move, rows that come and go; some in one transaction."""
    keys = [key for (key,) in database.run("SELECT id FROM book ORDER BY id")]
    step = len(keys) // 5
    database.run(
        f"BEGIN; UPDATE book SET title = 'u{number}' WHERE id IN ('{keys[1]}', '{keys[2 * step]}', '{keys[-2]}'); "
        f"DELETE FROM book WHERE id IN ('{keys[step]}', '{keys[3 * step]}'); COMMIT",
        f"UPDATE book SET id = 'zz{number}' WHERE id = '{keys[3]}'",
        f"UPDATE book SET id = 'AA{number}' WHERE id = '{keys[-4]}'",
        f"INSERT INTO book VALUES ('Mm{number}', 'new{number}')",
    )


def state_titles(reader: Reader) -> dict[str, str]:
    return {str(key): str(row["title"]) for key, row in state(reader.found).items()}


def titles(reader: Reader) -> dict[str, str]:
    return state_titles(reader)


def table(database: Database) -> dict[str, str]:
    return {str(key): str(title) for key, title in database.run("SELECT id, title FROM book")}


def test_a_table_that_is_rewritten_while_it_is_read_is_read_with_another_snapshot(database: Database) -> None:
    database.run(BOOK, "INSERT INTO book SELECT n, 'n' || n FROM generate_series(1, 25) AS n")
    reader = Reader(database, snapshot_batch_rows="10")
    reader.batch("book")
    database.run("ALTER TABLE book ALTER COLUMN title TYPE TEXT USING title || '!'")
    database.run("UPDATE book SET title = 'x' WHERE id = 2")
    with pytest.raises(SnapshotStale, match=r"public\.book was rewritten"):
        reader.batch("book")
    reader.restart()
    reader.records()
    found = titles(reader)
    assert found["2"] == "x"
    assert found["15"] == "n15!"
    assert len(found) == 25
    reader.source.close()


def test_truncating_is_told_where_it_is_asked_for(database: Database) -> None:
    database.run(BOOK, "INSERT INTO book SELECT n, 'n' FROM generate_series(1, 25) AS n")
    reader = Reader(database, skipped_operations="none", snapshot_batch_rows="10")
    reader.batch("book")
    reader.restart()
    database.run("TRUNCATE book", "INSERT INTO book VALUES (1, 'after')")
    with pytest.raises(SnapshotCut, match="reset the connector's offsets"):
        reader.records()
    reader.positions = {}
    reader.restart()
    assert short(reader.records()) == [(1, "r", "after")]
    database.run("TRUNCATE book", "INSERT INTO book VALUES (2, 'again')")
    assert short(reader.records()) == [(None, "t", None), (2, "c", "again")]
    reader.source.close()


def test_a_rolled_back_and_a_long_transaction(database: Database, reader: Reader) -> None:
    reader.records()
    with database.server.connect(database.name) as slow:
        slow.execute("BEGIN")
        slow.execute("INSERT INTO book VALUES (1, 'slow')")
        database.run("INSERT INTO book VALUES (2, 'fast')", "BEGIN; INSERT INTO book VALUES (3, 'never'); ROLLBACK")
        assert short(reader.records()) == [(2, "c", "fast")]
        reader.confirm()
        slow.execute("COMMIT")
    reader.restart()
    assert short(reader.records()) == [(1, "c", "slow")]


def test_changed_columns_are_noticed_and_nothing_is_lost(database: Database, reader: Reader) -> None:
    database.run("INSERT INTO book VALUES (1, 'one')")
    reader.records()
    database.run("INSERT INTO book VALUES (2, 'two')", "ALTER TABLE book ADD COLUMN pages INT DEFAULT 7")
    database.run("INSERT INTO book VALUES (3, 'three', 30)")
    with pytest.raises(StreamsChanged, match=r"public\.book has changed"):
        reader.records()
    with pytest.raises(StreamsChanged):
        reader.confirm()
    reader.restart()
    assert [record.value["after"] for record in reader.records()] == [
        {"id": 2, "title": "two", "pages": None},
        {"id": 3, "title": "three", "pages": 30},
    ]
    database.run("CREATE TABLE shelf (id INT PRIMARY KEY)")
    with pytest.raises(StreamsChanged):
        reader.confirm()


def test_what_a_slot_no_longer_has_is_said(database: Database, reader: Reader) -> None:
    reader.records()
    slot = reader.config["slot.name"]
    database.run(f"SELECT pg_drop_replication_slot('{slot}')", "INSERT INTO book VALUES (1, 'lost')")
    with pytest.raises(SlotLost, match=f"there is no slot {slot} any more: changes since .* are lost; reset"):
        reader.records()
    reader.restart()
    with pytest.raises(SlotLost, match=f"slot {slot} was made anew or moved on"):
        reader.records()
    reader.config = {**reader.config, "snapshot.mode": "when_needed"}
    reader.restart()
    assert short(reader.records()) == [(1, "r", "lost")]
    database.run("INSERT INTO book VALUES (2, 'seen')")
    assert short(reader.records()) == [(2, "c", "seen")]
    reader.positions["book"] = {"lsn": 1 << 60}
    reader.config = {**reader.config, "snapshot.mode": "initial"}
    reader.restart()
    with pytest.raises(SlotLost, match="another server, or one that was set back"):
        reader.records()


def test_modes_without_the_first_reading_or_with_nothing_else(database: Database) -> None:
    database.run(BOOK, "INSERT INTO book VALUES (1, 'old')")
    after = Reader(database, snapshot_mode="no_data")
    database.run("INSERT INTO book VALUES (2, 'new')")
    assert short(after.records()) == [(2, "c", "new")]
    only = Reader(database, snapshot_mode="initial_only", slot_name="unused")
    assert short(only.records()) == [(1, "r", "old"), (2, "r", "new")]
    database.run("INSERT INTO book VALUES (3, 'later')")
    assert only.records() == []
    assert database.run("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'unused'") == [(0,)]
    after.source.close()
    only.source.close()


def test_the_server_dies_between_batches_and_in_one(database: Database, reader: Reader) -> None:
    reader.records()
    database.run("INSERT INTO book VALUES (1, 'before')")
    reader.batch("book", commit=False)
    database.server.crash()
    reader.restart()
    database.run("INSERT INTO book VALUES (2, 'behind')")
    assert short(reader.records()) == [(1, "c", "before"), (2, "c", "behind")]
    reader.confirm()
    database.server.crash()
    reader.restart()
    assert reader.records() == []


class Died(Exception):
    """In the place of a kill."""


@pytest.mark.parametrize("moment", range(6))
def test_death_at_any_step_of_the_database_neither_loses_nor_doubles(
    database: Database, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dies before or behind making the slot, a snapshot, or moving on."""
    database.run(BOOK, "INSERT INTO book VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    steps = iter(range(moment, -2, -1))

    def dying(original: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            step()
            found = original(*arguments, **named)
            step()
            return found

        return call

    def step() -> None:
        if next(steps, -1) == 0:
            raise Died

    reader: Reader | None = None
    died = 0
    with monkeypatch.context() as patched:
        patched.setattr(server_module.Slots, "make", dying(server_module.Slots.make))
        patched.setattr(server_module.Slots, "advance", dying(server_module.Slots.advance))
        patched.setattr(PostgresSource, "_snapshot", dying(PostgresSource._snapshot))
        for round_ in range(3):
            try:
                if reader is None:
                    reader = Reader(database, snapshot_batch_rows="2")
                elif died:
                    reader.restart()
                reader.batch("book")
                database.run(f"UPDATE book SET title = 'u{round_}' WHERE id = 1")
                reader.records()
                reader.confirm()
            except Died:
                died += 1
    assert died == 1
    assert reader is not None
    reader.restart()
    reader.records()
    assert titles(reader) == table(database)
    reader.source.close()


@pytest.mark.usefixtures("spark")  # whose notation the types are in
def test_types_come_the_same_from_rows_and_from_changes(database: Database) -> None:
    database.run(
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN money2 AS NUMERIC(8,2)",
        "CREATE TABLE t (id BIGINT PRIMARY KEY, small SMALLINT, r REAL, f DOUBLE PRECISION, n NUMERIC(10,2), "
        "free NUMERIC, ok BOOLEAN, b BYTEA, c CHAR(5), d DATE, at TIMESTAMP, at3 TIMESTAMP(3), z TIMESTAMPTZ, "
        "clock TIME, span INTERVAL, j JSONB, u UUID, m mood, cost money2, list INT[], words TEXT[], "
        "twice INT GENERATED ALWAYS AS (id * 2) STORED)",
    )
    row = (
        "(%d, 3, 1.5, 0.1, 12.30, -12345.678, true, '\\x00ff', 'ab', '2024-02-29', '2024-02-29 12:30:00.123456', "
        "'2024-02-29 12:30:00.123', '2024-02-29 12:30:00+02', '01:02:03.5', '1 day 2 hours', '{\"a\": 1}', "
        "'0b684a06-9b59-4557-8694-a0aa42392564', 'happy', 9.5, '{1,NULL,3}', '{a,\"b \\\"c\\\", d\",NULL}')"
    )
    database.run(f"INSERT INTO t VALUES {row % 1}", "INSERT INTO t (id) VALUES (2)")
    reader = Reader(database)
    first, second = reader.batch("t") or ()
    database.run(f"INSERT INTO t VALUES {row % 3}", "INSERT INTO t (id) VALUES (4)")
    third, fourth = reader.batch("t") or ()
    noon = 1_709_209_800_000_000
    assert first.value["after"] == {
        "id": 1, "small": 3, "r": 1.5, "f": 0.1, "n": Decimal("12.30"),
        "free": {"scale": 3, "value": (-12345678).to_bytes(4, "big", signed=True)}, "ok": True, "b": b"\x00\xff",
        "c": "ab   ", "d": 19782, "at": noon + 123_456, "at3": (noon + 123_000) // 1000,
        "z": "2024-02-29T10:30:00.000000Z", "clock": 3_723_500_000, "span": 93_600_000_000, "j": '{"a": 1}',
        "u": "0b684a06-9b59-4557-8694-a0aa42392564", "m": "happy", "cost": Decimal("9.50"), "list": [1, None, 3],
        "words": ["a", 'b "c", d', None],
    }  # fmt: skip
    assert {**third.value["after"], "id": 1} == first.value["after"]
    assert {**fourth.value["after"], "id": 2} == second.value["after"]
    assert set(second.value["after"].values()) == {2, None}
    assert reader.streams["t"].key == "struct<`id`: bigint NOT NULL>"
    row_type = reader.streams["t"].value.removeprefix("struct<before: ").partition(", after:")[0]
    assert row_type == (
        "struct<`id`: bigint NOT NULL, `small`: smallint, `r`: float, `f`: double, `n`: decimal(10,2), "
        "`free`: struct<scale: int, value: binary>, `ok`: boolean, `b`: binary, `c`: string, `d`: int, `at`: bigint, "
        "`at3`: bigint, `z`: string, `clock`: bigint, `span`: bigint, `j`: string, `u`: string, `m`: string, "
        "`cost`: decimal(8,2), `list`: array<int>, `words`: array<string>>"
    )
    schema = schema_of(reader.streams["t"])
    (batch,) = arrow_batches([first, second, third, fourth], reader.streams["t"], schema)
    assert [each["after"]["cost"] for each in batch.column("value").to_pylist()] == [Decimal("9.50"), None] * 2
    database.run("INSERT INTO t (id, n, free) VALUES (5, 'NaN', 1)")
    stream, position = reader.streams["t"], reader.positions["t"]
    end = reader.source.latest(stream, position)
    assert end is not None
    (refused,) = reader.source.read(stream, position, end)
    assert isinstance(refused, RecordRefused) and refused.raw is not None
    assert re.match(r"public\.t\.n has .NaN.*decimal\.handling\.mode", str(refused))
    assert (refused.raw.key, json.loads(refused.raw.value or b"")["after"]["n"]) == (b'{"id": "5"}', "NaN")
    reader.config = {**reader.config, "decimal.handling.mode": "string", "time.precision.mode": "connect"}
    reader.restart()
    (fifth,) = reader.records("t")
    assert (fifth.value["after"]["n"], fifth.value["after"]["free"]) == ("NaN", "1")
    reader.source.close()


def test_large_values_that_were_not_sent_again(database: Database, reader: Reader) -> None:
    reader.records()
    database.run(
        "ALTER TABLE book ALTER COLUMN title SET STORAGE EXTERNAL",
        "INSERT INTO book VALUES (1, repeat('x', 5000))",
        "ALTER TABLE book ADD COLUMN n INT",
        "UPDATE book SET n = 1",
        "ALTER TABLE book REPLICA IDENTITY FULL",
        "UPDATE book SET n = 2",
        "DELETE FROM book",
    )
    reader.restart()
    made, plain, full, gone = [record.value for record in reader.records() if record.value is not None]
    assert made["after"]["title"] == full["after"]["title"] == full["before"]["title"] == "x" * 5000
    assert plain["after"] == {"id": 1, "title": "__debezium_unavailable_value", "n": 1}
    assert plain["before"] is None
    assert full["before"]["n"] == 1
    assert gone["before"] == {"id": 1, "title": "x" * 5000, "n": 2}
