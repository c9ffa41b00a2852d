"""How each figure of the connectors is measured: one call of `run` is one repetition of one connector."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.measure import cpu_seconds
from bench.outcomes import Values
from bench.peers import Topics
from bench.spark.connectors import Connector, Job
from tests.support.process import BrokerProcess

FEW_ROWS_PER_SECOND = 1_000
LEFT_OVER_TASKS_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scenario works with: `spark_pid` is the process whose family is Spark (JVM and Python workers)."""

    job: Job
    broker: BrokerProcess
    source: str
    """A topic with the rows that are read."""
    rows: int
    spark_pid: int
    name: str
    """Nobody else's, for topics that are made."""


class Scenario(Protocol):
    def run(self, stage: Stage) -> Values: ...


def timed(stage: Stage, rows: int, action: Callable[[], None]) -> dict[str, float]:
    """Rows per second, and CPU of Spark (its Python workers included) and of the broker for a million rows."""
    spark, broker, started = cpu_seconds(stage.spark_pid), cpu_seconds(stage.broker.pid), time.monotonic()
    action()
    seconds = time.monotonic() - started
    millions = rows / 1e6
    return {
        "rows": rows / seconds,
        "spark_cpu": (cpu_seconds(stage.spark_pid) - spark) / millions,
        "broker_cpu": (cpu_seconds(stage.broker.pid) - broker) / millions,
    }


@dataclass(frozen=True, slots=True)
class BatchRead:
    """A whole topic into one row; `columns` are those the query needs."""

    columns: str
    aggregate: Callable[[DataFrame], DataFrame]

    def run(self, stage: Stage) -> Values:
        def read() -> None:
            (found,) = self.aggregate(stage.job.read(stage.source, self.columns)).collect()
            if found["n"] != stage.rows:
                raise AssertionError(f"{found['n']} rows were read, {stage.rows} are there")

        return timed(stage, stage.rows, read)


def totals(rows: DataFrame) -> DataFrame:
    return rows.agg(F.count("*").alias("n"), F.sum(F.length("value")), F.max("offset"))


def hashes(rows: DataFrame) -> DataFrame:
    return rows.agg(F.count("*").alias("n"), F.sum(F.hash("value", "offset", "partition")))


@dataclass(frozen=True, slots=True)
class StreamRead:
    """A whole topic through a stream into Spark's sink that drops everything."""

    columns: str = "value,offset"

    def run(self, stage: Stage) -> Values:
        with checkpoint() as folder:

            def read() -> None:
                rows = stage.job.read_stream(stage.source, self.columns)
                query = rows.select(*self.columns.split(",")).writeStream.format("noop")
                query.option("checkpointLocation", str(folder)).trigger(availableNow=True).start().awaitTermination()

            return timed(stage, stage.rows, read)


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """Keyed rows of 100 bytes, made by Spark, into a topic of four partitions."""

    count: int
    delivery: str

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.name, 4)
        value = F.rpad(F.col("id").cast("string"), 100, "x")
        rows = stage.job.spark.range(self.count).select(F.col("id").cast("string").alias("key"), value.alias("value"))
        more = {"delivery": self.delivery} if stage.job.connector is Connector.MOLDAU else {}
        measured = timed(stage, self.count, lambda: stage.job.write(rows, stage.name, **more))
        topics.delete(stage.name)
        return measured


@dataclass(frozen=True, slots=True)
class TopicToTopic:
    """A stream from topic to topic: ours exactly once, theirs at least once, which is all it offers."""

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.name, 4)
        with checkpoint() as folder:

            def pipe() -> None:
                rows = stage.job.read_stream(stage.source, "key,value").select("key", "value")
                stage.job.pipe(rows, stage.name, folder)

            measured = timed(stage, stage.rows, pipe)
        topics.delete(stage.name)
        return measured


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """A stream from topic to topic with little to do: how long a batch takes."""

    seconds: float

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        source, target = f"{stage.name}-in", f"{stage.name}-out"
        topics.create(source, 2)
        topics.create(target, 2)
        with checkpoint() as folder, steady_rows(stage.broker.address, source):
            rows = stage.job.read_stream(source, "key,value").select("key", "value")
            format_name = stage.job.connector.format
            options = {
                "kafka.bootstrap.servers": stage.broker.address,
                "topic": target,
                "checkpointLocation": str(folder),
            }
            query = rows.writeStream.format(format_name).options(**options).start()
            time.sleep(self.seconds)
            failure, status = query.exception(), query.status
            durations = [progress["batchDuration"] for progress in query.recentProgress if progress["numInputRows"] > 0]
            query.stop()
            await_tasks(stage.job.spark)
        if not durations:
            raise AssertionError(f"no batch in {self.seconds:g} s: {failure or status}")
        topics.delete(source)
        topics.delete(target)
        warm = durations[len(durations) // 3 :]
        return {"batch_ms": statistics.median(warm), "worst_ms": max(warm), "batches": float(len(durations))}


def await_tasks(spark: SparkSession) -> None:
    """A stopped query may leave tasks behind. Those of Spark's connector cannot be interrupted: if their topic went
    now, they would look for it for a minute, and whoever is measured next would find no free core."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    deadline = time.monotonic() + LEFT_OVER_TASKS_SECONDS
    while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        if time.monotonic() > deadline:
            raise AssertionError(f"tasks of a stopped query run on after {LEFT_OVER_TASKS_SECONDS:g} s")
        time.sleep(0.05)


@contextmanager
def checkpoint() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="moldau-bench-checkpoint-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def steady_rows(address: str, topic: str) -> Iterator[None]:
    ended = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
        while not ended.wait(0.01):
            for number in range(FEW_ROWS_PER_SECOND // 100):
                producer.produce(topic, b"x" * 100, str(number))
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
