"""Schemas in worker processes: what comes back, and that neither time, memory nor a crash reaches the asker."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from moldau.schemas.descriptors import files_of
from moldau.schemas.model import SchemaError, guid_of
from moldau.schemas.protobuf import parse_protobuf
from moldau.schemas.workshop import Busy, Text, Workshop

OTHER = 'syntax = "proto3"; package other; message Place { string name = 1; }'
PROTO = """
syntax = "proto3"; // comments are lost
package shop;
import "google/protobuf/timestamp.proto"; import "other.proto";
import "confluent/meta.proto"; import "google/type/date.proto";
option java_package = "x.y";
message Order {
  option (confluent.message_meta) = {doc: "hi" tags: "x"};
  reserved 9, 11 to 13, 100 to max; reserved "gone";
  string name = 1 [(confluent.field_meta).doc = "d", deprecated = true, json_name = "n"];
  map<string, Line> lines = 2;
  message Line { int32 count = 1; optional int64 price = 2; Order parent = 3; }
  oneof pay { string card = 4; Line line = 5; }
  google.protobuf.Timestamp at = 6; other.Place place = 7; repeated State states = 8; google.type.Date day = 20;
}
enum State { option allow_alias = true; NEW = 0; FRESH = 0; DONE = -1; }
service Shop { rpc Buy (Order) returns (stream Order) { option deprecated = true; }
  rpc Sell (stream Order) returns (Order); }
"""
PROTO2 = r"""
syntax = "proto2";
message Old {
  required string a = 1 [default = "x\"\n\001"]; optional bytes b = 2 [default = "\377a"];
  repeated double c = 3 [packed = true];
  optional group Part = 4 { optional int32 x = 1; }
  extensions 100 to 199, 500;
  extend Old { optional string more = 100; }
  optional Kind kind = 5 [default = ONE]; enum Kind { ONE = 1; }
  optional float f = 6 [default = inf];
}
extend Old { optional int32 extra = 101; }
"""
EDITION = 'edition = "2023"; option features.field_presence = IMPLICIT; message A { int32 x = 1; }'


@pytest.fixture(scope="module")
def workshop() -> Iterator[Workshop]:
    with Workshop(1) as found:
        yield found


@pytest.mark.parametrize(("text", "referred"), [(PROTO, {"other.proto": OTHER}), (PROTO2, {}), (EDITION, {})])
def test_a_protobuf_schema_is_one_in_every_form(workshop: Workshop, text: str, referred: dict[str, str]) -> None:
    read = workshop.parse(Text("PROTOBUF", text, referred))
    assert workshop.parse(Text("PROTOBUF", read.canonical, referred)) == read
    serialized = workshop.format(Text("PROTOBUF", text, referred), "serialized")
    assert workshop.parse(Text("PROTOBUF", serialized, referred)) == read
    assert workshop.format(Text("PROTOBUF", read.canonical, referred), "serialized") == serialized


def test_extensions_can_be_left_out(workshop: Workshop) -> None:
    text = workshop.format(Text("PROTOBUF", PROTO, {"other.proto": OTHER}), "ignore_extensions")
    assert "deprecated" in text and "field_meta" not in text


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("AVRO", '{"type": "record"', "not JSON"),
        ("AVRO", '{"type": "record", "name": "A"}', "no fields"),
        ("AVRO", '{"type": "record", "name": "A", "fields": [{"name": "1", "type": "int"}]}', "name"),
        ("AVRO", '["int", "int"]', "Duplicate in union"),
        ("AVRO", '{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "Duplicate enum symbol"),
        ("AVRO", '"Missing"', "Undefined name"),
        (
            "AVRO",
            '{"type": "record", "name": "A", "fields": [{"name": "f", "type": ["null", "int"], "default": "null"}]}',
            "Invalid default for field f",
        ),
        ("AVRO", "[" * 5000 + "]" * 5000, "nested"),
        ("JSON", '{"type": "objet"}', "#/type"),
        ("JSON", '{"$ref": "elsewhere.json"}', "is a reference missing"),
        ("JSON", '{"$schema": "http://nowhere/"}', "no dialect"),
        ("JSON", "3", "an object, true or false"),
        ("PROTOBUF", 'syntax = "proto3"; message A { Foo x = 1; }', '"Foo" is not defined'),
        ("PROTOBUF", 'syntax = "proto3"; import "gone.proto"; message A {}', "gone.proto"),
        ("PROTOBUF", "aGVsbG8=", "neither"),
        ("XML", "<a/>", "Invalid schema type"),
    ],
)
def test_what_is_wrong_is_told(workshop: Workshop, kind: str, text: str, why: str) -> None:
    with pytest.raises(SchemaError) as error:
        workshop.parse(Text(kind, text, {}))
    assert why in str(error.value)


def test_a_reference_cannot_name_a_file_outside(workshop: Workshop) -> None:
    for name in ("../x.proto", "/etc/x.proto", "a/../../x.proto"):
        with pytest.raises(SchemaError, match="no path"):
            workshop.parse(Text("PROTOBUF", 'syntax = "proto3";', {name: OTHER}))


def test_a_schema_that_takes_too_long_ends_its_worker_only() -> None:
    parts = [{"anyOf": [{"pattern": f"{i}{j}"} for j in range(120)]} for i in range(120)]
    hard = Text("JSON", json.dumps({"oneOf": parts}), {})
    other = Text("JSON", json.dumps({"oneOf": parts[::-1]}), {})
    with Workshop(1, seconds=1.0) as workshop:
        with pytest.raises(SchemaError, match="longer than 1 seconds"):
            workshop.compare("FULL", hard, [(1, other)])
        assert workshop.parse(Text("AVRO", '"int"', {})).canonical == '"int"'


def test_what_an_avro_schema_refers_to_can_be_put_into_it(workshop: Workshop) -> None:
    place = '{"type":"record","name":"a.Place","fields":[{"name":"n","type":"string"}]}'
    text = '{"type":"record","name":"a.Order","fields":[{"name":"p","type":"a.Place"},{"name":"q","type":"Place"}]}'
    read = workshop.parse(Text("AVRO", text, {"a.Place": place}))
    assert read.canonical.count("Place") == 2
    resolved = workshop.format(Text("AVRO", text, {"a.Place": place}), "resolved")
    assert json.loads(resolved)["fields"][0]["type"]["fields"] == [{"name": "n", "type": "string"}]


def test_the_guid_is_confluents() -> None:
    # MD5 of the text alone, as its clients and servers compute it.
    assert guid_of('"string"') == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"


ECMA = (r"^\p{L}+$", r"^[\w-.]+$", r"(?<y>\d{4})", r"\cJ", "\\u{1F600}", "[")


@pytest.mark.parametrize("pattern", ECMA)
def test_a_schema_is_not_refused_for_the_dialect_of_its_patterns(workshop: Workshop, pattern: str) -> None:
    text = json.dumps({"properties": {"a": {"pattern": pattern}}, "patternProperties": {pattern: {}}})
    assert workshop.parse(Text("JSON", text, {})).canonical == text.replace(": ", ":").replace(", ", ",")


def test_patterns_are_bounded(workshop: Workshop) -> None:
    with pytest.raises(SchemaError, match="#/properties/a: too many patterns"):
        workshop.parse(Text("JSON", json.dumps({"properties": {"a": {"pattern": "x" * 3000}}}), {}))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"pattern": r"^\p{L}+$"}, "è", "1"),
        ({"pattern": r"(?<y>\d{4})"}, "2026", "202"),
        ({"pattern": r"^(?!no)"}, "yes", "no"),
        ({"patternProperties": {r"^\p{Lu}": {"type": "integer"}}}, {"A": 1, "a": "x"}, {"A": "x"}),
        (
            {"patternProperties": {"^a": True}, "properties": {"b": True}, "additionalProperties": False},
            {"ab": 1, "b": 1},
            {"c": 1},
        ),
        ({"additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "x"}),
    ],
)
def test_values_are_checked(workshop: Workshop, schema: dict[str, object], good: object, bad: object) -> None:
    text = Text("JSON", json.dumps(schema), {})
    assert workshop.check(text, good) is None
    found = workshop.check(text, bad)
    assert found is not None and found[1]


def test_a_pattern_that_nobody_reads_is_told_with_the_value(workshop: Workshop) -> None:
    with pytest.raises(SchemaError, match="is not supported"):
        workshop.check(Text("JSON", '{"pattern": "["}', {}), "x")


SLOW = "^(a+)+$"
WIDE = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i - 1}"}] * 2} for i in range(1, 40)}


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": SLOW},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "patternProperties": {SLOW: {}},
         "unevaluatedProperties": False},
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "patternProperties": {SLOW: {}},
         "unevaluatedProperties": False},
        {"properties": {"a" * 40 + "!": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": SLOW}}},
        {"$defs": {"d0": {"type": ["object", "string"]}, **WIDE}, "$ref": "#/$defs/d39"},
    ],
)  # fmt: skip
def test_a_value_whose_check_would_not_end_ends_its_worker_only(schema: dict[str, object]) -> None:
    text = "a" * 40 + "!"
    with Workshop(1, seconds=1.0) as workshop:
        with pytest.raises(SchemaError, match="longer than 1 seconds"):
            workshop.check(Text("JSON", json.dumps(schema), {}), text if "pattern" in schema else {text: text})
        assert workshop.check(Text("JSON", "{}", {}), text) is None


def test_who_waits_for_a_worker_in_vain_is_told(workshop: Workshop) -> None:
    with Workshop(0, seconds=0.01) as none, pytest.raises(Busy):
        none.check(Text("JSON", "{}", {}), 1)


def test_protoc_in_threads_leaves_standard_error_alone() -> None:
    def compiled(number: int) -> str:
        return parse_protobuf(f'syntax = "proto3"; message A{number} {{ int32 x = 1; }}', {}).file.message_type[0].name

    before = os.readlink("/proc/self/fd/2")
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(compiled, range(40))) == [f"A{number}" for number in range(40)]
    assert os.readlink("/proc/self/fd/2") == before


def test_descriptors_of_a_text_come_from_another_process() -> None:
    files = files_of(PROTO, {"other.proto": OTHER})
    assert files[-1].package == "shop" and "other.proto" in [file.name for file in files]
    with pytest.raises(SchemaError, match='"Foo" is not defined'):
        files_of('syntax = "proto3"; message A { Foo x = 1; }', {})
