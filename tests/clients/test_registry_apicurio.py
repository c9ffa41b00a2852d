"""The schema registry and the Python serializers before Apicurio's serializers for Java, in Apache Kafka's clients:
Avro, JSON Schema and Protobuf, with schemas that refer to others, both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from moldau.clients.protobuf import Protobuf
from moldau.clients.registered import Avro, JsonSchema
from moldau.testing import Broker, Registry
from tests.peers import java_programs

pytestmark = pytest.mark.live

TEA = {"type": "record", "name": "Tea", "namespace": "shop", "fields": [{"name": "leaves", "type": "int"}]}
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "tea", "type": "shop.Tea"}]}

LEAVES = {"type": "object", "properties": {"leaves": {"type": "integer"}}}
TEA_ID = "http://shop.example/tea.json"
ORDER_OF_TEA = {"type": "object", "properties": {"tea": {"$ref": TEA_ID}}}

LEAF_FILE = """name: "leaf.proto" package: "shop" syntax: "proto3" message_type { name: "Leaf"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "grams" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 } }"""
ORDERS_FILE = """name: "orders.proto" package: "shop" syntax: "proto3" dependency: "leaf.proto"
message_type { name: "Box" field { name: "size" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 } }
message_type { name: "Order"
  field { name: "lines" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".shop.Order.Line" }
  nested_type { name: "Line"
    field { name: "leaf" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.Leaf" }
    field { name: "count" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 } } }"""
STAMPED_FILE = """name: "stamped.proto" package: "shop" syntax: "proto3"
dependency: "orders.proto" dependency: "google/protobuf/timestamp.proto"
message_type { name: "Stamped"
  field { name: "order" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".shop.Order" }
  field { name: "at" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" } }"""
STAMP = "google/protobuf/timestamp.proto"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[Registry]:
    with Registry(broker.bootstrap) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    """The first half of the names of the topics that the two sides write."""
    chosen = f"apicurio-{uuid4().hex[:8]}"
    for end in ("in", "out", "latest", "line", "stamped"):
        broker.topic(f"{chosen}-{end}")
    return chosen


def send(broker: Broker, registry: Registry, topic: str, serde: Any, value: Any) -> None:
    properties = {**registry.properties, "key.serializer": Avro('"string"'), "value.serializer": serde}
    with broker.producer(properties) as producer:
        producer.send(topic, value, "green").result(30)


def received(broker: Broker, registry: Registry, topic: str, serde: Any) -> Any:
    (value,) = broker.values(topic, 1, value_deserializer=serde, **registry.properties)
    return value


def exchanged(kind: str, broker: Broker, registry: Registry, topic: str, folder: Path) -> dict[str, str]:
    """What Java tells: its first words, and the rest of the lines."""
    libraries = java_programs.APICURIO
    lines = java_programs.run("ApicurioExchange", libraries, kind, registry.url, broker.bootstrap, topic, folder)
    found = dict(line.split(" ", 1) for line in lines)
    assert found.pop("done") == kind
    return found


def references(registry: Registry, subject: str) -> list[Any]:
    """Names and subjects of what the subject's latest schema refers to."""
    found = registry.client().ask(f"/subjects/{subject}/versions/latest")
    return sorted((each["name"], each["subject"]) for each in found.get("references", []))


def test_avro(broker: Broker, registry: Registry, topic: str, tmp_path: Path) -> None:
    registry.register("shop.Tea", TEA)
    ours = Avro(ORDER, [{"name": "shop.Tea", "subject": "shop.Tea", "version": 1}])
    send(broker, registry, f"{topic}-in", ours, {"tea": {"leaves": 5}})
    assert exchanged("avro", broker, registry, topic, tmp_path) == {
        "in": 'green {"tea": {"leaves": 5}}', "out": 'key {"tea": {"leaves": 3}}',
        "incompatible": "40901", "unknown": "40403",
    }  # fmt: skip
    assert received(broker, registry, f"{topic}-out", Avro()) == {"tea": {"leaves": 3}}
    client = registry.client()
    assert references(registry, f"{topic}-out-value") == [("shop.Tea", "shop.Tea")]
    assert client.version(f"{topic}-out-value").schema_id == client.version(f"{topic}-in-value").schema_id


def test_json_schema(broker: Broker, registry: Registry, topic: str, tmp_path: Path) -> None:
    registry.register("tea.json", {"$id": TEA_ID, **LEAVES}, "JSON")
    (tmp_path / "orders.json").write_text(json.dumps(LEAVES))
    ours = JsonSchema(ORDER_OF_TEA, [{"name": TEA_ID, "subject": "tea.json", "version": 1}])
    send(broker, registry, f"{topic}-in", ours, {"tea": {"leaves": 5}})
    assert exchanged("json", broker, registry, topic, tmp_path) == {
        "in": '{"tea":{"leaves":5}}', "out": '{"leaves":3}', "broken": "IOException",
    }  # fmt: skip
    assert received(broker, registry, f"{topic}-out", JsonSchema()) == {"leaves": 3}
    assert received(broker, registry, f"{topic}-latest", JsonSchema()) == {"tea": {"leaves": 4}}
    assert json.loads(registry.client().version(f"{topic}-out-value").text) == LEAVES


def order_class(folder: Path) -> type[Any]:
    """Made from the files that Java is given."""
    files = [text_format.Parse(text, FileDescriptorProto()) for text in (LEAF_FILE, ORDERS_FILE, STAMPED_FILE)]
    (folder / "shop.bin").write_bytes(FileDescriptorSet(file=files).SerializeToString())
    pool = DescriptorPool()
    for file in files[:2]:
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf(broker: Broker, registry: Registry, topic: str, tmp_path: Path) -> None:
    """The same files from both sides: as descriptors from Python, printed by Square's Wire from Java, which registers
    Google's files too."""
    order = order_class(tmp_path)
    given = order(lines=[{"leaf": {"name": "black", "grams": 7}, "count": 2}])
    send(broker, registry, f"{topic}-in", Protobuf(order), given)
    assert exchanged("protobuf", broker, registry, topic, tmp_path) == {
        "in": 'lines { leaf { name: "black" grams: 7 } count: 2 }',
        "out": 'lines { leaf { name: "green" } count: 3 }',
    }
    green = {"lines": [{"leaf": {"name": "green"}, "count": 3}]}
    for reader in (Protobuf(), Protobuf(order)):
        assert MessageToDict(received(broker, registry, f"{topic}-out", reader)) == green
    line, stamped = (received(broker, registry, f"{topic}-{end}", Protobuf()) for end in ("line", "stamped"))
    assert (line.DESCRIPTOR.full_name, MessageToDict(line)) == ("shop.Order.Line", {"leaf": {"grams": 5}, "count": 2})
    assert MessageToDict(stamped) == {"order": green, "at": "1970-01-01T00:00:09Z"}
    assert references(registry, f"{topic}-stamped-value") == [(STAMP, STAMP), ("orders.proto", "orders.proto")]
    client = registry.client()
    assert client.version(f"{topic}-out-value").schema_id == client.version(f"{topic}-in-value").schema_id
    assert client.ask_any("/subjects/leaf.proto/versions") == [1]
