"""Schemas that nobody has given are told to who started the query, once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from moldau.spark.source import MoldauDataSource
from moldau.spark.values.ddl import parse_type
from moldau.spark.writing.writers import BATCH_ID, QUERY_ID, BatchWriter, StreamWriter

OPTIONS = {
    "kafka.bootstrap.servers": "localhost:1",
    "topic": "t",
    "value.format": "avro",
    "delivery": "at-least-once",
}
COLUMNS = parse_type("value BIGINT")
TOLD = ['value.schema is not given; each value is written with this one: "long"']


@pytest.fixture
def task() -> Iterator[Any]:
    """Spark's context of the task that runs in this process."""
    context: Any = TaskContext._getOrCreate()
    context._localProperties = {}
    yield context
    TaskContext._setTaskContext(None)


def written(writer: BatchWriter | StreamWriter, context: Any, task: int, batch: int | None) -> WriterCommitMessage:
    """What a task without rows reports."""
    context._partitionId = task
    context._localProperties = {} if batch is None else {QUERY_ID: "q", BATCH_ID: str(batch)}
    nothing: Iterator[pa.RecordBatch] = iter([])
    return writer.write(nothing)


def batch_writer(columns: StructType = COLUMNS) -> BatchWriter:
    writer = MoldauDataSource(OPTIONS).writer(columns, False)
    assert isinstance(writer, BatchWriter)
    return writer


def stream_writer() -> StreamWriter:
    writer = MoldauDataSource(OPTIONS).streamWriter(COLUMNS, False)
    assert isinstance(writer, StreamWriter)
    return writer


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "schema" in record.getMessage()]


def test_of_a_job_whose_first_task_has_no_rows(task: Any, caplog: pytest.LogCaptureFixture) -> None:
    writer = batch_writer()
    messages = [written(writer, task, number, None) for number in range(2)]
    assert told(caplog) == [], "what a task says stays on its machine"
    writer.commit(messages)
    assert told(caplog) == TOLD


def test_of_a_stream_with_its_first_batch(task: Any, caplog: pytest.LogCaptureFixture) -> None:
    for batch in range(3):
        messages = [written(stream_writer(), task, number, batch) for number in range(2)]
        stream_writer().commit(messages, batch)
    assert told(caplog) == TOLD


def test_of_foreach_batch_with_its_first_batch(task: Any, caplog: pytest.LogCaptureFixture) -> None:
    for batch in range(3):
        writer = batch_writer()
        writer.commit([written(writer, task, 0, batch)])
    assert told(caplog) == TOLD


def test_of_types_that_have_a_time_zone_in_arrow(task: Any, caplog: pytest.LogCaptureFixture) -> None:
    writer = batch_writer(parse_type("value STRUCT<at: TIMESTAMP, local: TIMESTAMP_NTZ>"))
    writer.commit([written(writer, task, 0, None)])
    (message,) = told(caplog)
    assert "timestamp-micros" in message and "local-timestamp-micros" in message
