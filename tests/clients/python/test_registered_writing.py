"""Our serializers on a registry of ours, read by Confluent's deserializers: every switch that says what is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from moldau.clients.errors import SerializationFailed, SettingError
from moldau.clients.protobuf import Protobuf
from moldau.clients.records import TopicPartition
from moldau.clients.registered import Avro, JsonSchema
from moldau.clients.registry_serde import RegistrySerde
from moldau.schemas.framing import VALUE_HEADER, read_frame
from moldau.testing import Registry
from moldau.testing.brokers import Kafka
from tests.support.process import free_port

PLACE = {"type": "record", "name": "Place", "fields": [{"name": "town", "type": "string"}]}
TRIP = {"type": "record", "name": "Trip", "fields": [{"name": "to", "type": "Place"}]}
TEA = {"type": "record", "name": "Tea", "namespace": "drinks", "fields": [{"name": "leaves", "type": "int"}]}
ORDER = {"title": "Order", "type": "object", "properties": {"part": {"$ref": "part.json"}}}
PART = {"type": "object", "properties": {"unit": {"$ref": "unit.json"}}}
UNIT = {"type": "string", "enum": ["kg", "m"]}


@pytest.fixture(scope="module")
def registry(kafka: Kafka) -> Iterator[Registry]:
    own = {"kafkastore.topic": "_of_writers", "schema.registry.group.id": "writers"}
    with Registry(kafka.bootstrap, own) as found:
        yield found


@pytest.fixture(scope="module")
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


def reference(registry: Registry, name: str, subject: str, schema: Any, kind: str, *more: Any) -> dict[str, Any]:
    registry.client().registration(subject, json.dumps(schema), kind, more)
    return {"name": name, "subject": subject, "version": 1}


def leg_class() -> Any:
    """Of a message in a file that imports another, the second of its file."""
    place = FileDescriptorProto(name="towns/place.proto", package="towns", syntax="proto3")
    place.message_type.add(name="Place").field.add(
        name="town", number=1, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL
    )
    legs = FileDescriptorProto(name="towns/leg.proto", package="towns", syntax="proto3", dependency=[place.name])
    legs.message_type.add(name="Unused")
    legs.message_type.add(name="Leg").field.add(
        name="to",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".towns.Place",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    pool = DescriptorPool()
    for file in (place, legs):
        pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("towns.Leg"))


def case(kind: str, registry: Registry, client: SchemaRegistryClient, topic: str) -> tuple[RegistrySerde, Any, Any]:
    """Our serializer, a value, and what Confluent's reads with; all schemas refer to others."""
    if kind == "avro":
        place = reference(registry, "Place", f"{topic}-place", PLACE, "AVRO")
        return Avro(TRIP, [place]), {"to": {"town": "Praha"}}, AvroDeserializer(client)
    if kind == "json":
        unit = reference(registry, "unit.json", f"{topic}-unit", UNIT, "JSON")
        part = reference(registry, "part.json", f"{topic}-part", PART, "JSON", unit)
        return (
            JsonSchema(ORDER, [part]),
            {"part": {"unit": "kg"}},
            JSONDeserializer(None, schema_registry_client=client),
        )
    leg = leg_class()
    return Protobuf(leg), leg(to={"town": "Plzeň"}), ProtobufDeserializer(leg, {"use.deprecated.format": False}, client)


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
@pytest.mark.parametrize("place", ["prefix", "header"])
def test_confluents_deserializers_read_what_ours_write(
    kafka: Kafka, registry: Registry, client: SchemaRegistryClient, topic: str, kind: str, place: str
) -> None:
    """AVR-06."""
    ours, value, theirs = case(kind, registry, client, topic)
    with kafka.producer(registry.properties, value_serializer=ours, schema_id_serializer=place) as producer:
        stale = [(VALUE_HEADER, b"stale")] if place == "header" else []
        producer.send(topic, value, headers=[("other", b"x"), *stale]).result()
    with kafka.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        record = next(iter(consumer.records(30)))
    assert [name for name, _ in record.headers] == ["other", *[VALUE_HEADER] * (place == "header")]
    context = SerializationContext(topic, MessageField.VALUE, record.headers if place == "header" else [])
    assert theirs(record.value_bytes, context) == value
    (read,) = kafka.values(topic, 1, value_deserializer=type(ours)(), **registry.properties)
    assert read == value or read.SerializeToString() == value.SerializeToString()


def ready(serde: RegistrySerde, registry: Registry, **more: Any) -> RegistrySerde:
    serde.configure({**registry.properties, **{name.replace("_", "."): value for name, value in more.items()}}, False)
    return serde


def id_in(data: bytes | None) -> Any:
    assert data is not None
    return read_frame(data).schema


def test_the_settings_choose_the_schema(registry: Registry, client: SchemaRegistryClient, topic: str) -> None:
    subject = f"{topic}-value"
    wide = {**TEA, "fields": [*TEA["fields"], {"name": "sugar", "type": "int", "default": 0}]}  # type: ignore[misc]
    plain, newest = (client.register_schema(subject, Schema(json.dumps(each))) for each in (TEA, wide))
    marked = registry.client().ask(
        f"/subjects/{subject}/versions", {"schema": json.dumps(TEA), "metadata": {"properties": {"owner": "ann"}}}
    )["id"]
    assert len({plain, newest, marked}) == 3
    chosen = {
        plain: {"use_schema_id": plain},
        newest: {"use_schema_id": str(newest)},
        marked: {"use_latest_with_metadata": "owner=ann"},
    }
    for expected, setting in chosen.items():
        data = ready(Avro(), registry, **setting).serialize(topic, {"leaves": 5, "sugar": 1})
        assert id_in(data) == expected
    by_mapping = ready(Avro(), registry, use_latest_with_metadata={"owner": "ann"})
    assert id_in(by_mapping.serialize(topic, {"leaves": 1})) == marked
    assert id_in(ready(Avro(), registry, use_latest_version=True).serialize(topic, {"leaves": 1})) == marked
    given = ready(Avro(TEA), registry, auto_register_schemas=False)
    assert id_in(given.serialize(topic, {"leaves": 1})) in (plain, marked)
    with pytest.raises(Exception, match="40403"):
        ready(Avro({**TEA, "name": "Coffee"}), registry, auto_register_schemas=False).serialize(topic, {"leaves": 1})


def test_an_incompatible_writer_fails_before_anything_is_stored(kafka: Kafka, registry: Registry, topic: str) -> None:
    """AVR-05, AVR-10."""
    registry.register(f"{topic}-value", TEA)
    wider = {**TEA, "fields": [*TEA["fields"], {"name": "sugar", "type": "int"}]}  # type: ignore[misc]
    with (
        kafka.producer(registry.properties, value_serializer=Avro(wider)) as producer,
        pytest.raises(SerializationFailed, match="READER_FIELD_MISSING_DEFAULT_VALUE"),
    ):
        producer.send(topic, {"leaves": 1, "sugar": 2})
    with kafka.consumer() as consumer:
        assert consumer.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 0}


def test_a_registry_that_is_not_there_is_named(kafka: Kafka, topic: str) -> None:
    """PCF-24."""
    nobody = f"http://127.0.0.1:{free_port()}"
    with (
        kafka.producer(schema_registry_url=nobody, value_serializer=Avro(TEA)) as producer,
        pytest.raises(SerializationFailed, match=nobody),
    ):
        producer.send(topic, {"leaves": 1})


def test_schemas_that_mean_the_same_share_an_id_where_they_are_normalized(registry: Registry, topic: str) -> None:
    one, other = '{"type":"int","b":1,"a":2}', '{"type":"int","a":2,"b":1}'
    first = id_in(ready(Avro(one), registry, normalize_schemas=True).serialize(topic, 5))
    assert id_in(ready(Avro(other), registry, normalize_schemas=True).serialize(topic, 5)) == first
    assert id_in(ready(Avro(one), registry).serialize(topic, 5)) != first


@pytest.mark.parametrize(
    ("schema", "value", "record"),
    [
        (TEA, {"leaves": 1}, "drinks.Tea"),
        (["null", "string"], "x", "union"),
        ({"type": "array", "items": "int"}, [1], "array"),
        ('"string"', "x", "string"),
    ],
)
def test_subjects_are_named_as_in_java(registry: Registry, topic: str, schema: Any, value: Any, record: str) -> None:
    java = "io.confluent.kafka.serializers.subject."
    named = {
        f"{topic}-value": {},
        record: {"value_subject_name_strategy": f"{java}RecordNameStrategy"},
        f"{topic}-{record}": {"subject_name_strategy_type": "TOPIC_RECORD"},
    }
    for subject, settings in named.items():
        data = ready(Avro(schema), registry, **settings).serialize(topic, value)
        assert registry.client().version(subject).schema_id == id_in(data)


def test_a_topic_that_is_associated_with_a_subject_is_written_with_it(registry: Registry, topic: str) -> None:
    subject = f"teas-of-{topic}"
    registry.register(subject, TEA)
    association = {"associationType": "value", "subject": subject}
    registry.client().ask("/associations", {"resourceName": topic, "associations": [association]})
    data = ready(Avro(TEA), registry).serialize(topic, {"leaves": 1})
    assert id_in(data) == registry.client().version(subject).schema_id
    with pytest.raises(Exception, match="40401"):
        registry.client().version(f"{topic}-value")
    strict = {"subject_name_strategy_fallback_type": "none"}
    assert ready(Avro(TEA), registry, **strict).serialize(topic, {"leaves": 1}) == data
    with pytest.raises(ValueError, match="no subject is associated"):
        ready(Avro(TEA), registry, **strict).serialize(f"{topic}-other", {"leaves": 1})


def test_a_value_that_a_rule_should_have_changed_is_refused(kafka: Kafka, registry: Registry, topic: str) -> None:
    rule = {"name": "secret", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT"}
    body = {"schema": json.dumps(TEA), "ruleSet": {"domainRules": [rule]}}
    registry.client().ask(f"/subjects/{topic}-value/versions", body)
    with (
        kafka.producer(registry.properties, value_serializer=Avro(), use_latest_version=True) as producer,
        pytest.raises(SerializationFailed, match=r"'secret' \(ENCRYPT\)"),
    ):
        producer.send(topic, {"leaves": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema.id.serializer", "footer"),
        ("subject.name.strategy", "moon"),
        ("subject.name.strategy.fallback.type", "associated"),
        ("use.schema.id", "seven"),
        ("use.latest.with.metadata", "owner"),
        ("normalize.schemas", "perhaps"),
    ],
)
def test_a_setting_that_says_nothing_is_refused(kafka: Kafka, registry: Registry, name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        kafka.producer({**registry.properties, name: value}, value_serializer=Avro(TEA))
