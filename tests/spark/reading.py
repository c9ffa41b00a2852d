"""Short forms for reading through the data source in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from tests.support.waiting import wait_until

SECONDS = 240.0
ATTEMPTS = 4


@dataclass
class Reads:
    """Reads from one cluster; options that are given are added to its address."""

    spark: SparkSession
    address: str

    def options(self, options: Mapping[str, str]) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.address, **options}

    def batch(self, schema: str | None = None, **options: str) -> DataFrame:
        reader = self.spark.read.format("moldau").options(**self.options(options))
        return (reader if schema is None else reader.schema(schema)).load()

    def stream(self, **options: str) -> DataFrame:
        return self.spark.readStream.format("moldau").options(**self.options(options)).load()

    def places(self, **options: str) -> list[tuple[int, int]]:
        """Partition and offset of every row of a batch read."""
        rows = self.batch(columns="partition,offset", **options).collect()
        return sorted((row.partition, row.offset) for row in rows)


@dataclass
class Collected:
    """What a query handed to foreachBatch, batch by batch."""

    batches: dict[int, list[Row]] = field(default_factory=dict)

    def rows(self) -> list[Row]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def values(self) -> list[str]:
        return sorted(bytes(row.value).decode() for row in self.rows())


def run_to_end(
    frame: DataFrame, checkpoint: Path, each: Callable[[DataFrame, int], None] | None = None, name: str | None = None
) -> Collected:
    """One availableNow run; raises what the query failed with."""
    collected = Collected()

    def keep(batch: DataFrame, number: int) -> None:
        if each is not None:
            each(batch, number)
        collected.batches[number] = batch.collect()

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    run(writer.trigger(availableNow=True))
    return collected


def run(writer: DataStreamWriter) -> None:
    """Runs a query to its end."""
    for attempts_left in reversed(range(ATTEMPTS)):
        query = writer.start()
        try:
            assert query.awaitTermination(SECONDS), f"the query still runs: {query.status}"
            return
        except StreamingQueryException as error:
            # Spark gives its own Python process ten seconds to start, whatever else the machine has to do.
            if "Python worker failed to connect back" not in str(error) or attempts_left == 0:
                raise
        finally:
            query.stop()


def started(writer: DataStreamWriter, runs: Callable[[], bool]) -> StreamingQuery:
    """A query that stays: returns once `runs` is true."""
    for attempts_left in reversed(range(ATTEMPTS)):
        query = writer.start()
        wait_until(lambda query=query: runs() or not query.isActive, "the query runs or has failed", SECONDS)  # type: ignore[misc]
        if query.isActive:
            return query
        problem = str(query.exception())
        if "Python worker failed to connect back" not in problem or attempts_left == 0:
            break
    raise AssertionError(problem)


def produce(
    address: str,
    topic: str,
    values: Sequence[str],
    partition: int | None = None,
    timestamps: Sequence[int] | None = None,
    **settings: Any,
) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0, **settings})
    for number, value in enumerate(values):
        place = {} if partition is None else {"partition": partition}
        time = {} if timestamps is None else {"timestamp": timestamps[number]}
        producer.produce(topic, value.encode(), key=f"key-{number}".encode(), **place, **time)
    assert producer.flush(SECONDS) == 0
