"""JSON behind the id of a JSON Schema, and the types that JSON Schemas stand for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

from moldau.schemas.framing import framed_by_id
from moldau.spark.option_table import OptionError
from moldau.spark.values.decoding import decoder_of
from moldau.spark.values.encoding import EncodingFailed, encoded
from moldau.spark.values.json_schema_types import schema_for, spark_type
from moldau.spark.values.plan import ValuePlan, read_plan, write_plan
from tests.support.schema_registry import SchemaRegistry

TEXT = {"type": "string"}
NULL = {"type": "null"}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": ["null", "number"]}, "double"),
        ({"oneOf": [NULL, {"type": "boolean"}]}, "boolean"),
        ({"anyOf": [{"oneOf": [NULL, TEXT]}, NULL]}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array", "items": [TEXT, TEXT]}, "string"),
        ({"type": "object", "additionalProperties": TEXT}, "map<string,string>"),
        ({"type": "object"}, "string"),
        ({"properties": {"a": TEXT, "b": {"enum": [1, "x"]}}}, "struct<a:string,b:string>"),
        ({"oneOf": [TEXT, {"type": "integer"}]}, "string"),
        (True, "string"),
        ({"$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}}, "bigint"),
        ({"oneOf": [NULL, {"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}}, "bigint"),
        (
            {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}},
            "struct<next:struct<next:string,v:bigint>,v:bigint>",
        ),
        ({"properties": {"p": {"$ref": "place.json"}, "q": {"$ref": "place.json#/definitions/n"}}},
         "struct<p:struct<n:bigint>,q:bigint>"),
        ({"properties": {"p": {"$ref": "gone.json"}}}, "struct<p:string>"),
    ],
)  # fmt: skip
def test_types(schema: Any, kind: str) -> None:
    place = {"properties": {"n": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "integer"}}}
    assert spark_type(json.dumps(schema), {"place.json": json.dumps(place)}).simpleString() == kind


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}},
    "required": ["id"],
}


def plan_of(registry: SchemaRegistry, **more: str) -> ValuePlan:
    return read_plan({"subscribe": "t", "value.format": "jsonschema", "schema.registry.url": registry.url, **more})


def decoded(plan: ValuePlan, *values: bytes | None) -> tuple[list[Any], dict[int, str]]:
    found, errors = decoder_of(plan.value, plan).decode(pa.array(values, pa.binary()))
    return found.to_pylist(), errors


def test_rows_with_and_without_their_schema(registry: SchemaRegistry) -> None:
    known = registry.add("t-value", json.dumps(ORDER), schemaType="JSON")
    avro = registry.add("avro", '"string"')
    good = framed_by_id(known, b'{"id":5,"at":"2026-02-03T04:05:06Z"}')
    row = {"id": 5, "at": datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)}
    rows, errors = decoded(
        plan_of(registry), good, None, framed_by_id(avro, b"{}"), framed_by_id(99, b"{}"), b'{"id":5}', b"", good,
        framed_by_id(known, b'{"id":"x"}'), framed_by_id(known, b"{"),
    )  # fmt: skip
    assert rows == [row, None, None, None, None, None, row, None, None]
    assert set(errors) == {2, 3, 4, 5, 7, 8}
    for place, problem in (
        (2, "is AVRO, not JSON"),
        (3, "40403 Schema not found"),
        (4, "no schema id"),
        (5, "nothing"),
    ):
        assert problem in errors[place]
    assert len([each for each in registry.requests if "/ids/99" in each]) == 1
    narrow = plan_of(registry, **{"value.schema": "id INT"})
    assert decoded(narrow, good) == ([{"id": 5}], {})


def test_what_is_written_fits_the_schema_that_is_registered(registry: SchemaRegistry) -> None:
    kind = pa.struct([
        ("id", pa.int64()), ("on", pa.date32()), ("raw", pa.binary()), ("tags", pa.list_(pa.string())),
        ("more", pa.map_(pa.string(), pa.float64())),
    ])  # fmt: skip
    row = {"id": None, "on": date(2026, 1, 2), "raw": b"\xff", "tags": ["a", None], "more": [("x", 1.5)]}
    options = {"topic": "t", "value.format": "jsonschema", "schema.registry.url": registry.url}
    plan = write_plan(options)
    (data,) = encoded(pa.array([row], kind), plan.value, plan).to_pylist()
    schema = json.loads(registry.schemas[0]["schema"])
    jsonschema.validators.validator_for(schema).check_schema(schema)
    jsonschema.validate(json.loads(data[5:]), schema)
    assert registry.schemas[0]["schema"] == schema_for(plan_of_column(kind), "value")
    registry.schemas[0]["schemaType"] = "JSON"
    assert decoded(plan_of(registry), data) == ([row], {})


def plan_of_column(kind: pa.DataType) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind)


def test_a_given_schema_is_held_against_every_row(registry: SchemaRegistry) -> None:
    schema = json.dumps({"properties": {"id": {"minimum": 3}}, "required": ["id"]})
    plan = write_plan(
        {"topic": "t", "value.format": "jsonschema", "schema.registry.url": registry.url, "value.schema": schema}
    )
    good = pa.array([{"id": 3}], pa.struct([("id", pa.int64())]))
    assert encoded(good, plan.value, plan).to_pylist() == [b'\0\0\0\0\1{"id":3}']
    bad = pa.array([{"id": 2}], pa.struct([("id", pa.int64())]))
    with pytest.raises(EncodingFailed, match="breaks its schema at id: 2 is less than the minimum of 3"):
        encoded(bad, plan.value, plan)


def test_it_needs_a_registry() -> None:
    with pytest.raises(OptionError, match=r"'schema\.registry\.url': is missing: value\.format=jsonschema needs it"):
        read_plan({"subscribe": "t", "value.format": "jsonschema"})
    with pytest.raises(OptionError, match=r"'value\.message': has no meaning with value\.format=avro"):
        read_plan({"subscribe": "t", "value.format": "avro", "value.schema": '"int"', "value.message": "x"})
    with pytest.raises(OptionError, match=r"'value\.message': has no meaning when writing without value\.schema"):
        write_plan({"topic": "t", "value.format": "protobuf", "value.message": "x"})
