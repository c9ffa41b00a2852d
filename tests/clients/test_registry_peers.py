"""The schema registry before clients in other languages: KafkaJS' and Confluent's for Node.js, franz-go's, Confluent's
for Java, and its serializers, with Apache Kafka's clients."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from moldau.clients.registered import Avro, JsonSchema
from moldau.testing import Broker, Registry
from tests.peers import go_programs, java_programs, node_programs

pytestmark = pytest.mark.live

TEA = {"type": "record", "name": "Tea", "fields": [{"name": "leaves", "type": "int"}]}
JSON_TEA = {"title": "Tea", "type": "object", "properties": {"leaves": {"type": "integer"}}}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[Registry]:
    with Registry(broker.bootstrap) as running:
        yield running


def ready(serde: Any, registry: Registry) -> Any:
    serde.configure(registry.properties, False)
    return serde


def test_node_and_python_share_schemas_and_values(registry: Registry) -> None:
    prefix = f"n-{uuid4().hex[:8]}"
    ours = {f"{prefix}-a": ready(Avro(TEA), registry), f"{prefix}-j": ready(JsonSchema(JSON_TEA), registry)}
    given = {topic: base64.b64encode(serde.serialize(topic, {"leaves": 5})).decode() for topic, serde in ours.items()}
    (line,) = node_programs.run("schemas", registry.url, prefix, json.dumps(given))
    found = json.loads(line)
    assert found["read"] == {topic: {"leaves": 5} for topic in given}
    # KafkaJS' client writes no message indexes, so that nobody else can read its Protobuf.
    for kind, serde in (("AVRO", Avro()), ("JSON", JsonSchema())):
        value = base64.b64decode(found["values"][f"{prefix}-{kind}"])
        assert ready(serde, registry).deserialize("any", value) == {"leaves": 3}
    assert found["answers"] == {
        "incompatible": 40901, "compatible": False, "versions": [1], "level": "BACKWARD", "kept": True, "version": 2,
        "missing": 40401, "deleted": [1, 2], "again": [1, 2], "gone": 40401,
    }  # fmt: skip


def test_go_over_every_path_that_it_knows(registry: Registry) -> None:
    lines = go_programs.run("schemas", registry.url, f"go_{uuid4().hex[:8]}")
    found = {what: json.loads(rest) for what, rest in (line.split(" ", 1) for line in lines)}
    value = base64.b64decode(found.pop("value"))
    assert ready(JsonSchema(), registry).deserialize("any", value) == {"leaves": 3}
    assert json.loads(found.pop("text")) == TEA
    assert found == {
        "types": 3, "version": 1, "same": True, "compatible": [False, True], "incompatible": 409, "level": "NONE",
        "versions": [1, 2], "referring": 1, "protected": 42206, "usages": 1, "context": 1, "listed": 1, "imported": 7,
        "deleted": [1, 2], "gone": 40401, "hidden": [1, 2], "forgotten": [1, 2],
    }  # fmt: skip


def test_java_and_python_share_schemas_and_values(broker: Broker, registry: Registry) -> None:
    topic = f"java-{uuid4().hex[:8]}"
    for direction in ("in", "out"):
        broker.topic(f"{topic}-{direction}")
    with broker.producer(registry.properties, value_serializer=Avro(TEA)) as producer:
        producer.send(f"{topic}-in", {"leaves": 5}).result(30)
    lines = java_programs.run("SchemaExchange", java_programs.SCHEMAS, registry.url, broker.bootstrap, topic)
    found = dict(line.split(" ", 1) for line in lines)
    assert broker.values(f"{topic}-out", 1, value_deserializer=Avro(), **registry.properties) == [{"leaves": 3}]
    assert int(found.pop("done")) == registry.client().version(f"{topic}-out-value").schema_id
    assert found == {
        "same": "true", "id": "true", "version": "1", "compatible": "true", "incompatible": "false",
        "messages": "true", "refused": "40901", "level": "FULL FULL", "versions": "[1, 2]", "latest": "2",
        "subjects": "true", "mode": "READWRITE", "reference": "INT", "protected": "42206", "deleted": "[1] [1, 2]",
        "gone": "40401", "forgotten": "[1, 2]", "read": '{"leaves": 5}',
    }  # fmt: skip


def test_confluent_s_serializers_for_java(broker: Broker, registry: Registry) -> None:
    topic = f"serdes-{uuid4().hex[:8]}"
    for end in ("in", "0", "1", "2"):
        broker.topic(f"{topic}-{end}")
    with broker.producer(registry.properties, key_serializer=Avro('"string"'), value_serializer=Avro(TEA)) as producer:
        producer.send(f"{topic}-in", {"leaves": 5}, "green").result(30)
    lines = java_programs.run("SerdeExchange", java_programs.SERDES, registry.url, broker.bootstrap, topic)
    once = ["refused 40901", "unknown 40403"]
    assert lines == ['in green {"leaves": 5}', *(
        line for number in range(3) for line in (*once, f'out key {{"leaves": {number}}}')
    )]  # fmt: skip
    for number, subject in enumerate((f"{topic}-0-value", "Tea", f"{topic}-2-Tea")):
        assert json.loads(registry.client().version(subject).text) == TEA
        found = broker.values(f"{topic}-{number}", 1, value_deserializer=Avro(), **registry.properties)
        assert found == [{"leaves": number}]
