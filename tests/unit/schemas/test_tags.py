"""Tags inside schemas of the three kinds: found where they are, added and removed where they are asked for."""

from __future__ import annotations

import json

import pytest

from moldau.schemas.model import SchemaError
from moldau.schemas.tags import FIELD, RECORD, Entity, retagged, tagged, top_fields

AVRO = {
    "type": "record", "name": "Order", "namespace": "shop", "confluent:tags": ["SHOP"],
    "fields": [
        {"name": "card", "type": "string", "confluent:tags": ["PII"]},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "count", "type": "int"}]}}},
        {"name": "next", "type": ["null", {"type": "record", "name": "Address", "namespace": "other",
                                           "fields": [{"name": "city", "type": "string"}]}]},
    ],
}  # fmt: skip
JSON = {
    "type": "object",
    "properties": {
        "card": {"type": "string", "confluent:tags": ["PII"]},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"count": {"type": "integer"}}}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "pay": {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"iban": {"type": "string"}}}]},
    },
    "definitions": {"Part": {"type": "object", "properties": {"size": {"type": "integer"}}}},
}
PROTO = (
    'syntax = "proto3"; package shop; message Order { string card = 1; Line line = 2; message Line { int32 n = 1; } }'
)


@pytest.mark.parametrize(
    ("kind", "text", "entity"),
    [
        ("AVRO", AVRO, Entity("shop.Order", RECORD)),
        ("AVRO", AVRO, Entity("shop.Line.count", FIELD)),
        ("AVRO", AVRO, Entity("other.Address.city", FIELD)),
        ("JSON", JSON, Entity("object", RECORD)),
        ("JSON", JSON, Entity("object.address.object.city", FIELD)),
        ("JSON", JSON, Entity("object.lines.array.object", RECORD)),
        ("JSON", JSON, Entity("object.lines.array.object.count", FIELD)),
        ("JSON", JSON, Entity("object.pay.oneof.1.object.iban", FIELD)),
        ("JSON", JSON, Entity("object.definitions.Part.object.size", FIELD)),
        ("PROTOBUF", PROTO, Entity("Order", RECORD)),
        ("PROTOBUF", PROTO, Entity("Order.card", FIELD)),
        ("PROTOBUF", PROTO, Entity("Order.Line.n", FIELD)),
    ],
)
def test_what_is_tagged_is_found_and_the_rest_stays(kind: str, text: object, entity: Entity) -> None:
    given = text if isinstance(text, str) else json.dumps(text)
    before = tagged(kind, given, {})
    changed = retagged(kind, given, {}, {entity: ["NEW", "NEWER"]}, {})
    assert tagged(kind, changed, {}) == {**before, entity: [*before.get(entity, []), "NEW", "NEWER"]}
    back = retagged(kind, changed, {}, {}, {entity: ["NEW", "NEWER"]})
    assert tagged(kind, back, {}) == before
    if kind != "PROTOBUF":
        assert json.loads(back) == json.loads(given)


def test_a_path_may_leave_out_what_is_clear() -> None:
    wanted = {Entity(".Line.count", FIELD): ["X"], Entity("Address", RECORD): ["Y"]}
    found = tagged("AVRO", retagged("AVRO", json.dumps(AVRO), {}, wanted, {}), {})
    assert found[Entity("shop.Line.count", FIELD)] == ["X"] and found[Entity("other.Address", RECORD)] == ["Y"]


def test_a_tag_is_there_once_and_a_removal_wins() -> None:
    card = Entity("object.card", FIELD)
    text = retagged("JSON", json.dumps(JSON), {}, {card: ["PII", "X"]}, {card: ["X"]})
    assert tagged("JSON", text, {}) == {card: ["PII"]}


@pytest.mark.parametrize(("kind", "text"), [("AVRO", AVRO), ("JSON", JSON), ("PROTOBUF", PROTO)])
def test_a_path_to_nothing_is_told(kind: str, text: object) -> None:
    given = text if isinstance(text, str) else json.dumps(text)
    with pytest.raises(SchemaError, match=r"No matching path 'gone\.away'"):
        retagged(kind, given, {}, {Entity("gone.away", FIELD): ["X"]}, {})


def test_protobuf_keeps_what_else_its_options_say() -> None:
    text = (
        'syntax = "proto3"; import "confluent/meta.proto"; '
        'message A { string x = 1 [(confluent.field_meta) = {doc: "d" tags: "T"}, deprecated = true]; }'
    )
    x = Entity("A.x", FIELD)
    assert tagged("PROTOBUF", text, {}) == {x: ["T"]}
    changed = retagged("PROTOBUF", text, {}, {x: ["U"]}, {x: ["T"]})
    assert tagged("PROTOBUF", changed, {}) == {x: ["U"]}
    assert 'doc: "d"' in changed and "deprecated = true" in changed


def test_fields_of_the_first_record() -> None:
    assert top_fields("AVRO", json.dumps(AVRO), {}) == ["card", "lines", "next"]
    assert top_fields("JSON", json.dumps(JSON), {}) == ["card", "lines", "address", "pay"]
    assert top_fields("PROTOBUF", PROTO, {}) == ["card", "line"]
    assert top_fields("AVRO", '"int"', {}) == []
