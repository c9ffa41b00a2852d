"""What we call compatible is: documents of the old JSON Schema, generated, are allowed by the new one (jsonschema).
And the other way round: what only takes a limit away, or moves it outwards, is compatible.

Left out, since the rules are Confluent's there and not sound: defaults of required properties, required names that have
no property, oneOf and not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from moldau.schemas.json_compatibility import json_differences
from moldau.schemas.json_schema import parse_json_schema

NAMES = "abc"
ANY = st.sampled_from(
    [None, True, 0, -3, 2.5, 40, "", "x", "long text", [], [1, "x"], {}, {"a": 1}, {"c": "x", "z": 0}]
)
OBJECTS = st.dictionaries(st.sampled_from("abcz"), ANY, max_size=3)
ENOUGH = 0.1
"""The share of pairs that have to be compatible, and different: else nothing is tested."""


@st.composite
def strings(draw: st.DrawFn) -> Any:
    bounds: dict[str, Any] = draw(st.fixed_dictionaries({}, optional={"minLength": st.integers(0, 2)}))
    return {"type": "string", **bounds, **draw(maybe("maxLength", st.integers(2, 9)))}


@st.composite
def numbers(draw: st.DrawFn) -> Any:
    found = {"type": draw(st.sampled_from(["integer", "number"]))}
    low, high = draw(st.sampled_from(["minimum", "exclusiveMinimum"])), draw(st.sampled_from(["maximum", "multipleOf"]))
    return {**found, **draw(maybe(low, st.integers(-5, 0))), **draw(maybe(high, st.sampled_from([2, 4, 8])))}


def maybe(keyword: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(st.just({}), value.map(lambda found: {keyword: found}))


def enums() -> st.SearchStrategy[Any]:
    return st.lists(st.sampled_from([0, "x", None, "long text"]), min_size=1, max_size=3, unique=True).map(
        lambda found: {"enum": found}
    )


def schemas(depth: int) -> st.SearchStrategy[Any]:
    simple = st.one_of(strings(), numbers(), enums(), st.sampled_from([{}, {"type": "boolean"}, {"type": "null"}]))
    if depth == 0:
        return simple
    return st.one_of(simple, objects(depth - 1), arrays(depth - 1), unions(depth - 1))


@st.composite
def objects(draw: st.DrawFn, depth: int) -> Any:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    found: dict[str, Any] = {"type": "object", "properties": {name: draw(schemas(depth)) for name in names}}
    required = [name for name in names if draw(st.booleans())]
    if required:
        found["required"] = required
    return {**found, **draw(maybe("additionalProperties", st.one_of(st.booleans(), schemas(0))))}


@st.composite
def arrays(draw: st.DrawFn, depth: int) -> Any:
    found = {"type": "array", **draw(maybe("items", schemas(depth))), **draw(maybe("maxItems", st.integers(1, 3)))}
    return {**found, **draw(maybe("minItems", st.integers(0, 1))), **draw(maybe("uniqueItems", st.booleans()))}


def unions(depth: int) -> st.SearchStrategy[Any]:
    typed = st.lists(st.sampled_from(["string", "integer", "null", "boolean"]), min_size=2, max_size=3, unique=True)
    return st.one_of(
        st.lists(schemas(depth), min_size=1, max_size=3).map(lambda found: {"anyOf": found}),
        typed.map(lambda found: {"type": found}),
    )


@st.composite
def changed(draw: st.DrawFn, schema: Any) -> Any:
    """Something near it: one place is another."""
    if not schema or not draw(st.integers(0, 5)):
        return draw(st.one_of(schemas(0), st.just({}), st.just({"anyOf": [schema, {"type": "null"}]})))
    found = dict(schema)
    keyword = draw(st.sampled_from(sorted(found)))
    match keyword:
        case "properties":
            properties = dict(found["properties"])
            name = draw(st.sampled_from(NAMES))
            if name in properties and draw(st.booleans()):
                properties[name] = draw(changed(properties[name]))
            elif name in properties:
                del properties[name]
            else:
                properties[name] = draw(schemas(0))
            found["properties"] = properties
            found["required"] = [each for each in found.get("required", ()) if each in properties]
            return found
        case "items":
            return {**found, "items": draw(changed(found["items"]))}
        case "anyOf":
            kept = [draw(changed(each)) if draw(st.booleans()) else each for each in found["anyOf"]]
            return {"anyOf": draw(st.sampled_from([kept, [*kept, {"type": "null"}], list(reversed(kept))]))}
        case "enum":
            return draw(enums())
        case "type":
            wider = {"integer": "number"}.get(str(found["type"]), found["type"])
            return {**found, "type": wider}
        case "required":
            return {**found, "required": found["required"][1:]}
    if draw(st.booleans()):
        del found[keyword]
    elif isinstance(found[keyword], int) and not isinstance(found[keyword], bool):
        moved = found[keyword] + draw(st.sampled_from([1, 2, -1]))
        found[keyword] = moved if "imum" in keyword else max(1, moved)
    return found


def documents(schema: Any) -> st.SearchStrategy[Any]:
    """Those of the schema are among them."""
    if "anyOf" in schema:
        return st.one_of(*map(documents, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object":
            properties = schema["properties"]
            needed = {name: documents(properties[name]) for name in schema.get("required", ())}
            others = {name: documents(each) for name, each in properties.items() if name not in needed}
            extra = schema.get("additionalProperties", True)
            known = st.fixed_dictionaries(needed, optional=others)
            if extra is False:
                return known
            more = st.dictionaries(
                st.sampled_from("abcz"), documents(extra) if isinstance(extra, dict) else ANY, max_size=2
            )
            return st.tuples(known, more).map(lambda both: {**both[1], **both[0]})
        case "array":
            return st.lists(documents(schema.get("items", {})), max_size=3)
        case "string":
            return st.sampled_from(["", "x", "xy", "text", "long text"])
        case "integer" | "number":
            return st.sampled_from([-5, -1, 0, 1, 2, 4, 5, 8, 9, 2.5])
    return ANY


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    old = draw(schemas(2))
    new = draw(changed(old))
    if draw(st.booleans()):
        new = draw(changed(new))
    allowed = Draft7Validator(old)
    return (
        old,
        new,
        [each for each in draw(st.lists(documents(old), min_size=6, max_size=12)) if allowed.is_valid(each)],
    )


def compatible(old: Any, new: Any) -> bool:
    reader, writer = (parse_json_schema(json.dumps(each), {}) for each in (new, old))
    return not json_differences(reader, writer)


def judge(examples: int) -> None:
    seen: list[bool] = []

    @settings(max_examples=examples, deadline=None)
    @given(cases())
    def check(case: tuple[Any, Any, list[Any]]) -> None:
        old, new, found = case
        ours = compatible(old, new)
        seen.append(ours and old != new and bool(found))
        assert not ours or [each for each in found if not Draft7Validator(new).is_valid(each)] == []

    check()
    assert sum(seen) >= ENOUGH * len(seen)


def test_documents_of_the_old_schema_are_allowed_by_a_compatible_one() -> None:
    judge(200)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_documents_of_thousands_of_schemas() -> None:
    judge(5_000)


@settings(max_examples=100, deadline=None)
@given(schemas(2))
def test_a_schema_is_compatible_with_itself(schema: Any) -> None:
    assert compatible(schema, schema)


RELAXED = {"minLength": -1, "minItems": -1, "maxLength": 1, "maxItems": 1, "minimum": -1, "exclusiveMinimum": -1,
           "maximum": 1}  # fmt: skip
"""Which way each limit moves outwards."""
GOES = (*RELAXED, "multipleOf", "uniqueItems", "required")
"""May be left out."""


@st.composite
def wider(draw: st.DrawFn, schema: Any) -> Any:
    """It allows all that the schema allows, and says so at one place."""
    places = [keyword for keyword in schema if keyword in {*GOES, "enum", "type", "items", "anyOf", "properties"}]
    if "additionalProperties" in schema:
        places.append("additionalProperties")
    if not places:
        return schema
    keyword = draw(st.sampled_from(sorted(places)))
    value, rest = schema[keyword], {name: each for name, each in schema.items() if name != keyword}
    if keyword in GOES and draw(st.booleans()):
        return rest
    match keyword:
        case "required":
            return {**rest, "required": value[1:]} if len(value) > 1 else rest
        case "enum":
            return {**rest, "enum": [*value, "one more"]}
        case "type":
            return {**rest, "type": wider_type(value)}
        case "items":
            return {**rest, "items": draw(wider(value))}
        case "anyOf":
            made = draw(wider(value[0]))
            if made in value[1:]:  # the rules compare sets
                return schema
            return {"anyOf": draw(st.sampled_from([[*value[1:], made], [*value, {"type": "array", "maxItems": 1000}]]))}
        case "properties":
            if not value:
                return schema
            name = draw(st.sampled_from(sorted(value)))
            return {**rest, "properties": {**value, name: draw(wider(value[name]))}}
        case "additionalProperties":
            return {**rest, keyword: draw(wider(value)) if isinstance(value, dict) else True}
    if keyword not in RELAXED:
        return schema
    moved = value + RELAXED[keyword]
    return {**rest, keyword: moved if "imum" in keyword else max(0, moved)}


def wider_type(given: Any) -> Any:
    if isinstance(given, list):
        return [*given, "array"] if "array" not in given else given
    return {"integer": "number"}.get(given, given)


def judge_wider(examples: int) -> None:
    seen: list[bool] = []

    @settings(max_examples=examples, deadline=None)
    @given(schemas(2).flatmap(lambda old: st.tuples(st.just(old), wider(old).flatmap(wider))))
    def check(pair: tuple[Any, Any]) -> None:
        old, new = pair
        seen.append(old != new)
        assert compatible(old, new)

    check()
    assert sum(seen) >= ENOUGH * len(seen)


def test_what_allows_more_is_compatible() -> None:
    judge_wider(200)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_thousands_of_what_allows_more() -> None:
    judge_wider(5_000)
