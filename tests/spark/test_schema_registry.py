"""Avro with a schema registry, through a real Spark session: both directions, and what the registry may say."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark.reading import Reads
from tests.spark.test_typed_values import produce
from tests.spark.test_writing import save, written
from tests.support.admin import create_topic
from tests.support.schema_registry import SchemaRegistry

USER_INFO = "me:secret"
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "s", "type": ["null", "string"], "default": None}],
}
ROW = {"id": 5, "s": "five"}

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(USER_INFO) as running:
        yield running


@pytest.fixture
def target(admin: AdminClient, topic: str) -> str:
    create_topic(admin, topic)
    return topic


@pytest.fixture
def reads(spark: SparkSession, address: str) -> Reads:
    return Reads(spark, address)


def avro(registry: SchemaRegistry, *sides: str) -> dict[str, str]:
    formats = {f"{side}.format": "avro" for side in sides or ("value",)}
    return {**formats, "schema.registry.url": registry.url, "schema.registry.basic.auth.user.info": USER_INFO}


def registered(schema_id: int, schema: Any = SCHEMA, value: Any = ROW) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def schema_id(data: bytes | None) -> int:
    assert data is not None and data[0] == 0
    return int.from_bytes(data[1:5], "big")


def parts(message: Message) -> tuple[bytes | None, bytes | None]:
    return message.key(), message.value()


class TestReading:
    def test_bad_records_follow_the_mode(
        self, reads: Reads, registry: SchemaRegistry, address: str, target: str
    ) -> None:
        good = registered(registry.add(f"{target}-value", json.dumps(SCHEMA)))
        other = registered(registry.add("other", "syntax", schemaType="PROTOBUF"))
        produce(address, target, (None, good), (None, b"no avro"), (None, registered(99)), (None, other), (None, good))
        options = {"subscribe": target, **avro(registry)}
        rows = reads.batch(**options).orderBy("offset").collect()
        assert [row.value and row.value.asDict() for row in rows] == [ROW, None, None, None, ROW]
        assert bytes(rows[2]._corrupt_value) == registered(99)
        for row, problem in zip(rows[1:4], ("zero byte", "40403 Schema not found", "is PROTOBUF"), strict=True):
            assert problem in row._error
        kept = reads.batch(**options, mode="DROPMALFORMED", columns="offset,value", flatten="false")
        assert sorted(row.offset for row in kept.collect()) == [0, 4]
        failing = {**options, "mode": "FAILFAST", "startingOffsets": json.dumps({target: {"0": 2}})}
        with pytest.raises(
            PySparkException, match=r"offset 2: the value .* does not decode as avro: .*40403 Schema not"
        ):
            reads.batch(**failing).collect()

    @pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
    def test_no_record_is_bad_because_the_registry_is_away(
        self, reads: Reads, registry: SchemaRegistry, address: str, target: str, mode: str
    ) -> None:
        produce(address, target, (None, registered(registry.add("any", json.dumps(SCHEMA)))))
        frame = reads.batch(**avro(registry), subscribe=target, mode=mode, **{"value.schema": json.dumps(SCHEMA)})
        registry.failure = 503
        with pytest.raises(PySparkException, match=r"RegistryError: schema registry .* 503 out of order"):
            frame.collect()

    def test_schemas_that_refer_to_others(
        self, reads: Reads, registry: SchemaRegistry, address: str, target: str
    ) -> None:
        place = {"type": "record", "name": "geo.Place", "fields": [{"name": "town", "type": "string"}]}
        trip = {"type": "record", "name": "geo.Trip", "fields": [{"name": "to", "type": "Place"}]}
        log = {"type": "record", "name": "Log", "fields": [{"name": "trip", "type": "geo.Trip"}]}
        registry.add("places", json.dumps({**place, "doc": "an older version"}))
        registry.add("places", json.dumps(place))
        registry.add("trips", json.dumps(trip), references=[{"name": "geo.Place", "subject": "places", "version": 2}])
        to_trip = [{"name": "geo.Trip", "subject": "trips", "version": 1}]
        number = registry.add(f"{target}-value", json.dumps(log), references=to_trip)
        whole = {**log, "fields": [{"name": "trip", "type": {**trip, "fields": [{"name": "to", "type": place}]}}]}
        produce(address, target, (None, registered(number, whole, {"trip": {"to": {"town": "Praha"}}})))
        (row,) = reads.batch(subscribe=target, mode="FAILFAST", **avro(registry)).collect()
        assert row.value.trip.to.town == "Praha"

    def test_keys_and_named_subjects(self, reads: Reads, registry: SchemaRegistry, address: str, target: str) -> None:
        key = registered(registry.add("keys", '"long"'), "long", 7)
        value = registered(registry.add("values", json.dumps(SCHEMA)))
        produce(address, target, (key, value))
        options = {"subscribe": target, **avro(registry, "key", "value")}
        named = reads.batch(**options, **{"key.subject": "keys", "value.subject": "values"})
        assert [(row.key, row.value.asDict()) for row in named.collect()] == [(7, ROW)]
        given = reads.batch(**options, **{"key.schema": '"double"', "value.subject": "values"})
        assert [row.key for row in given.collect()] == [7.0]
        with pytest.raises(PySparkException, match=r"'value\.subject': schema registry .* 40403 Schema not found"):
            reads.batch(**options, **{"key.subject": "keys"}).collect()

    def test_the_registry_wants_a_login(
        self, reads: Reads, registry: SchemaRegistry, address: str, target: str
    ) -> None:
        produce(address, target, (None, registered(registry.add(f"{target}-value", json.dumps(SCHEMA)))))
        options = {"subscribe": target, **avro(registry)}
        for login in ({}, {"schema.registry.basic.auth.user.info": "me:guess"}):
            without = {name: text for name, text in options.items() if not name.endswith("user.info")}
            with pytest.raises(PySparkException, match=r"'value\.subject': schema registry .* 401 Unauthorized"):
                reads.batch(**without, **login).collect()
        assert reads.batch(**options).count() == 1


class TestWriting:
    @pytest.fixture
    def frame(self, spark: SparkSession) -> DataFrame:
        return spark.sql("SELECT id AS key, named_struct('id', id, 's', concat('n', id)) AS value FROM range(3)")

    def test_what_is_written_is_read_back(
        self, reads: Reads, frame: DataFrame, registry: SchemaRegistry, address: str, target: str
    ) -> None:
        save(frame, address, topic=target, **avro(registry, "key", "value"))
        subjects = registry.subjects
        assert set(subjects) == {f"{target}-key", f"{target}-value"}
        for message in written(address, target, 3):
            ids = [schema_id(part) for part in parts(message)]
            assert ids == [subjects[f"{target}-key"][0], subjects[f"{target}-value"][0]]
        read = reads.batch(subscribe=target, **avro(registry, "key", "value"), mode="FAILFAST").select("key", "value")
        assert sorted(read.collect()) == sorted(frame.collect())

    def test_given_schemas_under_named_subjects(
        self, reads: Reads, frame: DataFrame, registry: SchemaRegistry, address: str, target: str
    ) -> None:
        schemas = {"key.schema": '"int"', "value.schema": json.dumps(SCHEMA)}
        subjects = {"key.subject": "keys", "value.subject": "values"}
        narrow = frame.selectExpr("cast(key AS int) AS key", "value")
        save(narrow, address, topic=target, **avro(registry, "key", "value"), **schemas, **subjects)
        assert set(registry.subjects) == {"keys", "values"}
        assert [json.loads(entry["schema"]) for entry in registry.schemas if "record" in entry["schema"]] == [SCHEMA]
        read = reads.batch(subscribe=target, **avro(registry, "key", "value"), **subjects, mode="FAILFAST")
        assert sorted(read.select("key", "value").collect()) == sorted(narrow.collect())

    def test_only_what_is_registered(
        self, frame: DataFrame, registry: SchemaRegistry, address: str, target: str
    ) -> None:
        values = frame.select("value")
        for register, stored in (("false", 0), ("true", 3), ("false", 6)):
            options = {"topic": target, **avro(registry), "auto.register.schemas": register}
            if not stored:
                with pytest.raises(PySparkException, match="40403 Schema not found"):
                    save(values, address, **options)
                assert registry.subjects == {}
                continue
            save(values, address, **options)
            assert {schema_id(message.value()) for message in written(address, target, stored)} == {1}
            assert set(registry.subjects) == {f"{target}-value"}
