"""Which changes of JSON Schema and Protobuf are compatible, by what name and at which place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moldau.schemas.kinds import differences, parse
from moldau.schemas.levels import Earlier, compared, problems

CLOSED = {"additionalProperties": False}


def thing(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (INTEGER, NUMBER, []),
        (NUMBER, INTEGER, ["TYPE_NARROWED #/"]),
        (TEXT, INTEGER, ["TYPE_CHANGED #/"]),
        (TEXT, {"type": ["string", "null"]}, []),
        ({"type": ["string", "null"]}, TEXT, ["TYPE_CHANGED #/"]),
        (TEXT, {}, []),
        ({}, TEXT, ["TYPE_CHANGED #/"]),
        (TEXT, {"type": "string", "maxLength": 5}, ["MAX_LENGTH_ADDED #/maxLength"]),
        ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 6}, []),
        ({"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["a", "b"]}, []),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED #/enum"]),
        ({"multipleOf": 10}, {"multipleOf": 5}, []),
        ({"multipleOf": 5}, {"multipleOf": 10}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
        (thing(a=TEXT), thing(), []),
        (thing(), thing(a=TEXT), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
        (thing(), thing(a={}), []),
        (thing() | CLOSED, thing(a=TEXT) | CLOSED, []),
        (thing(a=TEXT) | CLOSED, thing() | CLOSED, ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"]),
        (
            thing() | CLOSED,
            thing(a=TEXT) | CLOSED | {"required": ["a"]},
            ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
        ),
        (thing(a=TEXT), thing(a=TEXT) | {"required": ["a"]}, ["REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
        (thing(), thing() | CLOSED, ["ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"]),
        (
            thing() | {"patternProperties": {"^x": TEXT}, "additionalProperties": False},
            thing(xa=TEXT) | {"patternProperties": {"^x": TEXT}, "additionalProperties": False},
            [],
        ),
        (thing(a=thing(b=TEXT)), thing(a=thing(b=INTEGER)), ["TYPE_CHANGED #/properties/a/properties/b"]),
        ({"oneOf": [TEXT, INTEGER]}, {"oneOf": [INTEGER, TEXT, {"type": "null"}]}, []),
        ({"oneOf": [TEXT, INTEGER]}, {"oneOf": [INTEGER]}, ["SUM_TYPE_NARROWED #/"]),
        ({"allOf": [TEXT, {"maxLength": 3}]}, {"allOf": [TEXT]}, []),
        ({"type": "array", "items": TEXT}, {"type": "array", "items": INTEGER}, ["TYPE_CHANGED #/items"]),
        ({"type": "array"}, {"type": "array", "items": TEXT}, ["SCHEMA_ADDED #/items"]),
        (
            {"type": "array", "items": [TEXT]},
            {"type": "array", "items": [TEXT, TEXT]},
            ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
        ),
        ({"not": TEXT}, {"not": {"type": ["string", "null"]}}, ["NOT_TYPE_EXTENDED #/not"]),
        (
            {"$ref": "#/definitions/n", "definitions": {"n": thing(next={"$ref": "#/definitions/n"}, v=TEXT)}},
            {"$ref": "#/definitions/n", "definitions": {"n": thing(next={"$ref": "#/definitions/n"}, v=INTEGER)}},
            ["TYPE_CHANGED #/properties/v"],
        ),
    ],
)
def test_json(old: Any, new: Any, found: list[str]) -> None:
    reader, writer = (parse("JSON", json.dumps(each), {}) for each in (new, old))
    assert [f"{each.type} {each.path}" for each in differences("JSON", reader, writer)] == found


def test_the_lenient_policy_lets_properties_come_and_go() -> None:
    reader, writer = (parse("JSON", json.dumps(each), {}) for each in (thing(a=TEXT), thing()))
    assert differences("JSON", reader, writer) != []
    assert differences("JSON", reader, writer, lenient=True) == []


def message(body: str, rest: str = "", head: str = 'syntax = "proto3"; package p;') -> str:
    return f"{head} message M {{ {body} }} {rest}"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (message("int32 a = 1;"), message("int64 renamed = 1; string b = 2;"), []),
        (message("int32 a = 1; string b = 2;"), message("int32 a = 1;"), []),
        (message("int32 a = 1;"), message("string a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
        (message("int32 a = 1;"), message("sint32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED #/M/1"]),
        (message("string a = 1;"), message("bytes a = 1;"), []),
        (message("E a = 1;", "enum E { X = 0; }"), message("int32 a = 1;"), []),
        (message("int32 a = 1;"), message("M a = 1;"), ["FIELD_KIND_CHANGED #/M/1"]),
        (
            message("N a = 1; message N {}"),
            message("O a = 1; message N {} message O {}"),
            ["FIELD_NAMED_TYPE_CHANGED #/M/1"],
        ),
        (
            message("map<string, int32> a = 1;"),
            message("map<string, string> a = 1;"),
            ["FIELD_SCALAR_KIND_CHANGED #/M/1"],
        ),
        (message("optional int32 a = 1;"), message("repeated int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED #/M/1"]),
        (message("", "message N {}"), message(""), ["MESSAGE_REMOVED #/N"]),
        (message(""), message("", head='syntax = "proto3"; package q;'), ["PACKAGE_CHANGED #/"]),
        (message("int32 a = 1;"), message("oneof o { int32 a = 1; int32 b = 2; }"), []),
        (
            message("int32 a = 1; int32 b = 2;"),
            message("oneof o { int32 a = 1; int32 b = 2; }"),
            ["MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o"],
        ),
        (
            message("oneof o { int32 a = 1; int32 b = 2; }"),
            message("oneof o { int32 a = 1; }"),
            ["ONEOF_FIELD_REMOVED #/M/o/2"],
        ),
        (
            message("", head='syntax = "proto2"; package p;'),
            message("required int32 a = 1;", head='syntax = "proto2"; package p;'),
            ["REQUIRED_FIELD_ADDED #/M/1"],
        ),
    ],
)
def test_protobuf(old: str, new: str, found: list[str]) -> None:
    reader, writer = (parse("PROTOBUF", each, {}) for each in (new, old))
    assert [f"{each.type} {each.path}" for each in differences("PROTOBUF", reader, writer)] == found


def test_a_change_of_what_is_imported_is_seen() -> None:
    text = 'syntax = "proto3"; import "o.proto"; message M { o.O x = 1; }'
    other = 'syntax = "proto3"; package o; message O {{ {} a = 1; }}'
    old, new = (parse("PROTOBUF", text, {"o.proto": other.format(kind)}) for kind in ("int32", "string"))
    found = [each.type for each in differences("PROTOBUF", new, old)]
    assert found == ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"]


@pytest.mark.parametrize(
    ("level", "good"),
    [("NONE", True), ("BACKWARD", True), ("FORWARD", False), ("FULL", False), ("BACKWARD_TRANSITIVE", False)],
)
def test_a_level_looks_in_its_direction_and_as_far_as_it_says(level: str, good: bool) -> None:
    texts = {1: '"string"', 2: '"int"', 3: '"long"'}
    parsed = {version: parse("AVRO", text, {}) for version, text in texts.items()}
    earlier = [Earlier(version, "AVRO", parsed[version]) for version in compared(level, [1, 2])]
    assert (problems(level, "AVRO", parsed[3], earlier) == []) == good
