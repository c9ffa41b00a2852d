"""A topic that Karapace 6.2 has written: `tests/peers/recorded/karapace_schemas.jsonl` has the keys and values of its
records after the schemas below were registered there, some deleted again, and levels set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker import Broker
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")

RECORDS = Path(__file__).parents[1] / "peers" / "recorded" / "karapace_schemas.jsonl"
USER = {"type": "record", "name": "User", "namespace": "n", "doc": "ü", "fields": [{"name": "x", "type": "int"}]}
WITH_USER = {"type": "record", "name": "T", "fields": [{"name": "u", "type": "n.User"}]}
PLACE = """syntax = "proto3";
package a.b;

// a comment
message Place {
  string town = 1;
  optional int32 n = 2;
  map<string, int64> m = 3;
  oneof what { bool one = 4; bytes two = 5; }
  enum Kind { NONE = 0; SOME = 1; }
  Kind kind = 6;
  reserved 9, 11 to 13;
}
"""
TRIP = """syntax = "proto3";
package a.c;
import "place.proto";
import "google/protobuf/timestamp.proto";
message Trip {
  a.b.Place to = 1;
  google.protobuf.Timestamp at = 2;
}
"""
ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string", "pattern": "^a+$"}},
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder = tmp_path_factory.mktemp("karapace")
    with Broker(folder / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker:
        settings = {"bootstrap.servers": broker.address}
        topic = NewTopic("_schemas", 1, 1, config={"cleanup.policy": "compact"})
        admin = AdminClient(settings)
        admin.create_topics([topic])["_schemas"].result(30)
        producer = Producer(settings)
        for key, value in map(json.loads, RECORDS.read_text().splitlines()):
            producer.produce("_schemas", value, key)
        assert producer.flush(30) == 0
        with Registry(folder / "registry", broker.address, QUICK) as found:
            yield found


def test_subjects_versions_ids_and_levels_are_karapace_s(registry: Registry) -> None:
    listed = {(each["subject"], each["version"]): each["id"] for each in registry.ask("GET", "/schemas")[1]}
    assert listed == {
        ("again", 2): 15, ("avroref", 1): 10, ("copy-value", 1): 1, ("orders", 1): 8, ("orders", 2): 9,
        ("part", 2): 14, ("place", 1): 5, ("place", 2): 6, ("prim", 1): 4, ("text", 1): 3, ("trip", 1): 7,
        ("users-value", 1): 1, ("users-value", 2): 2,
    }  # fmt: skip
    assert registry.ask("GET", "/subjects/gone/versions?deleted=true") == (200, [1])
    assert registry.ask("GET", "/subjects/part/versions?deleted=true") == (200, [1, 2])
    assert registry.ask("GET", "/subjects/gone2/versions?deleted=true")[0] == 404
    levels = {name: registry.ask("GET", f"/config/{name}?defaultToGlobal=true")[1] for name in ("orders", "prim")}
    assert levels == {"orders": {"compatibilityLevel": "NONE"}, "prim": {"compatibilityLevel": "FULL"}}
    assert "is skipped" not in (registry.directory / "stderr").read_text()


@pytest.mark.parametrize(
    ("subject", "kind", "schema", "references", "schema_id"),
    [
        ("users-value", "AVRO", USER, [], 1),
        ("prim", "AVRO", "int", [], 4),
        ("avroref", "AVRO", WITH_USER, [{"name": "n.User", "subject": "users-value", "version": 1}], 10),
        ("place", "PROTOBUF", PLACE, [], 5),
        ("trip", "PROTOBUF", TRIP, [{"name": "place.proto", "subject": "place", "version": 1}], 7),
        ("orders", "JSON", ORDER, [], 8),
    ],
)
def test_programs_go_on_with_the_ids_that_they_had(
    registry: Registry, subject: str, kind: str, schema: Any, references: list[Any], schema_id: int
) -> None:
    """Karapace prints schemas in its own way: keys sorted, fields before what is one of several, comments kept."""
    text = schema if kind == "PROTOBUF" else json.dumps(schema)
    body = {"schema": text, "schemaType": kind, "references": references}
    assert registry.ask("POST", f"/subjects/{subject}", body)[1]["id"] == schema_id
    found = registry.ask("POST", f"/subjects/{subject}/versions", body)[1]
    assert (found["id"], found["version"]) == (schema_id, 1)


def test_another_schema_is_a_new_version(registry: Registry) -> None:
    body = {"schema": PLACE.replace("reserved 9, 11 to 13;", "string note = 10;"), "schemaType": "PROTOBUF"}
    assert registry.ask("POST", "/subjects/place", body)[0] == 404
    assert registry.ask("POST", "/subjects/place/versions", body)[1]["version"] == 3
