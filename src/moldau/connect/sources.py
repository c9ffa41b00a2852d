"""A source at work: streaming queries that read its streams, convert, and write each batch in transactions.

Streams of one type share a query; each stream is one Spark task in a batch, whose transaction holds its records and
its new position. `exactness` says why nothing is lost or doubled.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from moldau.connect.converters import ERROR, ERROR_TYPE, Converter, Side, failed, reason
from moldau.connect.dead_letters import PREFIX, make_topic
from moldau.connect.exactness import SINK, TRANSACTION_MS, identity_of, take_over
from moldau.connect.interface import Position, RecordRefused, Stream
from moldau.connect.json_columns import json_text
from moldau.connect.schemas import SchemaRefused
from moldau.connect.source_reading import NAME, SPEC, ConnectSource, Reading, schema_of
from moldau.connect.task import Job
from moldau.connect.transforms import Records
from moldau.connect.transforms.base import attempted
from moldau.spark import write_batch
from moldau.spark.schema import HEADER_TYPE
from moldau.spark.writing.identity import SinkIdentity
from moldau.spark.writing.new_topics import NAME as NEW_TOPICS
from moldau.spark.writing.new_topics import to_option

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

Positions = Callable[[Sequence[Stream]], Sequence[Position | None]]
"""What is committed for these streams, read to the end."""
ORIGINALS: Final = {"_original_key": "key", "_original_value": "value"}
TASK_POLL: Final = "TASK_POLL"
REFUSED: Final = f"{RecordRefused.__module__}.{RecordRefused.__name__}"
WRITTEN: Final = ("key", "value", "headers", "topic", "partition", "timestamp")


@dataclass(frozen=True, slots=True)
class Share:
    """Streams of one task with the same types, and the name under which they are written."""

    task: int
    streams: Sequence[Stream]
    identity: SinkIdentity


def shares_of(job: Job, streams: Sequence[Stream]) -> list[Share]:
    """Which query reads what; a task may need several."""
    tasks = max(1, min(job.tasks_max, len(streams)))
    found: list[Share] = []
    for task in range(tasks):
        kinds: dict[tuple[str | None, ...], list[Stream]] = {}
        for stream in streams[task::tasks]:
            kinds.setdefault((stream.key, stream.value, stream.key_name, stream.value_name), []).append(stream)
        for alike in kinds.values():
            found.append(Share(task, alike, identity_of(job.group, job.offsets_name, len(found))))
    return found


def fence_all(job: Job, shares: Sequence[Share]) -> dict[SinkIdentity, int]:
    """Takes over from every query that any layout of this connector has ever had; the first batch of each."""
    from moldau.client.cluster import Cluster
    from moldau.spark.writing.marker_store import MarkerStore

    batches: dict[SinkIdentity, int] = {}
    number = 0
    while True:
        identity = identity_of(job.group, job.offsets_name, number)
        if number >= len(shares):
            with Cluster(job.client) as cluster:
                store = MarkerStore(cluster, identity.group)
                store.make_room(0)
                if store.state() is None:
                    return batches
        batches[identity] = take_over(job.client, identity)
        number += 1


class SourceQuery:
    """One share, running."""

    def __init__(self, spark: SparkSession, job: Job, share: Share, first_batch: int) -> None:
        self.share = share
        self._spark = spark
        self._job = job
        self._first_batch = first_batch
        self._scratch = tempfile.mkdtemp(prefix="moldau-connect-")
        self._query: StreamingQuery | None = None

    def start(self, positions: Sequence[Position | None]) -> StreamingQuery:
        job, share = self._job, self.share
        if job.errors.dead_letters:
            make_topic(job)
        self._spark.dataSource.register(ConnectSource)
        reading = Reading(job.offsets_name, job.place, job.config, share.streams, positions)
        frame = (
            self._spark.readStream.format(NAME)
            .schema(schema_of(share.streams[0]))
            .option(SPEC, reading.to_json())
            .load()
        )
        # What Spark keeps of the query is scratch: the positions in the topic are what counts.
        self._query = (
            frame.writeStream.queryName(f"{job.name}-{share.task}-{share.identity.query[-12:]}")
            .option("checkpointLocation", self._scratch)
            .trigger(processingTime=f"{job.poll_ms} milliseconds")
            .foreachBatch(self._write)
            .start()
        )
        return self._query

    def _write(self, frame: DataFrame, number: int) -> None:
        job = self._job
        options = {
            **job.kafka_options(job.producer),
            "kafka.transaction.timeout.ms": job.producer.get("transaction.timeout.ms", str(TRANSACTION_MS)),
            "sinkId": SINK,
            "transactionalIdPrefix": self.share.identity.prefix,
        }
        if job.new_topics:
            options[NEW_TOPICS] = to_option(job.new_topics)
        write_batch(
            written(job, frame, self.share.streams[0], self.share.task),
            self._first_batch + number,
            options,
            self.share.identity.query,
        )

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


def written(job: Job, frame: DataFrame, stream: Stream, task: int = 0) -> DataFrame:
    """The records as bytes, and the positions as records of their topic."""
    is_position, refused = F.col("position_key").isNotNull(), F.col("refused").isNotNull()
    is_record = ~is_position & ~refused
    error = F.when(refused, reason(TASK_POLL, REFUSED, F.col("refused.message"), job.classes[TASK_POLL]))
    frame = frame.withColumn(ERROR, error.cast(ERROR_TYPE)).withColumn("_source_topic", F.col("topic"))
    for original, column in ORIGINALS.items():
        frame = frame.withColumn(original, F.col(column))
    records = Records(frame, is_record, stream.key_name, stream.value_name)
    for stage in job.stages:
        records = attempted(stage.apply, records)
    names = {"key": records.key_name, "value": records.value_name}
    for side in names:
        records = encoded(job, records, side, names[side])
    columns = {
        "key": F.when(is_position, F.col("position_key")).otherwise(F.col(bytes_of("key"))),
        "value": F.when(is_position, F.col("position")).otherwise(F.col(bytes_of("value"))),
        "topic": F.when(is_position, F.lit(job.offsets_topic)).otherwise(F.col("topic")),
    }
    ready = records.frame
    if job.errors.log:
        ready = ready.mapInArrow(LoggedErrors(job.name, job.errors.log_records), ready.schema)
    ready, columns = with_errors(job, ready, columns, task)
    return ready.select(*(columns.get(name, F.col(name)).alias(name) for name in WRITTEN))


def bytes_of(side: str) -> str:
    return f"_{side}_bytes"


def encoded(job: Job, records: Records, side: str, name: str | None) -> Records:
    """With the bytes of a side. Records that the converter does not take are bad."""
    given = records.is_record & F.col(side).isNotNull()
    try:
        made = converter_of(job, side).checked(Side(side, records.kind(side), name))
    except SchemaRefused as refusal:
        found = records.with_column(bytes_of(side), F.lit(None).cast("binary"))
        return found.with_column(ERROR, failed(side, given, str(refusal)))
    found = records.with_column("_made", made)
    problem = F.col("_made.problem")
    found = found.with_column(ERROR, failed(side, given & problem.isNotNull(), problem))
    return found.with_column(bytes_of(side), F.col("_made.bytes"))


def converter_of(job: Job, side: str) -> Converter:
    return job.key_converter if side == "key" else job.value_converter


def with_errors(
    job: Job, frame: DataFrame, columns: dict[str, Column], task: int
) -> tuple[DataFrame, dict[str, Column]]:
    """What could not be read, or a transform could not take, ends the query, is left out, or goes to the topic of dead
    letters, in the transaction of the others."""
    bad = F.col(ERROR).isNotNull()
    if not job.errors.tolerated:
        message = F.concat(F.lit("Tolerance exceeded in error handler: "), F.col(f"{ERROR}.message"))
        stop = F.raise_error(message).cast("string")
        return frame, {**columns, "topic": F.when(bad, stop).otherwise(columns["topic"])}
    if not job.errors.dead_letters:
        return frame.filter(~bad), columns
    kind, message = F.col(f"{ERROR}.class"), F.col(f"{ERROR}.message")
    classes = F.create_map(*(F.lit(each) for pair in job.classes.items() for each in pair))
    context = context_headers(
        {
            "topic": F.col("_source_topic"),
            "partition": F.col("partition").cast("string"),
            "connector.name": F.lit(job.name),
            "task.id": F.lit(str(task)),
            "stage": F.col(f"{ERROR}.stage"),
            "class.name": F.coalesce(F.col(f"{ERROR}.where"), classes[F.col(f"{ERROR}.stage")]),
            "exception.class.name": kind,
            "exception.message": message,
            "exception.stacktrace": F.concat_ws(": ", kind, message),
        }
    )
    headers = F.coalesce(F.col("headers"), F.array().cast(HEADER_TYPE))
    told = F.concat(headers, context.cast(HEADER_TYPE)) if job.errors.dead_letter_headers else headers
    # A dead letter is the record as it was read, or the bytes of what was not; nothing is registered for the others.
    for original in ORIGINALS:
        frame = frame.withColumn(original, F.when(bad, F.col(original)))
    originals = {}
    for original, column in ORIGINALS.items():
        frame = frame.withColumn(f"{original}_letter", letter_of(job, frame, original, column))
        letter = F.coalesce(F.col(f"refused.{column}"), F.col(f"{original}_letter"))
        originals[column] = F.when(bad, letter).otherwise(columns[column])
    return frame, {
        **columns,
        **originals,
        "topic": F.when(bad, F.lit(job.errors.dead_letters)).otherwise(columns["topic"]),
        "headers": F.when(bad, told).otherwise(F.col("headers")),
    }


def letter_of(job: Job, frame: DataFrame, original: str, side: str) -> Column:
    """By the converter; as JSON what it does not take."""
    column, kind = F.col(original), frame.schema[original].dataType
    plain = F.when(column.isNotNull(), json_text(column, kind, numeric=True).cast("binary"))
    try:
        made = converter_of(job, side).checked(Side(original, kind, topic=job.errors.dead_letters))
    except SchemaRefused:
        return plain
    return F.coalesce(made["bytes"], plain)


@dataclass(frozen=True, slots=True)
class LoggedErrors:
    """Tells of bad records in passing, where they are read."""

    connector: str
    with_content: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            errors = batch.column(ERROR).to_pylist()
            for at, error in enumerate(errors):
                if error is not None:
                    log.error("%s: %s of %s: %s%s", self.connector, *self._told(batch.slice(at, 1).to_pylist()[0]))
            yield batch

    def _told(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        refused = row["refused"] or {"key": row["_original_key"], "value": row["_original_value"]}
        shown = f", key {refused['key']!r}, value {refused['value']!r}" if self.with_content else ""
        return row[ERROR]["stage"], f"a record for {row['_source_topic']}", row[ERROR]["message"], shown


def context_headers(texts: Mapping[str, Column]) -> Column:
    """Without what is null: a record that was not written has no offset, and a partition only if the connector chose
    one."""
    pairs = [
        F.struct(F.lit(f"{PREFIX}{name}").alias("key"), text.cast("binary").alias("value"))
        for name, text in texts.items()
    ]
    return F.filter(F.array(*pairs), lambda pair: pair["value"].isNotNull())
