"""Built-in serializers have Java's layouts; those of a registry have Confluent's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from moldau.client.errors import SettingError
from moldau.clients import serializers
from moldau.clients.protobuf import Protobuf
from moldau.clients.registered import Avro, JsonSchema
from moldau.clients.registry_access import Access
from tests.support.schema_registry import SchemaRegistry

STORES = Path(__file__).parents[1] / "tls" / "data"
PLACE = UUID("01234567-89ab-cdef-0123-456789abcdef")
FAX = '{"name":"fax","type":["null","string"],"default":null}'
V1 = f'{{"type":"record","name":"C","fields":[{{"name":"id","type":"int"}},{FAX}]}}'
V2 = V1.replace("fax", "email")
PERSON = {"type": "object", "title": "Person", "properties": {"age": {"type": "integer"}}, "required": ["age"]}


@pytest.mark.parametrize(
    ("name", "value", "data"),
    [
        ("bytes", b"x", b"x"),
        ("string", "ü", b"\xc3\xbc"),
        ("org.apache.kafka.common.serialization.StringSerializer", "a", b"a"),
        ("short", -2, b"\xff\xfe"),
        ("integer", 1, b"\0\0\0\1"),
        ("org.apache.kafka.common.serialization.LongSerializer", 12345, b"\0\0\0\0\0\0\x30\x39"),
        ("float", 1.5, b"\x3f\xc0\0\0"),
        ("double", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("uuid", PLACE, str(PLACE).encode()),
        ("json", {"a": [1, "ü"]}, '{"a":[1,"ü"]}'.encode()),
        ("void", None, None),
    ],
)
def test_built_in_layouts(name: str, value: object, data: bytes | None) -> None:
    """SER-01."""
    assert serializers.encoder(name, {}, is_key=False)("t", value) == data
    assert serializers.decoder(name.replace("Serializer", "Deserializer"), {}, is_key=False)("t", data) == value
    assert serializers.encoder(name, {}, is_key=False)("t", None) is None


@pytest.mark.parametrize(
    ("name", "value"), [("integer", 1 << 31), ("integer", "1"), ("integer", True), ("json", float("nan")), ("void", 1)]
)
def test_what_does_not_fit_is_refused(name: str, value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        serializers.encoder(name, {}, is_key=False)("t", value)


def test_another_encoding_and_plain_functions() -> None:
    """PCF-23."""
    assert serializers.encoder("string", {"serializer.encoding": "utf-16-be"}, is_key=True)("t", "a") == b"\0a"
    assert serializers.encoder(str.encode, {}, is_key=True)("t", "a") == b"a"
    assert serializers.decoder(bytes.decode, {}, is_key=True)("t", None) is None


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(SettingError, match=re.escape("key.serializer: 'strng' is not known; expected bytes, string")):
        serializers.encoder("strng", {}, is_key=True)


def made(serde: Any, registry: SchemaRegistry, **properties: object) -> Any:
    serde.configure({"schema.registry.url": registry.url, **properties}, False)
    return serde


def test_avro_old_and_new_readers() -> None:
    """AVR-03, AVR-06, AV-09."""
    with SchemaRegistry() as registry:
        old, new = made(Avro(V1), registry), made(Avro(V2), registry)
        data = new.serialize("t", {"id": 1, "email": "a@b"})
        assert data == b"\0\0\0\0\1" + b"\x02\x02\x06a@b"
        assert old.deserialize("t", data) == {"id": 1, "fax": None}
        assert made(Avro(), registry).deserialize("t", data) == {"id": 1, "email": "a@b"}
        assert made(Avro(), registry).serialize("k", "text") == b"\0\0\0\0\2\x08text"
        with pytest.raises(ValueError, match="does not fit its schema"):
            new.serialize("t", {"email": 5})
        with pytest.raises(ValueError, match="no schema id before it"):
            old.deserialize("t", b"text")
        with pytest.raises(Exception, match=r"/schemas/ids/77: 40403"):
            old.deserialize("t", b"\0\0\0\0\x4dx")


@pytest.mark.parametrize(("strategy", "subject"), [("topic", "t-value"), ("record", "C"), ("topic_record", "t-C")])
def test_names_of_subjects(strategy: str, subject: str) -> None:
    with SchemaRegistry() as registry:
        made(Avro(V1), registry, **{"value.subject.name.strategy": strategy}).serialize("t", {"id": 1})
        assert list(registry.subjects) == [subject]


def test_the_latest_version_is_used_where_asked() -> None:
    with SchemaRegistry() as registry:
        registry.add("t-value", V1)
        registry.add("t-value", V2)
        serde = made(Avro(), registry, **{"use.latest.version": True})
        assert serde.serialize("t", {"id": 1, "email": None})[:5] == b"\0\0\0\0\2"
        unknown = made(Avro('"long"'), registry, **{"auto.register.schemas": False})
        with pytest.raises(Exception, match="40403"):
            unknown.serialize("t", 5)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"basic.auth.user.info": "a:b"}, "Basic YTpi"),
        ({"schema.registry.basic.auth.user.info": "a:b"}, "Basic YTpi"),
        ({"bearer.auth.token": "abc"}, "Bearer abc"),
        ({"schema.registry.bearer.auth.token": "abc", "bearer.auth.credentials.source": "STATIC_TOKEN"}, "Bearer abc"),
        ({"user": "a:b%2Fc"}, "Basic YTpiL2M="),
        ({}, ""),
    ],
)
def test_who_asks_the_registry(given: dict[str, str], sent: str) -> None:
    with SchemaRegistry() as registry:
        user, properties = given.get("user"), {name: value for name, value in given.items() if name != "user"}
        url = registry.url.replace("://", f"://{user}@") if user else registry.url
        made(Avro('"long"'), registry, **properties, **{"schema.registry.url": url}).serialize("t", 5)
        assert {" ".join(each.split()[2:]) for each in registry.requests} == {sent}


@pytest.mark.parametrize("source", ["OAUTHBEARER", "STATIC_TOKEN"])
def test_a_token_that_cannot_be_had_is_told(source: str) -> None:
    given = {"schema.registry.url": "http://127.0.0.1:1", "bearer.auth.credentials.source": source}
    with pytest.raises(SettingError, match=r"bearer\.auth\.token"):
        Avro('"long"').configure(given, False)


def test_a_trust_store_of_java_is_read() -> None:
    store = {"truststore.location": str(STORES / "trust.jks"), "truststore.password": "changeit"}
    named = {f"schema.registry.ssl.{name}": value for name, value in store.items()}
    tls = Access.of({"schema.registry.url": "https://127.0.0.1:1", **named}).tls
    assert tls is not None and len(tls.get_ca_certs()) == 1


def test_the_latest_version_is_asked_for_once() -> None:
    with SchemaRegistry() as registry:
        registry.add("t-value", json.dumps(PERSON), schemaType="JSON")
        serde = made(JsonSchema(), registry, **{"use.latest.version": True})
        assert {serde.serialize("t", {"age": number})[:5] for number in range(5)} == {b"\0\0\0\0\1"}
        assert len([each for each in registry.requests if "/versions/" in each]) == 1
        assert len([each for each in registry.requests if "/associations/" in each]) == 1


def test_json_is_checked_both_ways() -> None:
    with SchemaRegistry() as registry:
        registry.add("t-value", '{"type":"object"}', schemaType="JSON")
        serde = made(JsonSchema(PERSON), registry)
        with pytest.raises(ValueError, match="'age' is a required property"):
            serde.serialize("t", {})
        registry.schemas[1]["schemaType"] = "JSON"
        data = serde.serialize("t", {"age": 5})
        assert data == b'\0\0\0\0\2{"age":5}'
        assert serde.deserialize("t", data) == {"age": 5}
        with pytest.raises(ValueError, match="breaks schema 2 at age"):
            serde.deserialize("t", b'\0\0\0\0\2{"age":"x"}')
        with pytest.raises(ValueError, match="is JSON, not AVRO"):
            made(Avro(), registry).deserialize("t", data)


def test_protobuf_names_the_message_in_its_file() -> None:
    from google.protobuf import duration_pb2, struct_pb2

    with SchemaRegistry() as registry:
        serde = made(Protobuf(), registry)
        data = serde.serialize("t", duration_pb2.Duration(seconds=3))
        assert data == b"\0\0\0\0\1\0" + b"\x08\x03"
        registry.schemas[0]["schemaType"] = "PROTOBUF"
        assert made(Protobuf(duration_pb2.Duration), registry).deserialize("t", data).seconds == 3
        assert serde.deserialize("t", data).seconds == 3
        value = struct_pb2.Value(number_value=1.5)
        other = serde.serialize("t", value)
        assert other[5:7] == b"\x02\x02"  # one index: the second message
        registry.schemas[1]["schemaType"] = "PROTOBUF"
        assert serde.deserialize("t", other).number_value == 1.5
        with pytest.raises(TypeError, match="no Protobuf message"):
            serde.serialize("t", {})
