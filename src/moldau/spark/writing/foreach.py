"""Exactly once from `foreachBatch`: for output mode update, which Spark refuses to Python sinks, and for several sinks.

    query = counts.writeStream.outputMode("update").foreachBatch(
        exactly_once({"kafka.bootstrap.servers": "localhost:9092", "topic": "counts"})
    )

A batch that is written to several places calls `write_batch` for each; two writes to one topic need a `sinkId` each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"


def exactly_once(
    options: Mapping[str, str],
    transform: Callable[[DataFrame], DataFrame] | None = None,
    query_id: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each batch, or what `transform` makes of it, exactly once, with the
    `options` of a write (`kafka.bootstrap.servers`, `topic`, …). Under Spark Connect the query does not tell its id:
    there it needs a `query_id`, the same for as long as its checkpoint."""

    def write(batch: DataFrame, batch_id: int) -> None:
        write_batch(batch if transform is None else transform(batch), batch_id, options, query_id)

    return write


def write_batch(batch: DataFrame, batch_id: int, options: Mapping[str, str], query_id: str | None = None) -> None:
    """Writes a `batch` exactly once, within `foreachBatch`, which tells its `batch_id`, with the `options` of a write.
    Outside of it, or under Spark Connect, it needs a `query_id`:
    whoever writes a batch id again under the same one, after a crash, completes the write or finds it complete."""
    query = query_id or streaming_query_of(batch)
    writer = batch.write.format("moldau").mode("append")
    named = {"queryId": query, "batchId": str(batch_id), "delivery": "exactly-once"}
    writer.options(**{**options, **named}).save()


def streaming_query_of(batch: DataFrame) -> str:
    try:
        query = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except AttributeError:
        raise ValueError(
            "Spark Connect does not tell which query this is: give a query_id, the same for as long as its checkpoint"
        ) from None
    if query is None:
        raise ValueError("write_batch is called within foreachBatch, or with a query_id")
    return str(query)
