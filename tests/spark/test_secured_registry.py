"""A schema registry that asks for a certificate and a login: the driver and the executors show them."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from moldau import Producer
from moldau.clients.registered import Avro
from tests.spark.reading import Reads
from tests.spark.test_writing import save
from tests.support.registry import QUICK, Registry
from tests.support.registry_stores import LOGIN, PASSWORD, made_stores, secured_settings

USER = {"type": "record", "name": "User", "fields": [{"name": "x", "type": "int"}]}


def test_values_are_read_and_written_with_a_secured_registry(
    spark: SparkSession, address: str, topic: str, tmp_path: Path
) -> None:
    stores = made_stores(tmp_path / "stores")
    settings = {**secured_settings(stores), **QUICK, "kafkastore.topic": f"{topic}-schemas",
                "schema.registry.group.id": topic}  # fmt: skip
    with Registry(tmp_path / "registry", address, settings) as registry:
        access = {
            "schema.registry.url": registry.url,
            "schema.registry.ssl.truststore.location": str(stores / "trusted.p12"),
            "schema.registry.ssl.truststore.password": PASSWORD,
            "schema.registry.ssl.keystore.location": str(stores / "ann.p12"),
            "schema.registry.ssl.keystore.password": PASSWORD,
            "basic.auth.user.info": LOGIN,
        }
        by_header = {"bootstrap.servers": address, "schema.id.serializer": "header", **access}
        with Producer(by_header, value_serializer=Avro(USER)) as producer:
            producer.send(topic, {"x": 7}).result(60)
        options = {"value.format": "avro", **access}
        frame = spark.sql("SELECT named_struct('x', 8) AS value")
        save(frame, address, topic=topic, **{"value.schema": json.dumps(USER)}, **options)
        found = Reads(spark, address).batch(subscribe=topic, mode="FAILFAST", **options)
        assert [row.value.x for row in found.orderBy("offset").collect()] == [7, 8]
