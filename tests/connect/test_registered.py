"""Converters with a registry, beside Confluent's serializers; the book's JDBC source with Avro."""

from __future__ import annotations

import base64
import datetime as dt
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.logging.type.http_request_pb2 import HttpRequest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from moldau.clients.registry_access import Access
from moldau.connect.converter_names import find_converter
from moldau.connect.converters import Converter, Side
from moldau.connect.definitions import ConfigRefused
from moldau.connect.registered import RegisteredConverter
from moldau.spark.errors import SourceError
from moldau.testing import Registry
from tests.connect.sink_batches import Delivered, delivered
from tests.connect.test_errors import letters, told
from tests.support.broker import Broker
from tests.support.connect import SECONDS, ThreadWorker, values
from tests.support.waiting import wait_until

AVRO = "io.confluent.connect.avro.AvroConverter"
JSON_SCHEMA = "io.confluent.connect.json.JsonSchemaConverter"
PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"
NEW: dict[str, Any] = {"use.deprecated.format": False}
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    **FIRST,
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}


@pytest.fixture(scope="module")
def registry(broker: Broker) -> Iterator[Registry]:
    with Registry(broker.address) as running:
        yield running


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as found:
        yield found


def converter(name: str, registry: Registry, **more: str) -> Converter:
    made = find_converter(name)
    config = {"schema.registry.url": registry.url, **{key.replace("_", "."): text for key, text in more.items()}}
    return made({**config, **made.CONFIG.checked(config)})


def read(spark: SparkSession, folder: Path, name: str, registry: Registry | str, *contents: bytes | None) -> Delivered:
    url = registry if isinstance(registry, str) else registry.url
    return delivered(
        spark, folder / "out", contents, {"value.converter": name, "value.converter.schema.registry.url": url}
    )


def encoded(converter: Converter, frame: DataFrame, name: str | None = None) -> list[Any]:
    kind = frame.schema["value"].dataType
    column = converter.encode(Side("value", kind, name)).alias("value")
    return [row.value for row in frame.select("offset", column).orderBy("offset").collect()]


def test_records_of_several_schemas_have_the_fields_of_their_own(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient, topic: str, tmp_path: Path
) -> None:
    def serialized(schema: Mapping[str, Any], value: Any, topic: str) -> bytes:
        serializer = AvroSerializer(client, json.dumps(schema))
        return bytes(serializer(value, SerializationContext(topic, MessageField.VALUE)))

    good = serialized(FIRST, {"id": 1}, topic)
    wide = serialized(SECOND, {"id": 2**40, "note": "x"}, f"{topic}-2")
    other = serialized({**FIRST, "fields": [{"name": "id", "type": "string"}]}, {"id": "x"}, f"{topic}-3")
    found = read(
        spark, tmp_path, AVRO, registry, good, b"no Avro", wide, None, b"\0\0\0\x7f\x7fx", good[:5], other, good
    )
    assert found.values == [{"id": 1}, {"id": 2**40, "note": "x"}, None, {"id": "x"}, {"id": 1}]
    assert [record.offset for record in found.records] == [0, 2, 3, 6, 7]
    problems = dict(found.problems)
    assert problems[1] == "Unknown magic byte!"
    assert "32639" in problems[4] and "not found" in problems[4]
    assert "it ends before all fields" in problems[5]
    assert {letter.stage for letter in found.letters} == {"VALUE_CONVERTER"}


def test_json_schema_and_protobuf_are_read(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient, topic: str, tmp_path: Path
) -> None:
    context = SerializationContext(topic, MessageField.VALUE)
    schema = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    as_json = JSONSerializer(json.dumps(schema), client)({"id": 7}, context)
    found = read(spark, tmp_path, JSON_SCHEMA, registry, as_json, b'{"id":7}')
    assert (found.values, found.problems) == ([{"id": 7}], [(1, "Unknown magic byte!")])
    message = ProtobufSerializer(HttpRequest, client, NEW)(
        HttpRequest(status=200), SerializationContext(f"{topic}-p", "value")
    )
    found = read(spark, tmp_path, PROTOBUF, registry, message, as_json)
    assert [(value["status"], value["request_method"]) for value in found.values] == [(200, "")]
    assert [offset for offset, _ in found.problems] == [1]


def test_each_topic_has_a_subject_and_the_schema_is_connect_s(
    spark: SparkSession, registry: Registry, client: SchemaRegistryClient, topic: str, tmp_path: Path
) -> None:
    frame = spark.sql(
        "SELECT CAST(id AS INT) AS offset, CASE id WHEN 0 THEN NULL WHEN 1 THEN 'TOPIC-a' ELSE 'TOPIC-b' END AS topic, "
        "named_struct('id', id, 'at', timestamp_millis(id * 1000 + 250), 'price', IF(id = 1, NULL, id * 0.5D)) "
        "AS value FROM range(4)".replace("TOPIC", topic)
    )
    first, *others = encoded(converter(AVRO, registry), frame, "orders")
    read_back = [AvroDeserializer(client)(each, SerializationContext(topic, MessageField.VALUE)) for each in others]
    at = dt.datetime(1970, 1, 1, 0, 0, 0, 250_000, dt.UTC)
    assert first is None, "what has no topic is no record"
    assert read_back == [
        {"id": number, "at": at + dt.timedelta(seconds=number), "price": None if number == 1 else number * 0.5}
        for number in (1, 2, 3)
    ]
    stored = json.loads(str(client.get_latest_version(f"{topic}-b-value").schema.schema_str))
    time = {
        "type": "long", "connect.version": 1, "connect.name": "org.apache.kafka.connect.data.Timestamp",
        "logicalType": "timestamp-millis",
    }  # fmt: skip
    assert stored == {
        "type": "record",
        "name": "orders",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": time},
            {"name": "price", "type": ["null", "double"], "default": None},
        ],
    }
    (_, as_json, *_) = encoded(
        converter("JsonSchemaConverter", registry), frame.withColumn("topic", F.lit(f"{topic}-j"))
    )
    found = client.get_latest_version(f"{topic}-j-value").schema
    assert JSONDeserializer(found, schema_registry_client=client)(
        as_json, SerializationContext(f"{topic}-j", MessageField.VALUE)
    )["id"] == 1  # fmt: skip
    messages = encoded(
        converter("ProtobufConverter", registry), frame.withColumn("topic", F.lit(f"{topic}-p")), "Order"
    )
    back = read(spark, tmp_path, PROTOBUF, registry, *messages)
    assert [(value["id"], value["price"]) for value in back.values] == [(0, 0.0), (1, None), (2, 1.0), (3, 1.5)]


def test_settings_that_do_not_go_together_are_refused(registry: Registry) -> None:
    with pytest.raises(ConfigRefused, match="only TopicNameStrategy is known here"):
        converter(AVRO, registry, value_subject_name_strategy="io.confluent.RecordNameStrategy")
    with pytest.raises(ConfigRefused, match=r'Missing required configuration "schema.registry.url"'):
        find_converter(AVRO).CONFIG.checked({})
    config = {"schema.registry.url": "http://a:b%40c@one:1,http://two:2/"}
    made = find_converter(AVRO)(find_converter(AVRO).CONFIG.checked(config))
    assert isinstance(made, RegisteredConverter)
    assert "a:b" not in repr(made.registry)
    access = Access.of({"schema.registry.url": ",".join(made.registry.urls), **dict(made.registry.settings)})
    logins = [base64.b64decode(each.authorization.removeprefix("Basic ")) for each in access.addresses]
    assert [each.url for each in access.addresses] == ["http://one:1", "http://two:2"]
    assert logins == [b"a:b@c", b""], "each address has its own, as in Java's clients"


def test_a_registry_that_is_away_is_no_fault_of_a_record(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:9"):
        read(spark, tmp_path, AVRO, "http://127.0.0.1:9", b"\0\0\0\0\1x")


def test_what_a_source_s_converter_does_not_take_is_a_dead_letter(
    worker: ThreadWorker, registry: Registry, address: str, topic: str, tmp_path: Path
) -> None:
    """Each value where that is found in the values, all where it is their type."""
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, "value.converter": PROTOBUF}
    config["value.converter.schema.registry.url"] = registry.url
    assert worker.ask("PUT", f"/connectors/{topic}/config", config)[0] == 201
    wait_until(lambda: "FAILED" in worker.states(topic), "the task fails", SECONDS)
    assert "Tolerance exceeded in error handler" in worker.task_trace(topic)
    config |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"{topic}-dlq"}
    config |= {"errors.deadletterqueue.context.headers.enable": "true"}
    assert worker.ask("PUT", f"/connectors/{topic}/config", config)[0] == 200
    found = letters(address, f"{topic}-dlq", 2)
    assert [letter.value() for letter in found] == [b'"one"', b'"two"']
    assert (told(found[0])["stage"], told(found[0])["class.name"]) == ("VALUE_CONVERTER", PROTOBUF)
    assert "protobuf writes structs" in told(found[0])["exception.message"]
    numbers = "org.apache.kafka.connect.converters.IntegerConverter"
    config = {**{key: value for key, value in config.items() if "registry" not in key}, "value.converter": numbers}
    config["errors.deadletterqueue.topic.name"] = f"{topic}-more"
    assert worker.ask("PUT", f"/connectors/{topic}/config", config)[0] == 200
    with file.open("a") as more:
        more.write("three\n")
    (last,) = letters(address, f"{topic}-more", 1)
    assert last.value() == b'"three"'
    assert told(last)["exception.message"] == "Invalid schema type for IntegerConverter: string"
    worker.delete(topic)


def test_a_table_goes_through_a_topic_as_avro(
    worker: ThreadWorker, registry: Registry, client: SchemaRegistryClient, address: str, topic: str, tmp_path: Path
) -> None:
    database, copy = tmp_path / "kafkatest.db", tmp_path / "copy.db"
    with closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE invoices (id INT PRIMARY KEY NOT NULL, title TEXT NOT NULL, billedamt REAL)")
        made.executemany("INSERT INTO invoices VALUES (?, ?, ?)", [(1, "book", 500.0), (2, "x", None), (3, "y", 1.5)])
        made.commit()
    avro = {"value_converter": AVRO, "value_converter_schema_registry_url": registry.url}
    out = f"{topic}-invoices"
    worker.create(
        f"{topic}-in",
        connector_class="JdbcSourceConnector",
        connection_url=f"jdbc:sqlite:{database}",
        mode="incrementing",
        table_whitelist="invoices",
        topic_prefix=f"{topic}-",
        incrementing_column_name="id",
        **avro,
    )
    sent = values(address, out, 3)
    deserialize = AvroDeserializer(client)
    assert deserialize(sent[0], SerializationContext(out, MessageField.VALUE)) == {
        "id": 1, "title": "book", "billedamt": 500.0,
    }  # fmt: skip
    producer = Producer({"bootstrap.servers": address})
    producer.produce(out, b"no Avro", b"key", 0)
    producer.flush(60)
    worker.create(
        f"{topic}-out",
        connector_class="JdbcSinkConnector",
        connection_url=f"jdbc:sqlite:{copy}",
        topics=out,
        table_name_format="invoices",
        auto_create="true",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=f"{topic}-dlq",
        errors_deadletterqueue_context_headers_enable="true",
        **avro,
    )
    (letter,) = letters(address, f"{topic}-dlq", 1)
    assert (letter.value(), told(letter)["class.name"]) == (b"no Avro", AVRO)

    def rows() -> list[Any]:
        with closing(sqlite3.connect(copy)) as found:
            try:
                return found.execute("SELECT id, title, billedamt FROM invoices ORDER BY id").fetchall()
            except sqlite3.OperationalError:
                return []

    wait_until(lambda: len(rows()) >= 3, "the copy", SECONDS)
    assert rows() == [(1, "book", 500.0), (2, "x", None), (3, "y", 1.5)]
    worker.delete(f"{topic}-in")
    worker.delete(f"{topic}-out")
