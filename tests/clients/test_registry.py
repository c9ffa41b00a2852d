"""The schema registry before Confluent's own client and serializers, and over HTTP: every path, code and trap."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.logging.type.http_request_pb2 import HttpRequest

from tests.peers.choice import new_broker
from tests.support.process import BrokerProcess
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")

INT = '"int"'
USER = '{"type":"record","name":"User","fields":[{"name":"x","type":"int"}]}'
WIDER = '{"type":"record","name":"User","fields":[{"name":"x","type":"int"},{"name":"y","type":"int"}]}'
WITH_DEFAULT = (
    '{"type":"record","name":"User","fields":[{"name":"x","type":"int"},{"name":"y","type":"int","default":1}]}'
)


@pytest.fixture(scope="module", params=["moldau", pytest.param("apache", marks=pytest.mark.live)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"group.initial.rebalance.delay.ms": 0}
    with new_broker(tmp_path_factory.mktemp("broker"), settings, peer=request.param) as found:
        yield found


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry"), broker.address, QUICK) as found:
        yield found


@pytest.fixture(scope="module")
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


@pytest.fixture
def name() -> str:
    return f"s-{uuid4().hex[:8]}"


# -- Confluent's serializers ----------------------------------------------------------------------------------------


def test_avro_by_confluents_serializers(client: SchemaRegistryClient, name: str) -> None:
    context = SerializationContext(name, MessageField.VALUE)
    written = AvroSerializer(client, USER)({"x": 3}, context)
    assert written is not None and written[0] == 0
    assert AvroDeserializer(client)(written, context) == {"x": 3}
    assert client.get_subjects(subject_prefix=name) == [f"{name}-value"]


def test_json_with_a_reference_by_confluents_serializers(client: SchemaRegistryClient, name: str) -> None:
    part = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer"}},
    }
    client.register_schema(f"{name}-part", Schema(json.dumps(part), "JSON"))
    whole = {"title": "Order", "type": "object", "properties": {"part": {"$ref": "part.json"}}}
    schema = Schema(json.dumps(whole), "JSON", [SchemaReference("part.json", f"{name}-part", 1)])
    context = SerializationContext(name, MessageField.VALUE)
    written = JSONSerializer(schema, client)({"part": {"n": 1}}, context)
    assert JSONDeserializer(schema, schema_registry_client=client)(written, context) == {"part": {"n": 1}}
    refused = Schema(json.dumps(whole).replace("part.json", "gone.json"), "JSON")
    with pytest.raises(Exception, match="42201"):
        client.register_schema(f"{name}-other", refused)


def test_protobuf_by_confluents_serializers(client: SchemaRegistryClient, registry: Registry, name: str) -> None:
    context = SerializationContext(name, MessageField.VALUE)
    written = ProtobufSerializer(HttpRequest, client, {"use.deprecated.format": False})(HttpRequest(status=7), context)
    found = ProtobufDeserializer(HttpRequest, {"use.deprecated.format": False}, client)(written, context)
    assert found == HttpRequest(status=7)
    status, stored = registry.ask("GET", f"/subjects/{name}-value/versions/1")
    assert (status, stored["schemaType"]) == (200, "PROTOBUF")
    assert "message HttpRequest {" in stored["schema"]
    again = client.register_schema(f"{name}-text", Schema(stored["schema"], "PROTOBUF"))
    assert again == stored["id"]


# -- over HTTP ------------------------------------------------------------------------------------------------------


def register(registry: Registry, subject: str, schema: str, **more: Any) -> tuple[int, Any]:
    return registry.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})


def code(answer: tuple[int, Any]) -> int:
    status, body = answer
    assert status == body["error_code"] // 100
    return int(body["error_code"])


def test_an_id_is_kept_and_shared(registry: Registry, name: str) -> None:
    first = register(registry, name, USER)[1]
    assert register(registry, name, USER.replace(":", " : "))[1]["id"] == first["id"]
    assert register(registry, f"{name}-b", USER)[1]["id"] == first["id"]
    assert registry.ask("GET", f"/schemas/ids/{first['id']}")[1]["schema"] == USER
    assert {f"{name}", f"{name}-b"} <= set(registry.ask("GET", f"/schemas/ids/{first['id']}/subjects")[1])
    assert registry.ask("GET", f"/schemas/guids/{first['guid']}")[1]["schema"] == USER
    assert {"context": ".", "id": first["id"]} in registry.ask("GET", f"/schemas/guids/{first['guid']}/ids")[1]
    found = registry.ask("POST", f"/subjects/{name}", {"schema": USER, "somethingNew": 1})[1]
    assert (found["subject"], found["version"], found["id"]) == (name, 1, first["id"])


def test_what_is_not_there_has_its_code(registry: Registry, name: str) -> None:
    assert code(registry.ask("GET", f"/subjects/{name}/versions")) == 40401
    register(registry, name, INT)
    assert code(registry.ask("GET", f"/subjects/{name}/versions/2")) == 40402
    assert code(registry.ask("GET", f"/subjects/{name}/versions/x")) == 42202
    assert code(registry.ask("GET", f"/subjects/{name}/versions/0")) == 42202
    assert code(registry.ask("GET", "/schemas/ids/999999")) == 40403
    assert code(registry.ask("POST", f"/subjects/{name}", {"schema": '"long"'})) == 40403
    assert code(registry.ask("GET", f"/config/{name}")) == 40408
    assert code(registry.ask("GET", f"/mode/{name}")) == 40409
    assert code(registry.ask("PUT", f"/config/{name}", {"compatibility": "SOMETIMES"})) == 42203
    assert code(registry.ask("PUT", f"/mode/{name}", {"mode": "SOMETIMES"})) == 42204
    assert code(register(registry, name, '{"type":"recor"}')) == 42201
    assert code(register(registry, name, INT, schemaType="XML")) == 42201
    assert registry.ask("GET", f"/associations/resources/-/{name}?associationType=value") == (200, [])


def test_levels_are_kept_and_differences_named(registry: Registry, name: str) -> None:
    """AVR-05."""
    register(registry, name, USER)
    refused = register(registry, name, WIDER)
    assert code(refused) == 40901 and "/fields/1" in refused[1]["message"]
    path = f"/compatibility/subjects/{name}/versions"
    body = {"schema": WIDER}
    found = registry.ask("POST", f"{path}/latest?verbose=True", body)[1]
    assert found["is_compatible"] is False and "READER_FIELD_MISSING_DEFAULT_VALUE" in found["messages"][0]
    assert registry.ask("POST", path, body)[1] == {"is_compatible": False}
    assert registry.ask("PUT", f"/config/{name}", {"compatibility": "forward"})[1] == {"compatibility": "forward"}
    assert registry.ask("GET", f"/config/{name}")[1]["compatibilityLevel"] == "FORWARD"
    assert register(registry, name, WIDER)[0] == 200
    assert registry.ask("DELETE", f"/config/{name}")[0] == 200
    assert code(register(registry, name, '{"type":"object"}', schemaType="JSON")) == 40901
    registry.ask("PUT", f"/config/{name}", {"compatibility": "NONE"})
    assert register(registry, name, '{"type":"object"}', schemaType="JSON")[0] == 200


def test_deleting_softly_then_for_good(registry: Registry, name: str) -> None:
    schema_id = register(registry, name, USER)[1]["id"]
    register(registry, name, WITH_DEFAULT)
    assert code(registry.ask("DELETE", f"/subjects/{name}/versions/1?permanent=true")) == 40407
    assert registry.ask("DELETE", f"/subjects/{name}/versions/1") == (200, 1)
    assert code(registry.ask("DELETE", f"/subjects/{name}/versions/1")) == 40406
    assert registry.ask("GET", f"/subjects/{name}/versions")[1] == [2]
    assert registry.ask("GET", f"/subjects/{name}/versions?deleted=True")[1] == [1, 2]
    assert registry.ask("GET", f"/schemas/ids/{schema_id}")[0] == 200
    assert code(registry.ask("DELETE", f"/subjects/{name}?permanent=true")) == 40405
    assert registry.ask("DELETE", f"/subjects/{name}") == (200, [2])
    assert code(registry.ask("DELETE", f"/subjects/{name}")) == 40404
    assert name not in registry.ask("GET", "/subjects")[1]
    assert name in registry.ask("GET", "/subjects?deletedOnly=true")[1]
    again = register(registry, name, USER)[1]
    assert (again["id"], again["version"]) == (schema_id, 3)
    registry.ask("DELETE", f"/subjects/{name}")
    assert registry.ask("DELETE", f"/subjects/{name}?permanent=true")[1] == [2, 3]
    assert code(registry.ask("DELETE", f"/subjects/{name}?permanent=true")) == 40401


def test_what_is_referred_to_stays(registry: Registry, name: str) -> None:
    register(registry, f"{name}-place", '{"type":"record","name":"Place","fields":[]}')
    refers = '{"type":"record","name":"Trip","fields":[{"name":"to","type":"Place"}]}'
    reference = {"name": "Place", "subject": f"{name}-place", "version": 1}
    assert code(register(registry, name, refers)) == 42201
    schema_id = register(registry, name, refers, references=[reference])[1]["id"]
    assert registry.ask("GET", f"/subjects/{name}-place/versions/1/referencedby")[1] == [schema_id]
    assert code(registry.ask("DELETE", f"/subjects/{name}-place")) == 42206
    resolved = registry.ask("GET", f"/schemas/ids/{schema_id}?format=resolved")[1]["schema"]
    assert json.loads(resolved)["fields"][0]["type"]["name"] == "Place"
    registry.ask("DELETE", f"/subjects/{name}")
    assert registry.ask("DELETE", f"/subjects/{name}-place")[0] == 200


def test_contexts_count_their_own_ids(registry: Registry, name: str) -> None:
    assert registry.ask("POST", f"/contexts/.{name}/subjects/a/versions", {"schema": '"string"'})[1]["id"] == 1
    assert registry.ask("GET", f"/contexts/.{name}/subjects")[1] == [f":.{name}:a"]
    assert registry.ask("GET", f"/subjects/:.{name}:a/versions/latest")[1]["subject"] == f":.{name}:a"
    assert registry.ask("GET", f"/contexts/.{name}/schemas/ids/1")[1]["schema"] == '"string"'
    assert f".{name}" in registry.ask("GET", "/contexts")[1]
    assert f":.{name}:a" in registry.ask("GET", "/subjects?subjectPrefix=:*:")[1]
    registry.ask("PUT", f"/contexts/.{name}/config", {"compatibility": "NONE"})
    assert registry.ask("POST", f"/contexts/.{name}/subjects/a/versions", {"schema": INT})[1]["id"] == 2
    assert code(registry.ask("DELETE", f"/contexts/.{name}")) == 42211


def test_import_mode_takes_ids(registry: Registry, name: str) -> None:
    assert code(register(registry, name, INT, id=700_000)) == 42205
    assert registry.ask("PUT", f"/mode/{name}", {"mode": "IMPORT"})[1] == {"mode": "IMPORT"}
    fresh = f'{{"type":"fixed","name":"F{name[2:]}","size":1}}'
    assert register(registry, name, fresh, id=700_000, version=5)[1]["id"] == 700_000
    assert code(register(registry, name, fresh.replace("1}", "2}"), id=700_000, version=6)) == 42207
    registry.ask("PUT", f"/mode/{name}", {"mode": "READONLY"})
    assert code(register(registry, name, INT)) == 42205
    assert registry.ask("DELETE", f"/mode/{name}")[0] == 200


def test_what_is_there_is_registered_in_any_mode(registry: Registry, name: str) -> None:
    """Programs that register at their start go on starting."""
    first = register(registry, name, USER)[1]
    second = register(registry, name, WITH_DEFAULT)[1]
    for mode in ("READONLY", "IMPORT", "FORWARD"):
        registry.ask("PUT", f"/mode/{name}?force=true", {"mode": mode})
        assert register(registry, name, USER.replace(":", " : ")) == (200, first)
        assert register(registry, name, WITH_DEFAULT) == (200, second)
        assert register(registry, name, USER, id=first["id"]) == (200, first)
        assert code(register(registry, name, INT)) == 42205
    registry.ask("DELETE", f"/subjects/{name}/versions/1")
    registry.ask("PUT", f"/mode/{name}", {"mode": "READONLY"})
    assert code(register(registry, name, USER)) == 42205, "it was deleted"


def test_a_schema_that_was_imported_under_two_ids_keeps_the_other_one(registry: Registry, name: str) -> None:
    fresh = f'{{"type":"fixed","name":"F{name[2:]}","size":1}}'
    first = register(registry, name, fresh)[1]
    registry.ask("PUT", f"/mode/{name}-b", {"mode": "IMPORT"})
    assert register(registry, f"{name}-b", fresh, id=710_000, version=1)[1]["id"] == 710_000
    for permanent in ("false", "true"):
        assert registry.ask("DELETE", f"/subjects/{name}-b?permanent={permanent}")[0] == 200
    assert registry.ask("GET", f"/schemas/guids/{first['guid']}/ids") == (200, [{"context": ".", "id": first["id"]}])
    assert register(registry, f"{name}-c", fresh)[1]["id"] == first["id"]


def test_metadata_and_rules_are_kept(registry: Registry, client: SchemaRegistryClient, name: str) -> None:
    metadata = {"properties": {"owner": "ann"}, "tags": {"x": ["PII"]}}
    rules = {"domainRules": [{"name": "r", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}]}
    plain = register(registry, f"{name}-plain", USER)[1]["id"]
    found = register(registry, name, USER, metadata=metadata, ruleSet=rules)[1]
    assert found["id"] != plain
    assert registry.ask("GET", f"/subjects/{name}/versions/1")[1]["ruleSet"] == rules
    assert client.get_latest_with_metadata(name, {"owner": "ann"}).version == 1
    assert code(registry.ask("GET", f"/subjects/{name}/metadata?key=owner&value=bob")) == 40401
    assert code(register(registry, name, USER, ruleSet={"domainRules": [{}]})) == 42210


def test_normalized_schemas_share_an_id(registry: Registry, name: str) -> None:
    one = '{"type":"int","b":1,"a":2}'
    first = registry.ask("POST", f"/subjects/{name}/versions?normalize=True", {"schema": one})[1]
    other = '{"type":"int","a":2,"b":1}'
    assert registry.ask("POST", f"/subjects/{name}/versions?normalize=true", {"schema": other})[1]["id"] == first["id"]


def test_the_topic_is_confluents_and_poison_is_skipped(
    broker: BrokerProcess, registry: Registry, tmp_path: Path, name: str
) -> None:
    """SR-02."""
    register(registry, name, USER)
    producer = Producer({"bootstrap.servers": broker.address})
    key = {"keytype": "SCHEMA", "subject": f"{name}-theirs", "version": 1, "magic": 1}
    value = {"subject": f"{name}-theirs", "version": 1, "id": 800_000, "schema": '"bytes"', "deleted": False}
    poison = (
        b"not json",
        b'{"keytype":"SCHEMA"}',
        b'{"keytype":"NEW","magic":0}',
        b'{"keytype":"CONFIG","subject":[]}',
    )
    for bad in poison:
        producer.produce("_schemas", b"{}", bad)
    producer.produce("_schemas", json.dumps(value), json.dumps(key))
    producer.flush(10)
    fresh = register(registry, f"{name}-after", WIDER.replace("User", f"U{name[2:]}"))[1]
    assert fresh["id"] > 800_000
    with Registry(tmp_path / "second", broker.address, QUICK) as second:
        assert second.ask("GET", "/schemas/ids/800000")[1]["schema"] == '"bytes"'
        assert second.ask("GET", f"/subjects/{name}/versions/1") == registry.ask("GET", f"/subjects/{name}/versions/1")
        forwarded = register(second, f"{name}-forwarded", '{"type":"enum","name":"E","symbols":["A"]}')
        assert forwarded[0] == 200
        assert second.ask("GET", f"/schemas/ids/{forwarded[1]['id']}")[0] == 200
        assert (tmp_path / "second" / "stderr").read_text().count("is skipped") == len(poison)
    written = {each.get("subject"): each for each in records(broker, "SCHEMA")}[name]
    assert list(written) == ["subject", "version", "id", "schema", "deleted"]


def records(broker: BrokerProcess, kind: str) -> Iterator[dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": uuid4().hex, "enable.partition.eof": True,
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.subscribe(["_schemas"])
    while True:
        message = consumer.poll(10)
        if message is None or message.error():
            break
        key, value = message.key(), message.value()
        if value and key and key.startswith(f'{{"keytype":"{kind}"'.encode()):
            yield json.loads(value)
    consumer.close()


def test_it_is_described_and_says_how_it_is(registry: Registry) -> None:
    """AVR-07."""
    found = registry.ask("GET", "/openapi.json")[1]
    assert "40901" in json.dumps(found["paths"]["/subjects/{subject}/versions"]["post"])
    assert registry.ask("GET", "/ready") == (200, {"status": "UP"})
    assert registry.ask("GET", "/schemas/types")[1] == ["JSON", "PROTOBUF", "AVRO"]
    assert registry.ask("GET", "/")[1] == {}


def test_it_says_whose_it_is(broker: BrokerProcess, registry: Registry) -> None:
    cluster_id = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=10).cluster_id
    assert cluster_id
    clusters = {"kafka-cluster": cluster_id, "schema-registry-cluster": "schema-registry"}
    found = registry.ask("GET", "/v1/metadata/id")
    assert found == (200, {"scope": {"path": [], "clusters": clusters}, "id": ""})
