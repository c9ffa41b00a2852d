"""Avro schemas that take names from others, read as one; fastavro is the judge of what they mean."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from moldau.schemas.avro_references import merged
from moldau.spark.values.avro_types import parse_avro, spark_type

MONEY = {
    "type": "record",
    "name": "Money",
    "namespace": "shop.types",
    "fields": [
        {"name": "cents", "type": "long"},
        {"name": "in", "type": {"type": "enum", "name": "Currency", "symbols": ["EUR", "CZK"]}},
    ],
}
LINE = {
    "type": "record",
    "name": "shop.Line",
    "fields": [{"name": "what", "type": "string"}, {"name": "price", "type": "shop.types.Money"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "home", "type": ["null", "shop.types.Currency"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": "Line"}},
        {"name": "by_name", "type": {"type": "map", "values": "shop.types.Money"}},
    ],
}
PRICE = {"cents": 5, "in": "EUR"}
VALUE = {"home": "CZK", "lines": [{"what": "shoe", "price": PRICE}], "by_name": {"all": PRICE}}


def read_back(schema: Any, value: Any, writer: Any = None) -> Any:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, writer or fastavro.parse_schema(schema), value)
    stream.seek(0)
    return fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)


@pytest.mark.parametrize("referred", [[LINE, MONEY], [MONEY, LINE]])
def test_what_is_referred_to_is_put_in_once(referred: list[Any]) -> None:
    """As if fastavro had been given the schemas one after the other."""
    named: dict[str, Any] = {}
    for schema in (MONEY, LINE):
        fastavro.parse_schema(schema, named)
    as_given = fastavro.parse_schema(ORDER, named)
    assert read_back(merged(ORDER, referred), VALUE, as_given) == VALUE
    assert spark_type(merged(ORDER, referred)).simpleString() == (
        "struct<home:string,lines:array<struct<what:string,price:struct<cents:bigint,in:string>>>,"
        "by_name:map<string,struct<cents:bigint,in:string>>>"
    )


def test_a_name_means_the_type_of_its_own_namespace_first() -> None:
    inner = {"type": "fixed", "name": "Id", "size": 1}
    outer = {"type": "fixed", "name": "a.Id", "size": 2}
    schema = {"type": "record", "name": "a.R", "fields": [{"name": "id", "type": "Id"}]}
    assert read_back(merged(schema, [inner, outer]), {"id": b"12"}) == {"id": b"12"}
    assert read_back(merged(schema, [inner]), {"id": b"1"}) == {"id": b"1"}, "as Java takes it too"


def test_an_inherited_namespace_is_part_of_the_name() -> None:
    text = """{"type": "record", "name": "R", "namespace": "a.b", "fields": [
        {"name": "x", "type": {"type": "record", "name": "P", "fields": [{"name": "n", "type": "int"}]}},
        {"name": "y", "type": "a.b.P"}, {"name": "z", "type": ["null", "P"]}]}"""
    kind = spark_type(parse_avro(text)).simpleString()
    assert kind == "struct<x:struct<n:int>,y:struct<n:int>,z:struct<n:int>>"
    point = {"n": 1}
    assert read_back(parse_avro(text), {"x": point, "y": point, "z": point})["y"] == point


@pytest.mark.parametrize(
    "schema", [5, None, [], {}, {"type": "record"}, {"type": ["null"]}, {"type": "record", "name": "R", "fields": [1]}]
)
def test_what_is_no_schema_is_left_to_others(schema: Any) -> None:
    merged(schema, [schema])
