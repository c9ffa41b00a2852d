"""A sink at work: a streaming query that reads its topics, converts, and has the connector write each batch.

Where it goes on after a crash is the group `connect-<name>`, committed after each batch; what is written a second
time then, the connector makes harmless (see `interface`). Records that cannot be converted or written are dead
letters, or end the task.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from moldau.connect.converters import ERROR
from moldau.connect.dead_letters import DeadLetter, LetterLog, LetterTopic, LetterWriter, dead_letters, make_topic
from moldau.connect.interface import Headers, RawRecord, RecordRefused, SinkConnector, SinkRecord
from moldau.connect.own_values import Reader, reader_of
from moldau.connect.plugins import loaded
from moldau.connect.sink_records import OWN, PART, SIDES, Kinds, Outlines, prepared
from moldau.connect.task import Job
from moldau.spark.planning.catalog import open_catalog
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

OUTCOME: Final = "topic string, partition int, next bigint, letter string"
"""Of a task: a row for each partition with the offset behind its last record, and one for each dead letter."""


class SinkQuery:
    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._spark = spark
        self._job = job
        self._outlines = Outlines(job)
        self._scratch = tempfile.mkdtemp(prefix="moldau-connect-")
        self._query: StreamingQuery | None = None
        self._generations: dict[str, int] = {}

    def start(
        self, offsets: Mapping[TopicPartition, int], generations: Mapping[str, int] | None = None
    ) -> StreamingQuery:
        """`offsets`: where to begin, for every partition that there is. `generations`: of topics made anew."""
        self._generations = dict(generations or {})
        job = self._job
        if job.errors.dead_letters:
            make_topic(job)
        chosen = {"subscribe": ",".join(job.topics)} if job.topics else {"subscribePattern": job.topics_pattern}
        frame = (
            self._spark.readStream.format("moldau")
            .options(
                **job.kafka_options(job.consumer),
                **chosen,
                **{
                    "startingOffsets": starting(offsets),
                    "includeHeaders": "true",
                    "kafka.group.id": job.sink_group,
                    "maxOffsetsPerTrigger": "500000",
                },
            )
            .load()
        )
        self._query = (
            frame.writeStream.queryName(f"{job.name}-sink-{id(self)}")
            .option("checkpointLocation", self._scratch)
            .trigger(processingTime=f"{job.poll_ms} milliseconds")
            .foreachBatch(self._write)
            .start()
        )
        return self._query

    def _write(self, frame: DataFrame, number: int) -> None:
        job = self._job
        cached = frame.persist()
        try:
            tasks = 1 if issubclass(job.connector, SinkConnector) and job.connector.ONE_WRITER else job.tasks_max
            ready = prepared(job, cached, tasks, self._outlines)
            if ready is None:
                return
            writing = Writing(
                job.place, dict(job.config), job.errors.tolerated, LetterTopic.of(job), ready.kinds, LetterLog.of(job),
                self._generations,
            )  # fmt: skip
            rows = ready.frame.mapInArrow(writing, OUTCOME).collect()
        finally:
            cached.unpersist()
        letters = [DeadLetter.from_json(row.letter) for row in rows if row.letter is not None]
        dead_letters(job, letters)
        ends = {TopicPartition(row.topic, row.partition): row.next for row in rows if row.letter is None}
        commit(job, ends)

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)


def starting(offsets: Mapping[TopicPartition, int]) -> str:
    found: dict[str, dict[str, int]] = {}
    for place, offset in sorted(offsets.items()):
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return json.dumps(found) if found else "earliest"


def commit(job: Job, offsets: Mapping[TopicPartition, int]) -> None:
    catalog = open_catalog(job.client, dict(job.kafka))
    try:
        catalog.publish(job.sink_group, dict(offsets))
    finally:
        catalog.close()


@dataclass
class Writing:
    """What a Spark task does with its part of a batch."""

    place: str
    config: Mapping[str, Any]
    tolerant: bool
    letter_topic: LetterTopic | None = None
    kinds: Mapping[tuple[int, int], Kinds] = field(default_factory=dict)
    """What records have of their own, by part and number."""
    log: LetterLog | None = None
    """Where the record is told that ends the task."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """Of topics."""
    task: int = 0
    letters: list[DeadLetter] = field(default_factory=list)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        made = loaded(self.place)
        assert isinstance(made, type)
        assert issubclass(made, SinkConnector)
        self.letters, self.ends = [], {}
        context = TaskContext.get()
        self.task = 0 if context is None else context.partitionId()
        sink = made(self.config)
        writer = None if self.letter_topic is None else LetterWriter(self.letter_topic)
        sink.refuse = partial(self._refused, writer)  # type: ignore[method-assign]
        try:
            sink.write(self._records(batches))
        finally:
            sink.close()
        ends = sorted(self.ends.items())
        letters = [letter.to_json() for letter in self.letters]
        yield pa.RecordBatch.from_pydict(
            {
                "topic": pa.array([topic for (topic, _), _ in ends] + [""] * len(letters), pa.string()),
                "partition": pa.array([number for (_, number), _ in ends] + [0] * len(letters), pa.int32()),
                "next": pa.array([end for _, end in ends] + [0] * len(letters), pa.int64()),
                "letter": pa.array([None] * len(ends) + letters, pa.string()),
            }
        )

    def _records(self, batches: Iterable[pa.RecordBatch]) -> Iterator[SinkRecord]:
        readers = {both: tuple(map(reader_of, kinds)) for both, kinds in self.kinds.items()}
        for batch in batches:
            columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
            for at in range(batch.num_rows):
                row = {name: column[at] for name, column in columns.items()}
                place = (row["_source_topic"], row["_source_partition"])
                self.ends[place] = max(self.ends.get(place, 0), row["offset"] + 1)
                if row[ERROR] is not None:
                    self._bad(row)
                else:
                    generation = self.generations.get(row["_source_topic"], 0)
                    yield record_of(row, readers.get((row[PART], row[OWN]), (None, None)), generation)

    def _bad(self, row: Mapping[str, Any]) -> None:
        letter = DeadLetter.of(row, row[ERROR], self.task)
        if not self.tolerant:
            self._tell(letter)
            raise RecordRefused(
                f"Tolerance exceeded in error handler: {letter.stage} of {letter.topic}-{letter.partition} at offset "
                f"{letter.offset}: {letter.message}"
            )
        self.letters.append(letter)

    def _tell(self, letter: DeadLetter) -> None:
        if self.log is not None:
            self.log.tell(letter)

    def _refused(self, writer: LetterWriter | None, record: SinkRecord, problem: Exception) -> None:
        """A connector reports a record that its target does not take. The letter is there before the target's
        transaction ends: after that nobody may look at the record again."""
        letter = DeadLetter.of_record(record, problem, self.task)
        if not self.tolerant:
            self._tell(letter)
            raise problem
        if writer is not None:
            writer.send([letter])
        self.letters.append(replace(letter, is_sent=writer is not None))


def record_of(row: Mapping[str, Any], readers: Sequence[Reader | None], generation: int = 0) -> SinkRecord:
    key, value = (
        found if reader is None else reader(found)
        for reader, found in zip(readers, (row[f"{side}_{row[PART]}"] for side in SIDES), strict=True)
    )
    stamp = row["timestamp"]
    millis = None if stamp is None else int(stamp.timestamp() * 1000)
    raw = RawRecord(row["_raw_key"], row["_raw_value"], headers_of(row["_raw_headers"]))
    return SinkRecord(
        row["topic"], row["_source_partition"], row["offset"], millis, key, value, headers_of(row.get("headers")),
        row["_source_topic"], raw, generation,
    )  # fmt: skip


def headers_of(column: Iterable[Mapping[str, Any]] | None) -> Headers:
    return tuple((each["key"], each["value"]) for each in column or ())
