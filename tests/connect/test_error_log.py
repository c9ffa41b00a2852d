"""errors.log.enable and errors.log.include.messages, of sinks and of sources, whether errors are tolerated or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from moldau.connect.configuration import WorkerDefaults, make_job
from moldau.connect.dead_letters import DeadLetter, LetterLog, dead_letters
from moldau.connect.interface import (
    Position,
    RawRecord,
    RecordRefused,
    SinkConnector,
    SinkRecord,
    SourceConnector,
    SourceRecord,
    Stream,
)
from moldau.connect.sinks import Writing
from moldau.connect.source_reading import arrow_batches, schema_of
from moldau.connect.sources import LoggedErrors, written
from tests.connect.sink_batches import FREE, batch_of, job_of
from tests.support.connect import STRING

LOGS = {
    "none": {},
    "line": {"errors.log.enable": "true"},
    "content": {"errors.log.enable": "true", "errors.log.include.messages": "true"},
}


class Refusing(SinkConnector):
    def write(self, records: Iterator[SinkRecord]) -> None:
        for record in records:
            self.refuse(record, ValueError("not this one"))


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize("chosen", LOGS)
@pytest.mark.parametrize(("content", "problem"), [(b"no JSON", "serialization error"), (b"{}", "not this one")])
def test_errors_of_a_sink(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, problem: str,
    chosen: str, tolerance: str,
) -> None:  # fmt: skip
    job = job_of(
        tmp_path, {**FREE, **LOGS[chosen], "errors.tolerance": tolerance, "connector.class": f"{__name__}:Refusing"}
    )
    ready = batch_of(spark, job, [content])
    assert ready is not None
    batches = ready.frame.toArrow().to_batches()
    writing = Writing(job.place, dict(job.config), job.errors.tolerated, None, ready.kinds, LetterLog.of(job))
    if tolerance == "none":
        with pytest.raises((RecordRefused, ValueError)):
            list(writing(batches))
    else:
        rows = [row for batch in writing(batches) for row in batch.to_pylist()]
        dead_letters(job, [DeadLetter.from_json(row["letter"]) for row in rows if row["letter"]])
    told = [record.getMessage() for record in caplog.records if "n: " in record.getMessage()]
    assert len(told) == (0 if chosen == "none" else 1)
    if told:
        assert "of t-0 at offset 0" in told[0] and problem in told[0]
        assert (f"value {content!r}" in told[0]) == (chosen == "content")


class Numbers(SourceConnector):
    def streams(self) -> list[Stream]:
        return [Stream({"numbers": "all"}, "t", "string")]

    def latest(self, stream: Stream, position: Position | None) -> Position:
        return {"next": 1}

    def read(self, stream: Stream, begin: Position | None, end: Position) -> Iterator[SourceRecord]:
        return iter(())


@pytest.mark.parametrize("chosen", LOGS)
def test_errors_of_a_source(spark: SparkSession, caplog: pytest.LogCaptureFixture, chosen: str) -> None:
    given = {
        "name": "n", "connector.class": f"{__name__}:Numbers", **LOGS[chosen], "errors.tolerance": "all",
        "transforms": "c", "transforms.c.type": "Cast$Value", "transforms.c.spec": "int32",
    }  # fmt: skip
    job = make_job(given, WorkerDefaults({"key.converter": STRING, "value.converter": STRING}, {}, {}, {}, "g", "o"))
    (stream,) = Numbers({}).streams()
    records: list[Any] = [SourceRecord("1"), SourceRecord("two"), RecordRefused("five", RawRecord(b"k", b"\0"))]
    (batch,) = arrow_batches(records, stream, schema_of(stream))
    frame = written(job, spark.createDataFrame(pa.Table.from_batches([batch])), stream)
    plan = frame._jdf.queryExecution().toString()
    assert ("MapInArrow" in plan) == (chosen != "none"), "nobody looks at records for a log that nobody wants"
    assert [bytes(row.value) for row in frame.collect()] == [b"1"]
    if chosen == "none":
        return
    rows = [
        {"_error": None, "refused": None, "_source_topic": "t", "_original_key": None, "_original_value": "1"},
        {"_error": {"stage": "TRANSFORMATION", "message": "no cast"}, "refused": None, "_source_topic": "t",
         "_original_key": None, "_original_value": "two"},
        {"_error": {"stage": "TASK_POLL", "message": "five"}, "refused": {"key": b"k", "value": b"\0"},
         "_source_topic": "t", "_original_key": None, "_original_value": None},
    ]  # fmt: skip
    passed = list(LoggedErrors("n", job.errors.log_records)([pa.RecordBatch.from_pylist(rows)]))
    assert [batch.num_rows for batch in passed] == [3]
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("n: ")]
    assert [("TRANSFORMATION" in line, "TASK_POLL" in line) for line in told] == [(True, False), (False, True)]
    assert all(("value" in line) == (chosen == "content") for line in told)
