"""Avro: types, damaged values, the registry's wire format and schemas that changed."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from struct import pack
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructType

from moldau.spark.option_table import OptionError
from moldau.spark.values.avro_values import AvroDecoder
from moldau.spark.values.ddl import parse_type
from moldau.spark.values.decoding import BatchDecoder, MalformedRecord
from moldau.spark.values.encoding import EncodingFailed, encode_batch, made_schemas
from moldau.spark.values.plan import ValuePlan, read_plan, write_plan
from moldau.spark.values.raw_types import arrow_type
from moldau.spark.values.registry import REFUSED_SECONDS, RegistryError, SchemaRefused
from tests.support.schema_registry import SchemaRegistry

EVENT = {
    "type": "record", "name": "Event", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["BUY", "SELL"]}},
        {"name": "other", "type": ["null", "Kind"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "n", "type": ["int", "null"]}]}}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}  # fmt: skip
ROW = {
    "id": 7, "kind": "BUY", "other": "SELL", "price": Decimal("12.50"),
    "at": datetime.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.UTC), "day": datetime.date(2024, 5, 6),
    "tags": {"a": "b"}, "lines": [{"n": 1}, {"n": None}], "hash": b"xy", "time": 5,
}  # fmt: skip


def written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def batch_of(*values: bytes | None) -> pa.RecordBatch:
    headers = pa.nulls(len(values), pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    return pa.RecordBatch.from_arrays(
        [pa.array(values, pa.binary()), pa.array(range(len(values)), pa.int64()), headers],
        names=["value", "offset", "headers"],
    )


def decoded(plan: ValuePlan, *values: bytes | None) -> list[dict[str, Any]]:
    names = ["value", "_corrupt_value", "_error"] if plan.mode == "PERMISSIVE" else ["value"]
    found = BatchDecoder(plan, names, "shop-0").decode(batch_of(*values))
    assert plan.value.kind is not None
    assert found.schema.field("value").type == arrow_type(plan.value.kind)
    rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="strict")
    return rows


def test_every_type() -> None:
    plan = read_plan({"value.format": "avro", "value.schema": json.dumps(EVENT)})
    assert isinstance(plan.value.kind, StructType)
    assert plan.value.kind.simpleString() == (
        "struct<id:bigint,kind:string,other:string,price:decimal(8,2),at:timestamp,day:date,tags:map<string,string>,"
        "lines:array<struct<n:int>>,hash:binary,time:int>"
    )
    data = written(EVENT, ROW | {"time": datetime.time(0, 0, 0, 5000)})
    (row, empty) = decoded(plan, data, None)
    assert row["value"] == ROW
    assert empty == {"value": None, "_corrupt_value": None, "_error": None}


def test_damage_follows_the_mode() -> None:
    options = {"value.format": "avro", "value.schema": '{"type": "array", "items": "long"}'}
    good = written({"type": "array", "items": "long"}, [1, 2])
    damaged = [good + b"x", b"", b"\x80\x80\x80\x80", good[:2]]
    rows = decoded(read_plan(options), good, *damaged)
    assert [row["value"] for row in rows] == [[1, 2], None, None, None, None]
    assert [row["_corrupt_value"] for row in rows] == [None, *damaged]
    assert rows[1]["_error"] == "value: 1 bytes follow the value"
    assert all(row["_error"] for row in rows[1:])
    assert decoded(read_plan(options | {"mode": "DROPMALFORMED"}), good, *damaged, good) == [{"value": [1, 2]}] * 2
    with pytest.raises(MalformedRecord, match=r"shop-0, offset 1: the value b.* does not decode as avro: .*FAILFAST"):
        decoded(read_plan(options | {"mode": "FAILFAST"}), good, *damaged)


def test_the_registry_knows_the_writers_schema() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "gone", "type": "string"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"], "default": None}],
    }
    with SchemaRegistry() as registry:
        first = registry.add("users-value", json.dumps(old))
        second = registry.add("users-value", json.dumps(new))
        plan = read_plan({"value.format": "avro", "schema.registry.url": registry.url, "subscribe": "users"})
        values = [
            pack(">bi", 0, first) + written(old, {"a": 1, "gone": "x"}),
            pack(">bi", 0, second) + written(new, {"a": 2, "b": "y"}),
            pack(">bi", 1, first),
            b"\0",
        ]
        rows = decoded(plan, *values, values[0])
        assert [row["value"] for row in rows] == [
            {"a": 1, "b": None},
            {"a": 2, "b": "y"},
            None,
            None,
            {"a": 1, "b": None},
        ]
        assert "begins with 1" in rows[2]["_error"]
        assert "too few for a schema id" in rows[3]["_error"]
        decoded(plan, *values)
        assert sum("/schemas/ids/" in request for request in registry.requests) == 2, "an id is asked for once"


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        running.add("users-value", '"long"')
        yield running


def registered(schema_id: int) -> bytes:
    return pack(">bi", 0, schema_id) + written("long", 5)


def asked_for_ids(registry: SchemaRegistry) -> list[str]:
    return [request.split("/")[-1] for request in registry.requests if "/schemas/ids/" in request]


def test_an_id_without_a_usable_schema_follows_the_mode(registry: SchemaRegistry) -> None:
    unusable = [
        (99, "40403 Schema not found"),
        (registry.add("p-value", "syntax", schemaType="PROTOBUF"), "is PROTOBUF, not AVRO"),
        (registry.add("r-value", '"long"', references=[{"name": "x"}]), "without its subject and version"),
        (
            registry.add("g-value", '"long"', references=[{"name": "x", "subject": "gone", "version": 3}]),
            "40403 Schema",
        ),
        (registry.add("m-value", '"long"', references=[{"name": "x", "subject": "p-value", "version": 1}]), "PROTOBUF"),
        (registry.add("n-value", "not a schema <<"), "cannot be read: this is not the JSON of an Avro schema"),
        (
            registry.add("u-value", '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "B"}]}'),
            "cannot be",
        ),
        (-1, "-1 is no id of a schema"),
    ]
    options = {"value.format": "avro", "schema.registry.url": registry.url, "subscribe": "users"}
    values = [registered(1), *(registered(schema_id) for schema_id, _ in unusable), registered(1)]
    rows = decoded(read_plan(options), *values)
    assert [row["value"] for row in rows] == [5, *[None] * len(unusable), 5]
    for row, value, (_, problem) in zip(rows[1:-1], values[1:-1], unusable, strict=True):
        assert row["_corrupt_value"] == value
        assert problem in row["_error"]
    assert decoded(read_plan(options | {"mode": "DROPMALFORMED"}), *values) == [{"value": 5}] * 2
    for value, (_, problem) in zip(values[1:-1], unusable, strict=True):
        with pytest.raises(
            MalformedRecord, match=f"shop-0, offset 1: the value b.* does not decode as avro: .*{problem}"
        ):
            decoded(read_plan(options | {"mode": "FAILFAST"}), values[0], value)


def test_an_id_that_was_not_found_is_asked_for_again_after_a_while(registry: SchemaRegistry) -> None:
    plan = read_plan({"value.format": "avro", "schema.registry.url": registry.url, "subscribe": "users"})
    now = 100.0
    decoder = AvroDecoder('"long"', LongType(), plan.registry, lambda: now)
    column = pa.array([registered(2), registered(1), registered(2), registered(3)], pa.binary())
    for _ in range(2):
        found, errors = decoder.decode(column)
        assert (found.to_pylist(), sorted(errors)) == ([None, 5, None, None], [0, 2, 3])
    assert asked_for_ids(registry) == ["2", "1", "3"], "once, not once per record"
    registry.add("users-value", '["null", "long"]')
    registry.add("users-value", '"int"')
    now += REFUSED_SECONDS
    found, errors = decoder.decode(pa.array([registered(3)], pa.binary()))
    assert (found.to_pylist(), errors) == ([5], {})
    assert asked_for_ids(registry) == ["2", "1", "3", "3"]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize(
    ("status", "problem"), [(500, "500 out of"), (503, "503 out of"), (404, "404 out of"), (401, "401")]
)
def test_no_record_is_bad_because_the_registry_is_away(
    registry: SchemaRegistry, mode: str, status: int, problem: str
) -> None:
    plan = read_plan({"value.format": "avro", "schema.registry.url": registry.url, "subscribe": "users", "mode": mode})
    if status == 401:
        registry.user_info = "me:secret"
    else:
        registry.failure = status
    with pytest.raises(RegistryError, match=problem) as caught:
        decoded(plan, registered(1))
    assert not isinstance(caught.value, SchemaRefused)


def test_another_registry_is_asked_where_one_is_out_of_order(registry: SchemaRegistry) -> None:
    with SchemaRegistry() as broken:
        broken.failure = 503
        urls = f"{broken.url},{registry.url}"
        plan = read_plan({"value.format": "avro", "schema.registry.url": urls, "subscribe": "users"})
        assert [row["value"] for row in decoded(plan, registered(1))] == [5]
        registry.failure = 500
        with pytest.raises(OptionError, match="500 out of order"):
            read_plan({"value.format": "avro", "schema.registry.url": urls, "subscribe": "users"})


def test_no_record_is_bad_because_nobody_answers() -> None:
    with SchemaRegistry() as gone:
        gone.add("users-value", '"long"')
        plan = read_plan({"value.format": "avro", "schema.registry.url": gone.url, "subscribe": "users"})
    with pytest.raises(RegistryError, match="refused"):
        decoded(plan, registered(1))


def test_registries_that_do_not_help() -> None:
    with SchemaRegistry() as registry:
        registry.add("p-value", "syntax", schemaType="PROTOBUF")
        registry.add("r-value", '"int"', references=[{"name": "x"}])
        options = {"value.format": "avro", "schema.registry.url": registry.url}
        for subject, problem in (("p", "PROTOBUF, not AVRO"), ("r", "without its subject"), ("none", "404")):
            with pytest.raises(OptionError, match=problem):
                read_plan(options | {"subscribe": subject})
        url = registry.url
    with pytest.raises(OptionError, match=f"schema registry {url}"):
        read_plan({"value.format": "avro", "schema.registry.url": url, "subscribe": "p"})


def test_writing_registers_the_schema() -> None:
    rows = pa.array([{"id": 1, "name": "x"}, None], pa.struct([("id", pa.int64()), ("name", pa.string())]))
    batch = pa.RecordBatch.from_arrays([rows, pa.array([b"k", b"k"])], names=["value", "key"])
    with SchemaRegistry() as registry:
        options = {
            "value.format": "avro",
            "schema.registry.url": f"http://127.0.0.1:1,{registry.url}",
            "schema.registry.basic.auth.user.info": "me:secret",
            "topic": "users",
        }
        with pytest.raises(RegistryError, match="404"):
            encode_batch(batch, write_plan(options | {"auto.register.schemas": "false"}))
        values = encode_batch(batch, write_plan(options)).column("value").to_pylist()
        assert list(registry.subjects) == ["users-value"]
        assert "Basic bWU6c2VjcmV0" in registry.requests[-1]
        plan = read_plan({key: text for key, text in options.items() if key != "topic"} | {"subscribe": "users"})
        assert [row["value"] for row in decoded(plan, *values)] == [{"id": 1, "name": "x"}, None]
        again = encode_batch(batch, write_plan(options | {"auto.register.schemas": "false"})).column("value")
        assert again.to_pylist() == values


def test_a_row_that_does_not_fit_the_schema() -> None:
    schema = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}'
    batch = pa.RecordBatch.from_arrays([pa.array([{"id": 2**40}])], names=["value"])
    with pytest.raises(EncodingFailed, match="a value cannot be written as avro"):
        encode_batch(batch, write_plan({"value.format": "avro", "value.schema": schema}))


class TestSchemaThatNobodyHasGiven:
    """It is made from the column, and every part of it may be null: a reader's own guess does not fit it."""

    columns = parse_type("value STRUCT<id: BIGINT, name: STRING>, KEY INT")
    made = (
        '{"type": "record", "name": "value", "fields": [{"name": "id", "type": ["null", "long"], "default": null}, '
        '{"name": "name", "type": ["null", "string"], "default": null}]}'
    )

    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([{"value": {"id": 7, "name": "x"}}])

    def test_is_made_from_the_type_of_a_column(self) -> None:
        plan = write_plan({"value.format": "avro", "key.format": "avro"})
        assert made_schemas(self.columns, plan) == (("value", self.made), ("key", '"int"'))

    def test_cannot_be_made_of_every_type(self) -> None:
        plan = write_plan({"value.format": "avro"})
        with pytest.raises(EncodingFailed, match=r"a value cannot be written as avro: an Avro map has text for keys"):
            made_schemas(parse_type("value MAP<INT, INT>"), plan)

    def test_is_what_the_values_are_read_with(self) -> None:
        data = encode_batch(self.batch(), write_plan({"value.format": "avro"})).column(0)[0].as_py()
        plan = read_plan({"value.format": "avro", "value.schema": self.made})
        assert decoded(plan, data)[0]["value"] == {"id": 7, "name": "x"}

    def test_is_not_told_where_it_is_given_or_kept(self) -> None:
        given = write_plan({"value.format": "avro", "value.schema": self.made})
        kept = write_plan({"value.format": "avro", "schema.registry.url": "http://localhost:1", "topic": "t"})
        assert made_schemas(self.columns, given) == made_schemas(self.columns, kept) == ()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (
            b"\x0e\x02x",
            "it names a branch of a union, or a symbol of an enum, that the schema does not have; ",
        ),
        (
            b"\x02\x0e\x02\x08x",
            "it ends before all fields of the schema are read; the schema it is read with",
        ),
        (b"\x02\x0e\x02\x02\xff", "what should be text is no UTF-8; the schema"),
        (b"\0\0\0\0\x01\x0e\x02x", "is schema.registry.url missing?"),
    ],
)
def test_a_value_that_does_not_fit_its_schema_is_given_a_cause(data: bytes, cause: str) -> None:
    plan = read_plan({"value.format": "avro", "value.schema": TestSchemaThatNobodyHasGiven.made})
    (row,) = decoded(plan, data)
    assert (row["value"], cause in row["_error"]) == (None, True), row["_error"]
