"""What the options of typed keys and values come to."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from moldau.spark.option_table import OptionError
from moldau.spark.schema import EVERY_COLUMN
from moldau.spark.values.plan import ValuePlan, read_plan, write_plan

JSON = {"value.format": "json", "value.schema": "id BIGINT NOT NULL, tags ARRAY<STRING>"}
USER = '{"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}'
AVRO = {"value.format": "avro", "value.schema": USER}
REGISTRY = {"schema.registry.url": "http://registry:8081"}


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
        ({"mode": "FAILFAST"}, "option 'mode': has no meaning while key.format and value.format are raw"),
        ({"flatten": "true"}, "option 'flatten': has no meaning: neither the key nor the value is a struct"),
        ({"flatten": "true", "value.format": "string"}, "option 'flatten': has no meaning"),
        ({"flatten": "true", "key.format": "json", "key.schema": "ARRAY<INT>"}, "option 'flatten': has no meaning"),
        (AVRO | {"value.subject": "s", **REGISTRY}, "option 'value.subject': contradicts value.schema"),
    ],
)
def test_what_is_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        read_plan(options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (REGISTRY, "option 'schema.registry.url': has no meaning: neither key.format nor value.format is one of avro"),
        (REGISTRY | {"value.format": "string"}, "option 'schema.registry.url': has no meaning"),
        ({"schema.registry.basic.auth.user.info": "me:secret"}, "info': has no meaning without schema.registry.url"),
        (AVRO | {"schema.registry.basic.auth.user.info": "a:b"}, "info': has no meaning without schema.registry.url"),
        (AVRO | {"value.subject": "s"}, "option 'value.subject': has no meaning without schema.registry.url"),
        (AVRO | REGISTRY | {"key.subject": "s"}, "option 'key.subject': has no meaning with key.format=raw"),
        (AVRO | REGISTRY | {"value.subject": " "}, "option 'value.subject': is empty"),
    ],
)
@pytest.mark.parametrize("plan", [read_plan, write_plan])
def test_what_of_the_registry_is_refused(
    plan: Callable[[dict[str, str]], ValuePlan], options: dict[str, str], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        plan(options)


@pytest.mark.parametrize("form", ["raw", "string", "json"])
@pytest.mark.parametrize("side", ["key", "value"])
@pytest.mark.parametrize("schema", ["id BIGINT", "not a schema <<"])
def test_a_schema_is_refused_where_the_column_decides(form: str, side: str, schema: str) -> None:
    problem = rf"option '{side}\.schema': has no meaning when writing with {side}\.format={form}"
    with pytest.raises(OptionError, match=problem):
        write_plan({f"{side}.format": form, f"{side}.schema": schema})


def test_registering_needs_a_registry() -> None:
    with pytest.raises(OptionError, match=r"option 'auto\.register\.schemas': has no meaning without"):
        write_plan(AVRO | {"auto.register.schemas": "false"})
    assert not write_plan(AVRO | REGISTRY | {"auto.register.schemas": "false"}).register
    assert write_plan(AVRO | REGISTRY | {"value.subject": "s"}).value.subject == "s"


def test_writing_needs_no_schema() -> None:
    plan = write_plan({"value.format": "json", "key.format": "avro", "topic": "users"})
    assert [(side.name, side.format, side.subject) for side in plan.sides] == [
        ("key", "avro", "users-key"),
        ("value", "json", "users-value"),
    ]
    with pytest.raises(OptionError, match=r"value\.schema"):
        write_plan({"value.format": "avro", "value.schema": "not a schema <<"})
