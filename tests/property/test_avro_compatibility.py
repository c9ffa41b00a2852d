"""Our judgement of Avro compatibility is that of Apache's library, over generated pairs of schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.schemas.avro import parse_avro
from moldau.schemas.avro_compatibility import avro_differences

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS: dict[str, Any] = {"int": 1, "long": 2, "string": "x", "boolean": True, "null": None, "double": 0.5}


def enums(name: str) -> st.SearchStrategy[Any]:
    symbols = st.lists(st.sampled_from("ABC"), min_size=1, max_size=3, unique=True)
    return symbols.map(lambda found: {"type": "enum", "name": f"E{name}", "symbols": found})


def fixed(name: str) -> st.SearchStrategy[Any]:
    return st.integers(1, 2).map(lambda size: {"type": "fixed", "name": f"F{name}", "size": size})


def types(depth: int, name: str) -> st.SearchStrategy[Any]:
    simple = st.one_of(st.sampled_from(PRIMITIVES), enums(name), fixed(name))
    if depth == 0:
        return simple
    inner = types(depth - 1, f"{name}i")
    return st.one_of(
        simple,
        inner.map(lambda items: {"type": "array", "items": items}),
        inner.map(lambda values: {"type": "map", "values": values}),
        unions(name),
        records(depth - 1, f"{name}r"),
    )


def unions(name: str) -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=4, unique=True)


@st.composite
def records(draw: st.DrawFn, depth: int, name: str) -> Any:
    fields = []
    for field in draw(st.lists(st.sampled_from("abcd"), max_size=3, unique=True)):
        kind = draw(types(depth, f"{name}{field}"))
        found = {"name": field, "type": kind}
        if isinstance(kind, str) and kind in DEFAULTS and draw(st.booleans()):
            found["default"] = DEFAULTS[kind]
        fields.append(found)
    return {
        "type": "record",
        "name": draw(st.sampled_from([f"R{name}", f"R{name}", f"R{name}", f"S{name}"])),
        "fields": fields,
    }


def theirs(reader: Any, writer: Any) -> bool:
    parsed = (avro.schema.parse(json.dumps(each)) for each in (reader, writer))
    found = ReaderWriterCompatibilityChecker().get_compatibility(*parsed)
    return bool(found.compatibility is SchemaCompatibilityType.compatible)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two schemas that have much in common: most pairs of strangers differ at once, and test nothing."""
    reader = draw(types(2, ""))
    return reader, draw(changed(reader)) if draw(st.integers(0, 9)) else draw(types(2, ""))


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(PRIMITIVES)) if isinstance(schema, str) else draw(st.sampled_from([schema, "int"]))
    if isinstance(schema, list):
        branches = list(dict.fromkeys([draw(st.sampled_from(PRIMITIVES)), *schema]))
        return draw(st.sampled_from([branches, schema[:1], schema[0], schema]))
    if not isinstance(schema, dict):
        return draw(st.sampled_from([schema, [schema, *[other for other in ("null", "int") if other != schema]]]))
    if schema["type"] == "enum":
        return {**schema, "symbols": draw(st.lists(st.sampled_from("ABC"), min_size=1, max_size=3, unique=True))}
    if schema["type"] == "fixed":
        return {**schema, "size": draw(st.integers(1, 2))}
    for part in ("items", "values"):
        if part in schema:
            return {**schema, part: draw(changed(schema[part]))}
    kept = [field for field in schema["fields"] if draw(st.integers(0, 4))]
    fields = [{"name": field["name"], "type": draw(changed(field["type"]))} for field in kept]
    return {**schema, "fields": fields}


@settings(max_examples=250, deadline=None)
@given(pairs())
def test_the_same_pairs_are_compatible(pair: tuple[Any, Any]) -> None:
    agree(*pair)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@settings(max_examples=10_000, deadline=None)
@given(pairs())
def test_thousands_of_the_same_pairs_are_compatible(pair: tuple[Any, Any]) -> None:
    agree(*pair)


WRAPPED = (
    lambda inner: inner,
    lambda inner: {"type": "array", "items": inner},
    lambda inner: ["null", inner] if inner != "null" else ["null"],
    lambda inner: {"type": "record", "name": "R", "fields": [{"name": "f", "type": inner}]},
)


@pytest.mark.parametrize("wrap", WRAPPED)
def test_every_pair_of_simple_types(wrap: Callable[[Any], Any]) -> None:
    for reader in PRIMITIVES:
        for writer in PRIMITIVES:
            agree(wrap(reader), wrap(writer))
            agree(wrap(reader), writer)
            agree(reader, wrap(writer))


def agree(reader: Any, writer: Any) -> None:
    ours = avro_differences(parse_avro(json.dumps(reader), {}), parse_avro(json.dumps(writer), {}))
    assert (not ours) == theirs(reader, writer), (reader, writer, ours)


@settings(max_examples=100, deadline=None)
@given(types(2, ""))
def test_a_schema_reads_itself_and_prints_stably(schema: Any) -> None:
    once = parse_avro(json.dumps(schema), {})
    again = parse_avro(once.canonical, {})
    assert again.canonical == once.canonical
    assert avro_differences(once, again) == []
