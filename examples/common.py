"""What the examples share: the command line, sample records into topics, reading topics and draining a query."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from moldau.spark import session

FLUSH_SECONDS = 60


def run_alone(example: Callable[[SparkSession, str, Path], Any], description: str | None) -> None:
    """The `main` of every example: options, a session, a folder for checkpoints."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bootstrap", default="127.0.0.1:9092", help="where the cluster is (moldau broker start)")
    options.add_argument("--master", default="local[*]", help="Spark's master")
    options.add_argument("--prefix", default="example-", help="what the names of its topics begin with")
    options.add_argument("--keep", action="store_true", help="leave its topics there at the end, to look at them")
    given = options.parse_args()
    TOPICS.prefix = given.prefix
    spark = session("moldau-example", given.master, ui=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            example(spark, given.bootstrap, Path(folder))
    finally:
        spark.stop()
        if not given.keep:
            TOPICS.delete_all(given.bootstrap)


class Topics:
    """The topics of a run. Their names begin with its prefix; only those that it has made are ever deleted."""

    def __init__(self) -> None:
        self.prefix = ""
        self._made: set[str] = set()

    def named(self, topic: str) -> str:
        return f"{self.prefix}{topic}"

    def make(self, bootstrap: str, topic: str, partitions: int) -> None:
        admin, name = AdminClient({"bootstrap.servers": bootstrap}), self.named(topic)
        if name in admin.list_topics(timeout=30).topics:
            if name not in self._made:
                raise SystemExit(
                    f"topic {name!r} is there already, and it is not this example's: choose other names with --prefix"
                )
            admin.delete_topics([name])[name].result(30)
        # Sample events may be old, and records older than the topic's retention are deleted: these shall stay.
        new = NewTopic(name, num_partitions=partitions, config={"retention.ms": "-1"})
        admin.create_topics([new])[name].result(30)
        self._made.add(name)

    def delete_all(self, bootstrap: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        if self._made:
            for deleted in admin.delete_topics(sorted(self._made)).values():
                deleted.result(30)
        self._made.clear()


TOPICS = Topics()


def fresh_topic(bootstrap: str, topic: str, partitions: int = 2) -> None:
    """An empty topic of this name."""
    TOPICS.make(bootstrap, topic, partitions)


def publish(bootstrap: str, topic: str, records: Iterable[tuple[str | None, Any]], partitions: int = 2) -> None:
    """Fill a fresh topic with (key, value) pairs; a value that is not text becomes JSON."""
    fresh_topic(bootstrap, topic, partitions)
    append(bootstrap, topic, records)


def append(bootstrap: str, topic: str, records: Iterable[tuple[str | None, Any]]) -> None:
    """Write more records."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for key, value in records:
        text = value if isinstance(value, str) else json.dumps(value)
        producer.produce(TOPICS.named(topic), text.encode(), None if key is None else key.encode())
    if producer.flush(FLUSH_SECONDS):
        raise TimeoutError(f"not all records could be written to {topic}")


def topic_options(bootstrap: str, topic: str) -> dict[str, str]:
    """Read a topic from its beginning."""
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPICS.named(topic), "startingOffsets": "earliest"}


def table(spark: SparkSession, bootstrap: str, topic: str, schema: str | None = None) -> DataFrame:
    """A topic as it is now; with a schema, the fields of its JSON values."""
    return values(spark.read.format("moldau").options(**topic_options(bootstrap, topic)).load(), schema)


def stream(spark: SparkSession, bootstrap: str, topic: str, schema: str | None = None, **options: str) -> DataFrame:
    """A topic as it grows; with a schema, the fields of its JSON values."""
    read = spark.readStream.format("moldau").options(**{**topic_options(bootstrap, topic), **options}).load()
    return values(read, schema)


def values(records: DataFrame, schema: str | None) -> DataFrame:
    """The fields of JSON values as columns; a value that does not fit gives nulls."""
    if schema is None:
        return records
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")


def as_records(frame: DataFrame, key: str) -> DataFrame:
    """Rows to records: the key as text, the whole row as JSON."""
    return frame.select(
        F.col(key).cast("string").cast("binary").alias("key"), F.to_json(F.struct("*")).cast("binary").alias("value")
    )


def drain(writer: Any, checkpoint: Path, **options: str) -> StreamingQuery:
    """Process everything that is there now, then end."""
    writer = writer.options(checkpointLocation=str(checkpoint), **options).trigger(availableNow=True)
    query: StreamingQuery = writer.start()
    query.awaitTermination()
    return query


def to_topic(bootstrap: str, topic: str) -> Mapping[str, str]:
    """Write to a topic."""
    return {"kafka.bootstrap.servers": bootstrap, "topic": TOPICS.named(topic)}
