"""What the options of typed keys and values come to."""

from __future__ import annotations

import pickle

import pytest

from moldau.spark.option_table import OptionError
from moldau.spark.schema import EVERY_COLUMN
from moldau.spark.values.plan import read_plan, write_plan

JSON = {"value.format": "json", "value.schema": "id BIGINT NOT NULL, tags ARRAY<STRING>"}
USER = '{"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}'


def test_nothing_is_typed_by_default() -> None:
    plan = read_plan({"subscribe": "t"})
    assert not plan.typed
    assert plan.offered(EVERY_COLUMN) == EVERY_COLUMN
    assert plan.needed(("value", "offset")) == ("value", "offset")


def test_the_value_becomes_a_struct_and_errors_get_columns() -> None:
    offered = read_plan(JSON).offered(EVERY_COLUMN)
    assert offered["value"].dataType.simpleString() == "struct<id:bigint,tags:array<string>>"
    assert offered["value"].dataType["id"].nullable  # type: ignore[index]
    assert offered.fieldNames() == [*EVERY_COLUMN.fieldNames(), "_corrupt_value", "_error"]
    both = read_plan(JSON | {"key.format": "string"}).offered(EVERY_COLUMN)
    assert both.fieldNames()[-3:] == ["_corrupt_key", "_corrupt_value", "_error"]
    assert both["key"].dataType.simpleString() == "string"


@pytest.mark.parametrize("mode", ["DROPMALFORMED", "failfast"])
def test_only_permissive_has_columns_for_errors(mode: str) -> None:
    plan = read_plan(JSON | {"mode": mode})
    assert plan.mode == mode.upper()
    assert plan.offered(EVERY_COLUMN).fieldNames() == EVERY_COLUMN.fieldNames()


def test_flattened() -> None:
    plan = read_plan(JSON | {"flatten": "true"})
    names = plan.offered(EVERY_COLUMN).fieldNames()
    assert names[:4] == ["key", "id", "tags", "topic"]
    assert plan.needed(("id", "topic")) == ("value", "topic", "offset")
    with pytest.raises(OptionError, match="two columns 'offset'"):
        read_plan(JSON | {"value.schema": "offset INT", "flatten": "true"}).offered(EVERY_COLUMN)


def test_only_what_is_wanted_is_needed() -> None:
    plan = read_plan(JSON | {"key.format": "string"})
    assert plan.needed(("value", "timestamp")) == ("value", "timestamp", "offset")
    assert plan.needed(("_corrupt_key",)) == ("key", "offset")
    assert plan.needed(("_error",)) == ("key", "value", "offset")


def test_a_plan_travels() -> None:
    plan = read_plan(
        {"value.format": "avro", "value.schema": USER, "schema.registry.url": "http://a:1, http://b:2",
         "schema.registry.basic.auth.user.info": "me:secret"}
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.registry is not None and plan.registry.urls == ("http://a:1", "http://b:2")
    assert "secret" not in repr(plan)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"value.format": "xml"}, "option 'value.format': 'xml' is none of raw, string, json, avro"),
        ({"value.format": "json"}, "option 'value.schema': is missing"),
        ({"key.format": "json", "key.schema": "a foo"}, "option 'key.schema': 'foo' is no type"),
        ({"value.format": "string", "value.schema": "a int"}, "has no meaning with value.format=string"),
        ({"value.schema": "a int"}, "has no meaning with value.format=raw"),
        ({"value.format": "avro"}, "option 'value.schema': is missing: value.format=avro needs it"),
        ({"value.format": "avro", "value.schema": "{"}, "not the JSON of an Avro schema"),
        ({"value.format": "avro", "value.schema": '["int", "string"]'}, "union .* has no counterpart"),
        (
            {"value.format": "avro", "schema.registry.url": "http://x:1", "subscribe": "a,b"},
            "'value.subject': is missing",
        ),
        ({"schema.registry.url": "registry:8081"}, "no address such as"),
        ({"mode": "LENIENT"}, "option 'mode'"),
    ],
)
def test_what_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        read_plan(options)


def test_writing_needs_no_schema() -> None:
    plan = write_plan({"value.format": "json", "key.format": "avro", "topic": "users"})
    assert [(side.name, side.format, side.subject) for side in plan.sides] == [
        ("key", "avro", "users-key"),
        ("value", "json", "users-value"),
    ]
    with pytest.raises(OptionError, match=r"value\.schema"):
        write_plan({"value.format": "avro", "value.schema": "{"})
