"""Protobuf messages and Spark's types: what protobuf's own library writes is read, and what is written it reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format, struct_pb2

from moldau.schemas.descriptors import class_of, message_of
from moldau.schemas.framing import framed_by_id
from moldau.spark.option_table import OptionError
from moldau.spark.values.decoding import decoder_of
from moldau.spark.values.encoding import EncodingFailed, encoded, made_protobuf
from moldau.spark.values.plan import ValuePlan, read_plan, write_plan
from moldau.spark.values.protobuf_values import unpacked
from moldau.spark.values.raw_types import arrow_type
from moldau.spark.values.registry import REFUSED_SECONDS
from tests.support.schema_registry import SchemaRegistry

ORDER = """syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
enum Size { SMALL = 0; LARGE = 7; }
message Order {
  int32 id = 1; uint32 u = 2; uint64 big = 3; optional string note = 4; bytes raw = 5; Size size = 6;
  repeated Line lines = 7; map<string, int64> counts = 8; map<int32, Line> by = 9;
  google.protobuf.Timestamp at = 10; google.protobuf.Duration took = 11; Line best = 12;
  oneof way { double price = 13; bool free = 14; } repeated Size sizes = 15; float weight = 16;
  message Line { string item = 1; int64 pieces = 2; }
}
message Other { string name = 1; }
"""
AT = datetime(2026, 2, 3, 4, 5, 6, 789, UTC)
FULL: dict[str, Any] = {
    "id": -5, "u": 2**32 - 1, "big": Decimal(2**64 - 1), "note": "", "raw": b"\x00\xff", "size": "LARGE",
    "lines": [{"item": "tea", "pieces": 2}, {"item": "", "pieces": -1}], "counts": [("a", 1), ("b", -(2**62))],
    "by": [(3, {"item": "x", "pieces": 0})], "at": AT, "took": timedelta(seconds=-1, microseconds=5),
    "best": {"item": "", "pieces": 0}, "price": None, "free": True, "sizes": ["SMALL", "LARGE"], "weight": 1.5,
}  # fmt: skip
EMPTY = {
    "id": 0, "u": 0, "big": Decimal(0), "note": None, "raw": b"", "size": "SMALL", "lines": [], "counts": [], "by": [],
    "at": None, "took": None, "best": None, "price": None, "free": None, "sizes": [], "weight": 0.0,
}  # fmt: skip
BARE = {"subscribe": "t", "value.format": "protobuf", "value.schema": ORDER}


def plan_for(**options: str) -> ValuePlan:
    return read_plan({**BARE, **options})


def decoded(plan: ValuePlan, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    found, errors = decoder_of(plan.value, plan).decode(pa.array(values, pa.binary()))
    rows = found.to_pylist()
    for row in rows:
        if row is not None and row.get("counts"):
            row["counts"].sort()  # Protobuf's maps have no order
    return rows, errors


def written(plan: ValuePlan, kind: pa.DataType, *rows: Any) -> list[bytes]:
    return encoded(pa.array(rows, kind), plan.value, plan).to_pylist()


def message(plan: ValuePlan, data: bytes = b"") -> Any:
    assert plan.value.schema is not None and plan.value.message is not None
    return class_of(message_of(unpacked(plan.value.schema), plan.value.message)).FromString(data)


def test_types() -> None:
    assert plan_for().value.kind is not None
    assert plan_for().value.kind.simpleString() == (
        "struct<id:int,u:bigint,big:decimal(20,0),note:string,raw:binary,size:string,"
        "lines:array<struct<item:string,pieces:bigint>>,counts:map<string,bigint>,"
        "by:map<int,struct<item:string,pieces:bigint>>,at:timestamp,took:interval day to second,"
        "best:struct<item:string,pieces:bigint>,price:double,free:boolean,sizes:array<string>,weight:float>"
    )
    other = plan_for(**{"value.message": "shop.Order.Line"}).value.kind
    assert other is not None and other.simpleString() == "struct<item:string,pieces:bigint>"


def test_what_is_written_is_read_by_protobuf_itself_and_read_back() -> None:
    plan = plan_for()
    assert plan.value.kind is not None
    kind = arrow_type(plan.value.kind)
    (data,) = written(write_plan({**BARE, "topic": "t"}), kind, FULL)
    told = json_format.MessageToDict(message(plan, data))
    assert told == {
        "id": -5, "u": 2**32 - 1, "big": str(2**64 - 1), "note": "", "raw": "AP8=", "size": "LARGE", "weight": 1.5,
        "lines": [{"item": "tea", "pieces": "2"}, {"pieces": "-1"}], "counts": {"a": "1", "b": str(-(2**62))},
        "by": {"3": {"item": "x"}}, "at": "2026-02-03T04:05:06.000789Z", "took": "-0.999995s", "best": {}, "free": True,
        "sizes": ["SMALL", "LARGE"],
    }  # fmt: skip
    assert decoded(plan, data, b"", None) == ([FULL, EMPTY, None], {})
    (nothing,) = written(write_plan({**BARE, "topic": "t"}), kind, dict.fromkeys(FULL))
    assert nothing == b""


def test_an_enum_of_tomorrow_is_its_number_and_damage_is_told() -> None:
    plan = plan_for()
    later = message(plan)
    later.size = 9
    rows, errors = decoded(plan, later.SerializeToString(), b"\xff\xff", b"\x22\x02\xff\xff")
    assert rows[0]["size"] == "9" and rows[1:] == [None, None]
    assert set(errors) == {1, 2} and "it is no shop.Order" in errors[1]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"value.schema": "syntax"}, r"option 'value.schema': .*"),
        ({"value.message": "shop.Gone"}, "there is no message shop.Gone"),
        ({"value.message": "google.protobuf.Timestamp"}, "which the schema only imports"),
        ({"value.schema": 'syntax = "proto3"; message N { N n = 1; }'}, "the message N contains itself"),
        ({"value.schema": 'syntax = "proto3"; enum E { A = 0; }'}, "the schema has no message"),
        ({"value.schema": 'syntax = "proto3"; import "x.proto"; message M {}'}, "x.proto"),
    ],
)
def test_schemas_that_cannot_be_used(options: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        plan_for(**options)


def test_what_does_not_fit_is_refused() -> None:
    plan = write_plan({**BARE, "topic": "t"})
    for field, kind, value, problem in (
        ("id", pa.int64(), 2**40, "protobuf"),
        ("size", pa.string(), "HUGE", "has no 'HUGE'"),
        ("colour", pa.string(), "red", "has no field 'colour'"),
        ("sizes", pa.list_(pa.string()), [None], "has no None"),
    ):
        with pytest.raises(EncodingFailed, match=problem):
            written(plan, pa.struct([(field, kind)]), {field: value})
    with pytest.raises(EncodingFailed, match="writes structs"):
        written(write_plan({"topic": "t", "value.format": "protobuf"}), pa.int64(), 5)


def test_a_schema_is_made_of_the_column() -> None:
    line = pa.struct([("item", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
    kind = pa.struct([("id", pa.int64()), ("lines", pa.list_(line)), ("by_name", pa.map_(pa.string(), line))])
    row = {"id": None, "lines": [{"item": "tea", "at": AT}], "by_name": [("x", {"item": None, "at": None})]}
    plan = write_plan({"topic": "t", "value.format": "protobuf"})
    (data,) = written(plan, kind, row)
    from pyspark.sql.pandas.types import from_arrow_type

    text = made_protobuf(from_arrow_type(kind), "value")
    assert decoded(plan_for(**{"value.schema": text}), data) == ([row], {})
    with pytest.raises(EncodingFailed, match=r"d: decimal.* has no counterpart in Protobuf; cast it"):
        written(plan, pa.struct([("d", pa.decimal128(5, 1))]), {"d": Decimal("1.5")})


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def test_the_writers_schema_says_which_message_it_is(registry: SchemaRegistry) -> None:
    known = registry.add("t-value", ORDER, schemaType="PROTOBUF")
    renamed = registry.add("other", ORDER.replace("Order", "Invoice"), schemaType="PROTOBUF")
    avro = registry.add("avro", '"string"')
    plan = read_plan({"subscribe": "t", "value.format": "protobuf", "schema.registry.url": registry.url})
    rows, errors = decoded(
        plan,
        framed_by_id(known, b"\x08\x05", (0,)),
        framed_by_id(known, b"\x08\x05", (1,)),
        framed_by_id(known, b"\x08\x05", (5,)),
        framed_by_id(renamed, b"\x08\x05", (0,)),
        framed_by_id(avro, b"\x08\x05", (0,)),
        framed_by_id(99, b"\x08\x05", (0,)),
        b"\x08\x05",
        framed_by_id(known, b"")[:5] + b"\xff",
    )
    assert rows == [{**EMPTY, "id": 5}, *[None] * 7]
    for row, problem in enumerate(
        ("it is a shop.Other, not a shop.Order", "lead nowhere", "it is a shop.Invoice", "is AVRO, not PROTOBUF",
         "40403 Schema not found", "no schema id before it", "indexes are cut off"), 1
    ):  # fmt: skip
        assert problem in errors[row]


def test_an_id_that_was_refused_is_asked_for_again(registry: SchemaRegistry) -> None:
    from moldau.spark.values.protobuf_values import ProtobufDecoder

    now = [0.0]
    plan = plan_for(**{"schema.registry.url": registry.url})
    side = plan.value
    assert side.schema is not None and side.message is not None
    decoder = ProtobufDecoder(side.schema, side.message, side.kind, plan.registry, lambda: now[0])  # type: ignore[arg-type]
    column = pa.array([framed_by_id(1, b"", (0,))] * 3, pa.binary())
    assert len(decoder.decode(column)[1]) == 3
    assert len(registry.requests) == 1
    registry.add("t-value", ORDER, schemaType="PROTOBUF")
    assert len(decoder.decode(column)[1]) == 3
    now[0] += REFUSED_SECONDS
    assert decoder.decode(column)[1] == {}


def test_googles_own_recursive_value_is_refused() -> None:
    import base64

    text = base64.b64encode(struct_pb2.DESCRIPTOR.serialized_pb).decode()
    with pytest.raises(OptionError, match="contains itself"):
        plan_for(**{"value.schema": text})
