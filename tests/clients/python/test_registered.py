"""Our deserializers and Confluent's serializers on a registry of ours: ids before the value and GUIDs in headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.logging.type.http_request_pb2 import HttpRequest

from moldau.clients.errors import DeserializationFailed
from moldau.clients.protobuf import Protobuf
from moldau.clients.records import TopicPartition
from moldau.clients.registered import Avro, JsonSchema
from moldau.testing import Registry
from moldau.testing.brokers import Kafka

PLACE = {"type": "record", "name": "Place", "fields": [{"name": "town", "type": "string"}]}
TRIP = {"type": "record", "name": "Trip", "fields": [{"name": "to", "type": "Place"}]}
ORDER = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture(scope="module")
def registry(kafka: Kafka) -> Iterator[Registry]:
    own = {"kafkastore.topic": "_of_serializers", "schema.registry.group.id": "serializers"}
    with Registry(kafka.bootstrap, own) as found:
        yield found


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


def serializer(kind: str, client: SchemaRegistryClient, topic: str, settings: dict[str, Any]) -> Any:
    if kind == "avro":
        client.register_schema(f"{topic}-place", Schema(json.dumps(PLACE), "AVRO"))
        whole = Schema(json.dumps(TRIP), "AVRO", [SchemaReference("Place", f"{topic}-place", 1)])
        return AvroSerializer(client, whole, conf=settings)
    if kind == "json":
        return JSONSerializer(json.dumps(ORDER), client, conf=settings)
    return ProtobufSerializer(HttpRequest, client, {"use.deprecated.format": False, **settings})


@pytest.mark.parametrize(
    ("kind", "value", "ours"),
    [
        ("avro", {"to": {"town": "Praha"}}, Avro()),
        ("json", {"id": 5}, JsonSchema()),
        ("protobuf", HttpRequest(status=7), Protobuf(HttpRequest)),
        ("protobuf", HttpRequest(status=7), Protobuf()),
    ],
)
@pytest.mark.parametrize("in_header", [False, True])
def test_values_of_confluents_serializers(
    kafka: Kafka,
    registry: Registry,
    client: SchemaRegistryClient,
    topic: str,
    kind: str,
    value: Any,
    ours: Any,
    in_header: bool,
) -> None:
    """AVR-06."""
    settings = {"schema.id.serializer": header_schema_id_serializer} if in_header else {}
    headers: list[tuple[str, bytes]] = [("other", b"x")]
    serialize = serializer(kind, client, topic, settings)
    data = serialize(value, SerializationContext(topic, MessageField.VALUE, headers))
    assert any(name == "__value_schema_id" for name, _ in headers) == in_header
    producer = confluent_kafka.Producer(kafka.properties)
    producer.produce(topic, data, headers=headers)
    producer.flush(30)
    (read,) = kafka.values(topic, 1, value_deserializer=ours, **registry.properties)
    assert read == value or read.SerializeToString() == value.SerializeToString()


def test_a_record_of_an_unknown_schema_is_told_with_its_offset(kafka: Kafka, registry: Registry, topic: str) -> None:
    with kafka.producer() as producer:
        producer.send(topic, b"\0\0\0\x03\xe7x")
        producer.send(topic, b"x", headers=[("__value_schema_id", b"\1" + bytes(16))])
    for offset, problem in ((0, "Schema 999 not found"), (1, "40403")):
        with kafka.consumer(registry.properties, value_deserializer=Avro()) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek(TopicPartition(topic, 0), offset)
            with pytest.raises(DeserializationFailed, match=f"offset {offset}") as caught:
                consumer.poll(30)
            assert problem in str(caught.value)
