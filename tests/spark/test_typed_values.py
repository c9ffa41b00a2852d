"""Keys and values as columns, through a real Spark session."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from moldau.spark.values.avro_types import avro_schema
from moldau.spark.values.ddl import parse_type
from tests.spark.reading import SECONDS, Reads, run_to_end
from tests.support.admin import create_topic

SCHEMA = "id BIGINT, at TIMESTAMP, tags ARRAY<STRING>, price DECIMAL(8, 2)"
GOOD = b'{"id": 1, "at": "2024-05-06T07:08:09.5Z", "tags": ["a"], "price": 2.5, "extra": {}}'
BAD = b'{"id": "one"}'

pytestmark = pytest.mark.timeout(900)


def produce(address: str, topic: str, *rows: tuple[bytes | None, bytes | None]) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for key, value in rows:
        producer.produce(topic, value, key=key)
    assert producer.flush(SECONDS) == 0


@pytest.fixture
def events(spark: SparkSession, address: str, admin: AdminClient, topic: str) -> Reads:
    create_topic(admin, topic)
    produce(address, topic, (b"k1", GOOD), (b"k2", BAD), (b"\xff", None))
    return Reads(spark, address)


def test_json_with_errors_in_columns(events: Reads, topic: str) -> None:
    options = {"subscribe": topic, "value.format": "json", "value.schema": SCHEMA, "key.format": "string"}
    rows = events.batch(**options).orderBy("offset").collect()
    assert rows[0].key == "k1" and rows[0]._error is None and rows[0]._corrupt_value is None
    assert rows[0].value.asDict() | {"at": None, "price": float(rows[0].value.price)} == {
        "id": 1, "at": None, "tags": ["a"], "price": 2.5,
    }  # fmt: skip
    assert rows[0].value.at.astimezone(datetime.UTC).isoformat() == "2024-05-06T07:08:09.500000+00:00"
    assert rows[1].value is None and bytes(rows[1]._corrupt_value) == BAD
    assert rows[1]._error == 'value: id: "one" is no bigint'
    assert rows[2].value is None and rows[2].key is None and bytes(rows[2]._corrupt_key) == b"\xff"


def test_the_other_modes_and_flat_columns(events: Reads, topic: str) -> None:
    options = {"subscribe": topic, "value.format": "json", "value.schema": SCHEMA, "flatten": "true"}
    frame = events.batch(**options, mode="DROPMALFORMED", columns="id,offset")
    assert [tuple(row) for row in frame.orderBy("offset").collect()] == [(1, 0), (None, 2)]
    with pytest.raises(PySparkException, match=r"offset 1: the value b'\{\"id\": \"one\"\}' does not decode as json"):
        events.batch(**options, mode="FAILFAST").collect()
    typed = events.batch("id BIGINT, _error STRING", **options).where("_error is not null").collect()
    assert [tuple(row) for row in typed] == [(None, 'value: id: "one" is no bigint')]


def test_a_stream_of_json(events: Reads, topic: str, tmp_path: Path) -> None:
    frame = events.stream(
        **{"subscribe": topic, "startingOffsets": "earliest", "value.format": "json", "value.schema": SCHEMA}
    )
    rows = run_to_end(frame.selectExpr("value.id", "_error is null as good", "offset"), tmp_path / "checkpoint").rows()
    found = sorted((row.offset, row.good, row.id) for row in rows)
    assert found == [(0, True, 1), (1, False, None), (2, True, None)]


@pytest.mark.parametrize("form", ["json", "avro"])
def test_what_is_written_is_read_back(
    spark: SparkSession, address: str, admin: AdminClient, topic: str, form: str
) -> None:
    create_topic(admin, topic)
    frame = spark.sql(
        "SELECT CAST(id AS STRING) AS key, named_struct('id', id, 'at', timestamp'2024-05-06 07:08:09.5', 'tags', "
        "array('x', NULL), 'price', CAST(2.5 AS DECIMAL(8, 2))) AS value FROM range(3)"
    )
    options = {"kafka.bootstrap.servers": address, "value.format": form, "key.format": "string"}
    frame.write.format("moldau").options(topic=topic, **options).mode("append").save()
    kind = frame.schema["value"].dataType
    schema = kind.json() if form == "json" else json.dumps(avro_schema(kind, "value", may_be_null=False))
    read = Reads(spark, address).batch(
        **{"subscribe": topic, "value.format": form, "value.schema": schema, "key.format": "string"}
    )
    assert read.where("_error IS NOT NULL").count() == 0
    assert sorted(read.select("key", "value").collect()) == sorted(frame.collect())


def test_options_that_make_no_sense(spark: SparkSession, address: str) -> None:
    reads = Reads(spark, address)
    for options, problem in (
        ({"value.format": "jsn"}, "'value.format': 'jsn' is none of .*did you mean 'json'"),
        ({"value.format": "json"}, r"'value\.schema': is missing"),
        ({"value.formt": "json"}, r"did you mean 'value\.format'"),
        ({"mode": "FAILFAST"}, "'mode': has no meaning while"),
        ({"flatten": "true", "value.format": "string"}, "'flatten': has no meaning"),
        ({"value.subject": "s"}, r"'value\.subject': has no meaning"),
        ({"schema.registry.url": "http://localhost:1"}, r"'schema\.registry\.url': has no meaning"),
    ):
        with pytest.raises(PySparkException, match=problem):
            reads.batch(subscribe="any", **options).collect()


@pytest.mark.parametrize(
    "text",
    [
        SCHEMA,
        "a: int, `b c` string NOT NULL COMMENT 'it''s', c struct<x: int, y: array<map<string, double>>>",
        "a dec, b decimal(3), c numeric(20, 10), d real, e byte, f short, g long, h timestamp_ntz, i date, j binary",
    ],
)
def test_schemas_are_read_as_spark_reads_them(spark: SparkSession, text: str) -> None:
    ours = parse_type(text)
    assert ours.simpleString() == StructType.fromDDL(text).simpleString()
