"""The sink as Spark sees it: a writer for batch jobs (and `foreachBatch`) and one for streams.

A writer is made in the driver for every batch and travels to the tasks; its `commit` may run in another process.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.spark.option_table import OptionError, Use
from moldau.spark.values.plan import ValuePlan, write_plan
from moldau.spark.writing.driver import TaskReport, abort_batch, commit_batch
from moldau.spark.writing.errors import SinkError
from moldau.spark.writing.identity import Attempt, SinkIdentity
from moldau.spark.writing.links import Links, discard_links, pooled_links
from moldau.spark.writing.options import WriteOptions, parse_write_options
from moldau.spark.writing.rows import Layout, check_schema
from moldau.spark.writing.task import Clock, ExactWriter, PlainWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import TaskContext
    from pyspark.sql.types import StructType

    from moldau.spark.values.encoding import MadeSchema

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
JOB_GROUP: Final = "spark.jobGroup.id"
"""A streaming query runs its jobs in the group of its run id."""
FIRST_BATCH: Final = 0


@dataclass(frozen=True, slots=True)
class Message(WriterCommitMessage):
    batch: int
    rows: int
    sent_bytes: int
    report: TaskReport | None = None


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What a task needs to know."""

    options: WriteOptions
    layout: Layout
    values: ValuePlan
    write: str
    streaming: bool
    made: tuple[MadeSchema, ...] = ()
    """Schemas of typed columns that nobody has given and that no registry keeps."""

    def run(self, batches: Iterator[pa.RecordBatch]) -> Message:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise SinkError("this is no Spark task")
        links = pooled_links(self.options.client)
        try:
            return self._run(batches, context, links)
        except BaseException:
            discard_links(self.options.client)
            raise

    def _run(self, batches: Iterator[pa.RecordBatch], context: TaskContext, links: Links) -> Message:
        identity, attempt = self.place(context.partitionId(), context.getLocalProperty)
        if self.values.typed:
            from moldau.spark.values.encoding import encode_batch

            batches = (encode_batch(batch, self.values) for batch in batches)
        if not self.options.exactly_once:
            plain = PlainWriter(self.options, self.layout, links, attempt, Clock()).run(batches)
            return Message(attempt.batch, plain.result.rows, plain.sent_bytes)
        outcome = ExactWriter(self.options, self.layout, links, identity, attempt, Clock()).run(batches)
        return Message(attempt.batch, outcome.result.rows, outcome.sent_bytes, TaskReport(identity, attempt, outcome))

    def place(self, task: int, local_property: Callable[[str], str | None]) -> tuple[SinkIdentity, Attempt]:
        """Who this task is. A batch job that names no query and runs in none is a query of its own with one batch."""
        query = self.options.query or local_property(QUERY_ID)
        batch = local_property(BATCH_ID) if self.options.batch is None else str(self.options.batch)
        if query is None or batch is None:
            if self.streaming and self.options.exactly_once:
                raise SinkError("Spark names no query and batch here; delivery=at-least-once does without")
            query, batch = self.write, str(FIRST_BATCH)
        identity = SinkIdentity(self.options.prefix, query, self.options.sink)
        return identity, Attempt(self.run_id(local_property), self.write, int(batch), task)

    def run_id(self, local_property: Callable[[str], str | None]) -> str:
        """The streaming query's run. Where somebody chose another job group, each write counts as a run of its own,
        which costs time but not exactness."""
        group = local_property(JOB_GROUP)
        return group if group is not None and is_uuid(group) else self.write

    @property
    def is_single_use(self) -> bool:
        return not self.streaming and self.options.query is None


def plan_write(given: Mapping[str, str], schema: StructType, overwrite: bool, use: Use) -> WritePlan:
    options = parse_write_options(given, use)
    if overwrite and use is Use.BATCH_WRITE:
        raise OptionError("mode", "a topic cannot be overwritten; use append")
    values = write_plan(given)
    layout = check_schema(schema, options.topic, {side.name for side in values.sides})
    for side in values.sides:
        if side.name not in layout.positions:
            raise OptionError(f"{side.name}.format", f"has no meaning: there is no column {side.name!r}")
    made = schemas_to_tell(schema, values)
    return WritePlan(options, layout, values, new_write_id(), use is Use.STREAM_WRITE, made)


def schemas_to_tell(schema: StructType, values: ValuePlan) -> tuple[MadeSchema, ...]:
    if not values.typed:
        return ()
    from moldau.spark.values.encoding import made_schemas

    return made_schemas(schema, values)


def is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def new_write_id(new_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    return str(new_uuid())


def reports_of(messages: Sequence[WriterCommitMessage | None]) -> list[TaskReport]:
    return [message.report for message in messages if isinstance(message, Message) and message.report is not None]


class _Sink:
    """What both writers do."""

    def __init__(self, plan: WritePlan) -> None:
        self.plan = plan

    def _tell_schemas(self, batch: int) -> None:
        """Once in a query, in the driver: Spark plans each batch anew, and what a task says stays on its machine."""
        if self.plan.made and batch == FIRST_BATCH:
            from moldau.spark.values.encoding import tell_schemas

            tell_schemas(self.plan.made)

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        reports = reports_of(messages)
        if not reports:
            return
        options = self.plan.options
        forget = self.plan.is_single_use and reports[0].identity.query == reports[0].attempt.write
        try:
            commit_batch(options, reports, pooled_links(options.client), forget=forget)
        except BaseException:
            self._abort(messages)
            raise

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        options = self.plan.options
        try:
            abort_batch(options, reports_of(messages), pooled_links(options.client))
        finally:
            discard_links(options.client)


class BatchWriter(_Sink, DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.plan.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        for batch in {message.batch for message in messages if isinstance(message, Message)}:
            self._tell_schemas(batch)
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._abort(messages)


class StreamWriter(_Sink, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.plan.run(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        self._tell_schemas(batchId)
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        self._abort(messages)
