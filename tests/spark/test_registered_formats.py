"""Protobuf and JSON Schema with a registry of ours, through a real Spark session, beside Confluent's serializers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.logging.type.http_request_pb2 import HttpRequest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from moldau.clients.protobuf import Protobuf
from moldau.testing import Registry
from tests.spark.reading import Reads
from tests.spark.test_typed_values import produce
from tests.spark.test_writing import save, written
from tests.support.admin import create_topic
from tests.support.broker import Broker

pytestmark = pytest.mark.timeout(900)

NEW: dict[str, Any] = {"use.deprecated.format": False}


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[Registry]:
    with Registry(broker.address) as running:
        yield running


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


@pytest.fixture
def target(admin: AdminClient, topic: str) -> str:
    create_topic(admin, topic)
    return topic


def test_messages_of_confluents_serializer(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient, address: str, target: str
) -> None:
    context = SerializationContext(target, MessageField.VALUE)
    serializer = ProtobufSerializer(HttpRequest, client, NEW)
    sent = HttpRequest(request_method="GET", status=200, response_size=2**40)
    sent.latency.FromMilliseconds(1500)
    good = serializer(sent, context)
    produce(address, target, (None, good), (None, b"\0\0\0\0\x63\0x"), (None, good))
    options = {"value.format": "protobuf", **registry.properties, "subscribe": target}
    rows = Reads(spark, address).batch(**options).orderBy("offset").collect()
    assert [row.value and (row.value.request_method, row.value.response_size) for row in rows] == [
        ("GET", 2**40), None, ("GET", 2**40),
    ]  # fmt: skip
    assert rows[0].value.latency.total_seconds() == 1.5
    assert rows[0].value.referer == ""
    assert "Schema 99 not found" in rows[1]._error
    with pytest.raises(PySparkException, match=r"offset 1: the value .* does not decode as protobuf: .*99 not found"):
        Reads(spark, address).batch(**options, mode="FAILFAST").collect()


def test_messages_for_confluents_deserializer(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient, address: str, target: str
) -> None:
    frame = spark.sql(
        "SELECT CAST(id AS STRING) AS key, named_struct('id', id, 'tags', array('a', 'b'), 'at', timestamp_seconds(id),"
        " 'price', IF(id = 1, NULL, id * 1.5D)) AS value FROM range(3)"
    )
    options = {"value.format": "protobuf", **registry.properties}
    save(frame, address, topic=target, **options)
    stored = client.get_latest_version(f"{target}-value").schema
    assert stored.schema_type == "PROTOBUF" and "optional int64 id = 1;" in str(stored.schema_str)
    ours = Protobuf()
    ours.configure(registry.properties, False)
    context = SerializationContext(target, MessageField.VALUE)
    for message in written(address, target, 3):
        number = int(message.key() or b"")
        made = ours.deserialize(target, message.value())
        theirs = ProtobufDeserializer(type(made), NEW, client)(message.value(), context)
        assert (theirs.id, list(theirs.tags), theirs.at.seconds) == (number, ["a", "b"], number)
        assert theirs.HasField("price") == (number != 1)
    read = Reads(spark, address).batch(subscribe=target, **options, mode="FAILFAST").selectExpr("value.*")
    assert sorted(read.collect()) == sorted(frame.selectExpr("value.*").collect())


def test_json_schema_both_ways(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient, address: str, target: str
) -> None:
    day = {"type": "string", "format": "date"}
    properties = {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}, "on": day}
    schema = {"title": "Order", "type": "object", "properties": properties, "required": ["id"]}
    context = SerializationContext(target, MessageField.VALUE)
    good = JSONSerializer(json.dumps(schema), client)({"id": 1, "note": None, "on": "2026-02-03"}, context)
    produce(address, target, (None, good), (None, b'{"id":1}'))
    options = {"value.format": "jsonschema", **registry.properties}
    first, second = Reads(spark, address).batch(subscribe=target, **options).orderBy("offset").collect()
    assert (first.value.id, first.value.note, str(first.value.on)) == (1, None, "2026-02-03")
    assert second.value is None and "no schema id before it" in second._error
    frame = spark.sql("SELECT named_struct('id', id, 'words', array('x', CAST(NULL AS STRING))) AS value FROM range(2)")
    save(frame, address, topic=target, **options, **{"value.subject": f"{target}-2"})
    stored = client.get_latest_version(f"{target}-2").schema
    deserializer = JSONDeserializer(stored, schema_registry_client=client)
    found = [deserializer(message.value(), context) for message in written(address, target, 4)[2:]]
    assert sorted(found, key=lambda each: each["id"]) == [{"id": number, "words": ["x", None]} for number in range(2)]
