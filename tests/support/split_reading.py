"""Reading splits as a Spark task does, and the same records through librdkafka, for comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import confluent_kafka

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.spark.fetching.arrow import Assembler
from moldau.spark.fetching.fallback import read_with_librdkafka
from moldau.spark.fetching.prefetch import read_split
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
SECONDS = 30.0
PATHS = WIRE, LANES, LIBRDKAFKA = "wire", "lanes", "librdkafka"
"""A task reads over our own connection, over several where the broker is far away, or through librdkafka where only
that can log in."""
Row = tuple[Any, ...]


def client_properties(address: str, patience_seconds: float = 2 * SECONDS) -> dict[str, str]:
    patience_ms = str(round(patience_seconds * 1000))
    return {"bootstrap.servers": address, "retry.backoff.ms": "20", "default.api.timeout.ms": patience_ms}


def client_settings(address: str, patience_seconds: float = 2 * SECONDS) -> ClientSettings:
    return ClientSettings.from_properties(client_properties(address, patience_seconds))


def split_of(address: str, topic: str, start: int, end: int, partition: int = 0) -> Split:
    """As a planner makes it: with the topic's id and the leader of the moment."""
    with Cluster(client_settings(address)) as cluster:
        found = cluster.topic(topic)
    return Split(topic, found.topic_id, partition, start, end, found.partitions[partition].leader_id)


def batches_through(
    path: str,
    address: str,
    split: Split,
    settings: ReadSettings,
    columns: Sequence[str] = COLUMNS,
    patience_seconds: float = 2 * SECONDS,
) -> Iterator[Any]:
    """The batches of a split over one of PATHS."""
    if path != LIBRDKAFKA:
        chosen = replace(settings, far_seconds=0.0 if path == LANES else 60.0)
        return read_split(split, client_settings(address, patience_seconds), chosen, columns)
    assembler = Assembler(columns, split.topic, split.partition)
    return read_with_librdkafka(split, settings, assembler, client_properties(address, patience_seconds))


def task_rows(
    address: str,
    split: Split,
    columns: Sequence[str] = COLUMNS,
    settings: ReadSettings | None = None,
    path: str = WIRE,
    patience_seconds: float = 2 * SECONDS,
    **changes: Any,
) -> list[Row]:
    """The rows of a split, column by column in the order asked for; times in microseconds."""
    chosen = replace(settings or ReadSettings(timeout_seconds=SECONDS), **changes)
    rows: list[Row] = []
    for batch in batches_through(path, address, split, chosen, columns, patience_seconds):
        batch.validate(full=True)
        assert batch.num_rows
        rows += rows_of(batch)
    return rows


def rows_of(batch: Any) -> list[Row]:
    columns = [
        column.cast("int64") if name == "timestamp" else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def librdkafka_rows(address: str, topic: str, isolation: str = "read_committed", partition: int = 0) -> list[Row]:
    """All of a partition in the same form, decoded by an independent client."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "comparison",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    rows: list[Row] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(SECONDS)
            assert message is not None, f"no end of {topic} within {SECONDS:g} s"
            if message.error() is not None:
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                return rows
            rows.append(librdkafka_row(message))
    finally:
        consumer.close()


def librdkafka_row(message: Any) -> Row:
    kind, milliseconds = message.timestamp()
    headers = [{"key": name, "value": value} for name, value in message.headers() or ()]
    return (
        message.key(),
        message.value(),
        message.topic(),
        message.partition(),
        message.offset(),
        milliseconds * 1000,
        1 if kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME else 0,
        headers or None,
    )
