"""Topics to Delta and Iceberg tables without a worker: rows, types, repetitions, rivals, crashes at the commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from moldau.connect.connectors import iceberg_sink, table_rows
from moldau.connect.connectors.delta_sink import DeltaSink
from moldau.connect.connectors.iceberg_sink import IcebergSink
from moldau.connect.interface import RecordRefused, SinkConnector, SinkRecord
from tests.support.connect_settings import problems_of
from tests.support.deaths import Deaths
from tests.support.s3 import s3_server, send
from tests.unit.connect.test_archive import NOON, made


@dataclass(frozen=True)
class Lake:
    kind: type[SinkConnector]
    config: dict[str, str]

    def sink(self, **more: str) -> Any:
        given = {name.replace("_", "."): value for name, value in more.items()}
        return made(self.kind, {**self.config, **given})

    def write(self, *records: SinkRecord, **more: str) -> None:
        sink = self.sink(**more)
        sink.write(iter(records))
        sink.close()

    def rows(self, *columns: str) -> list[Any]:
        found = pa.table(self.content()).sort_by("kafka_offset").to_pylist()
        return [tuple(row.get(name) for name in columns) for row in found]

    def content(self) -> Any:
        if self.kind is DeltaSink:
            return deltalake.DeltaTable(self.config["table.url"]).to_pyarrow_table()
        sink = self.sink()
        try:
            return sink._open("db.t").scan().to_arrow()
        finally:
            sink.close()


@pytest.fixture(params=[DeltaSink, IcebergSink])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param is DeltaSink:
        return Lake(DeltaSink, {"table.url": str(tmp_path / "t")})
    (tmp_path / "lake").mkdir()
    return Lake(
        IcebergSink,
        {
            "iceberg.tables": "db.t",
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
            "iceberg.catalog.warehouse": f"file://{tmp_path}/lake",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
        },
    )


def record(offset: int, value: Any, key: Any = "k", partition: int = 0) -> SinkRecord:
    return SinkRecord("t", partition, offset, NOON + offset, key, value, (("h", b"\xff"), ("h", None)))


def some(first: int, last: int) -> Iterator[SinkRecord]:
    return (record(offset, {"n": offset}) for offset in range(first, last))


def test_rows_have_the_fields_their_types_and_their_origin(lake: Lake) -> None:
    noon = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    value = {"n": 1, "text": "a", "price": Decimal("1.50"), "at": noon, "tags": ["x"], "in": {"b": b"\xff"}, "ok": True}
    lake.write(record(0, {**value, "text": None}), record(1, None), partition_by="kafka_partition")
    lake.write(record(2, {**value, "more": 2.5, "in": {"b": b"", "c": 7}}))
    assert lake.rows("n", "text", "price", "at", "tags", "in", "ok", "more") == [
        (1, None, Decimal("1.50"), noon, ["x"], {"b": b"\xff", "c": None}, True, None),
        (None, None, None, None, None, None, None, None),
        (1, "a", Decimal("1.50"), noon, ["x"], {"b": b"", "c": 7}, True, 2.5),
    ]
    origin = "topic", "partition", "offset", "timestamp", "key", "headers"
    headers = [{"key": "h", "value": b"\xff"}, {"key": "h", "value": None}]
    second = lake.rows(*(f"kafka_{name}" for name in origin))[1]
    assert second == ("t", 0, 1, noon + dt.timedelta(milliseconds=1), "k", headers)


def test_values_without_fields_have_a_column(lake: Lake) -> None:
    lake.write(record(0, b"\x00"), record(1, None), record(2, b"2"))
    assert lake.rows("value") == [(b"\x00",), (None,), (b"2",)]


def test_records_that_come_again_are_left_out(lake: Lake) -> None:
    lake.write(*some(0, 4), commit_records="3")
    lake.write(*some(2, 6), record(0, {"n": 100}, partition=1))
    lake.sink().alter({})
    lake.write(*some(0, 7), record(0, {"n": 100}, partition=1))
    assert sorted(lake.rows("n")) == [(n,) for n in [*range(7), 100]]


def test_of_two_writers_who_saw_the_same_one_is_refused_or_looks_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker writes the same records between the look at the offsets and the commit."""
    lake.write(*some(0, 2))
    late = lake.sink()
    original = lake.kind._open  # type: ignore[attr-defined]

    def opened(self: Any, name: str) -> Any:
        table = original(self, name)
        monkeypatch.setattr(lake.kind, "_open", original)
        lake.write(*some(2, 5))
        return table

    monkeypatch.setattr(lake.kind, "_open", opened)
    if lake.kind is DeltaSink:
        with pytest.raises(deltalake.exceptions.CommitFailedError, match="Concurrent transaction"):
            late.write(some(2, 4))
    else:
        late.write(some(2, 4))
    late.close()
    assert lake.rows("n") == [(n,) for n in range(5)]


def test_two_who_both_make_the_table_write_each_record_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    original: Callable[..., Any] = lake.kind._made  # type: ignore[attr-defined]

    def made_late(self: Any, *given: Any) -> Any:
        monkeypatch.setattr(lake.kind, "_made", original)
        lake.write(*some(0, 3))
        return original(self, *given)

    monkeypatch.setattr(lake.kind, "_made", made_late)
    lake.write(*some(0, 2))
    assert lake.rows("n") == [(n,) for n in range(3)]


class Died(Exception):
    """In the place of a kill."""


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_around_the_commit_neither_loses_nor_doubles(
    lake: Lake, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    lake.write(*some(0, 2))
    place, name = (deltalake, "write_deltalake") if lake.kind is DeltaSink else (SqlCatalog, "commit_table")
    original = getattr(place, name)

    def dying(*given: Any, **named: Any) -> Any:
        if after:
            original(*given, **named)
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(place, name, dying)
        with pytest.raises(Died):
            lake.write(*some(2, 5))
    lake.write(*some(2, 6))
    assert lake.rows("n") == [(n,) for n in range(6)]


def test_twenty_deaths_in_a_row_neither_lose_nor_double(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    deaths = Deaths(most=4)
    monkeypatch.setattr(deltalake, "write_deltalake", deaths.around(deltalake.write_deltalake))
    monkeypatch.setattr(SqlCatalog, "commit_table", deaths.around(SqlCatalog.commit_table))
    end = deaths.survived(lambda first, last: lake.write(*some(first, last)))
    assert lake.rows("n") == [(n,) for n in range(end)]


def test_other_writers_of_an_iceberg_table_do_not_disturb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(
        IcebergSink,
        {
            "iceberg.tables": "db.t",
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
            "iceberg.catalog.warehouse": f"file://{tmp_path}",
            "iceberg.tables.auto-create-enabled": "true",
        },
    )
    lake.write(*some(0, 2))
    original = table_rows.rows_table

    def slow(*given: Any) -> Any:
        monkeypatch.setattr(iceberg_sink, "rows_table", original)
        other = lake.sink()
        other._open("db.t").append(pa.table({"n": [-1]}))
        other.close()
        return original(*given)

    monkeypatch.setattr(iceberg_sink, "rows_table", slow)
    lake.write(*some(0, 4))
    assert sorted(lake.rows("n")) == [(n,) for n in range(-1, 4)]
    table = lake.sink()._open("db.t")
    assert table.properties["moldau.connect.archive"] == '{"t-0": 4}'
    assert table.current_snapshot().summary["moldau.connect.archive"] == '{"t-0": 4}'
    assert "commit.retry.num-retries" not in table.properties


def test_columns_that_are_there_keep_their_types_and_what_does_not_fit_is_told(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    deltalake.write_deltalake(
        url, pa.table({"n": pa.array([0], pa.int32()), "kafka_offset": pa.array([-1], pa.int64())})
    )
    lake = Lake(DeltaSink, {"table.url": url})
    lake.write(record(0, {"n": 1}))
    assert lake.rows("n") == [(0,), (1,)]
    with pytest.raises(ValueError, match="the column n has the type int32, which does not fit"):
        lake.write(record(1, {"n": "text"}))
    with pytest.raises(LookupError, match="has no column m, and columns may not be added"):
        lake.write(record(1, {"m": 1}), table_evolve="false")
    assert lake.rows("n") == [(0,), (1,)]


def test_what_is_wrong_is_told(lake: Lake, tmp_path: Path) -> None:
    missing = {"table.create": "false"} if lake.kind is DeltaSink else {"iceberg.tables.auto-create-enabled": "false"}
    with pytest.raises(LookupError, match="is false"):
        lake.write(record(0, {"n": 1}), **missing)
    with pytest.raises(RecordRefused, match="is a tombstone"):
        lake.write(record(0, None), metadata_prefix="")
    assert problems_of(IcebergSink, {"iceberg.tables": "db.t"}).startswith("iceberg.catalog.type and what it needs")


def test_delta_tables_lie_in_buckets_by_topic() -> None:
    with s3_server() as address:
        send("PUT", f"{address}/lake")
        options = {
            "store.options.AWS_ENDPOINT_URL": address, "store.options.AWS_ACCESS_KEY_ID": "me",
            "store.options.AWS_SECRET_ACCESS_KEY": "secret", "store.options.AWS_REGION": "us-east-1",
            "store.options.AWS_ALLOW_HTTP": "true",
        }  # fmt: skip
        sink = made(DeltaSink, {"table.url": "s3://lake/${topic}", **options})
        sink.write(some(0, 3))
        sink.write(some(0, 4))
        given = {name.removeprefix("store.options."): value for name, value in options.items()}
        table = deltalake.DeltaTable("s3://lake/t", storage_options=given)
        assert sorted(table.to_pyarrow_table().column("n").to_pylist()) == [0, 1, 2, 3]


def test_records_of_a_topic_that_was_made_anew_are_no_repetitions(lake: Lake) -> None:
    lake.write(*some(0, 4))
    for _ in range(2):
        lake.write(*(each._replace(generation=1, value={"n": each.offset + 100}) for each in some(0, 2)))
    lake.write(*some(0, 4))
    assert sorted(lake.rows("n", "kafka_offset")) == [(n, n % 100) for n in (0, 1, 2, 3, 100, 101)]
