"""Batches for sinks without a broker: records as they are read, and what a connector is given of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from moldau.connect.configuration import WorkerDefaults, make_job
from moldau.connect.dead_letters import DeadLetter
from moldau.connect.interface import SinkConnector, SinkRecord
from moldau.connect.sink_records import Outlines, Prepared, prepared
from moldau.connect.sinks import OUTCOME, Writing
from moldau.connect.task import Job
from tests.support.connect import JSON, STRING

READ = (
    "key binary, value binary, headers array<struct<key string, value binary>>, topic string, partition int, "
    "offset bigint, timestamp timestamp"
)
FREE = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


class Keeping(SinkConnector):
    """Keeps what it is given, in a file for each task."""

    def write(self, records: Iterator[SinkRecord]) -> None:
        found = list(records)
        if found:
            first = found[0]
            name = f"{first.source.topic}-{first.partition}-{first.offset}"
            (Path(self.config["folder"]) / name).write_bytes(pickle.dumps(found))


class Sent(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    topic: str = "t"
    partition: int = 0
    headers: Sequence[tuple[str, bytes]] = ()


class Delivered(NamedTuple):
    records: list[SinkRecord]
    """In the order in which each partition's came."""
    letters: list[DeadLetter]
    ends: dict[tuple[str, int], int]

    @property
    def values(self) -> list[Any]:
        return [record.value for record in self.records]

    @property
    def keys(self) -> list[Any]:
        return [record.key for record in self.records]

    @property
    def problems(self) -> list[tuple[int, str]]:
        return [(letter.offset, letter.message) for letter in sorted(self.letters, key=lambda each: each.offset)]


def delivered(
    spark: SparkSession,
    folder: Path,
    records: Sequence[Sent] | Sequence[bytes | None],
    config: Mapping[str, str] = FREE,
) -> Delivered:
    """As one batch; a record's offset is its place in the list."""
    job = job_of(folder, config)
    ready = batch_of(spark, job, records)
    if ready is None:
        return Delivered([], [], {})
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    writing = Writing(job.place, dict(job.config), True, None, ready.kinds)
    outcome = ready.frame.mapInArrow(writing, OUTCOME).collect()
    found = [record for file in sorted(folder.iterdir()) for record in pickle.loads(file.read_bytes())]
    letters = [DeadLetter.from_json(row.letter) for row in outcome if row.letter is not None]
    ends = {(row.topic, row.partition): row.next for row in outcome if row.letter is None}
    return Delivered(found, letters, ends)


def job_of(folder: Path, config: Mapping[str, str]) -> Job:
    defaults = WorkerDefaults({"key.converter": STRING, "value.converter": STRING}, {}, {}, {}, "g", "offsets")
    given = {"name": "n", "connector.class": f"{__name__}:Keeping", "topics": "t", "folder": str(folder), **config}
    return make_job(given, defaults)


def batch_of(spark: SparkSession, job: Job, records: Sequence[Sent] | Sequence[bytes | None]) -> Prepared | None:
    sent = [each if isinstance(each, Sent) else Sent(each) for each in records]
    rows = [
        (each.key, each.value, list(each.headers), each.topic, each.partition, offset, None)
        for offset, each in enumerate(sent)
    ]
    frame = spark.createDataFrame(rows, READ).coalesce(1)
    return prepared(job, frame, job.tasks_max, Outlines(job))
