"""What a query is told when its sink cannot go on; each message names the cause and what can be done. Pure."""

from __future__ import annotations

from moldau.spark.errors import SourceError


class SinkError(SourceError):
    """Base of the writer's errors."""


class CheckpointRewound(SinkError):
    def __init__(self, group: str, batch: int, newer: int) -> None:
        super().__init__(
            f"batch {batch} comes after batch {newer} of the same sink: this checkpoint was rewound or copied; set a "
            f"new sinkId, with sinkStartsAtBatch={batch}, if the rows are to be written again (the markers are in "
            f"group {group!r})"
        )


class MarkerMissing(SinkError):
    def __init__(self, group: str, batch: int) -> None:
        super().__init__(
            f"batch {batch} is not the first, but the sink has no marker of an earlier one in group {group!r}: the "
            "query stood still for longer than the broker keeps offsets (offsets.retention.minutes), or the sink's "
            "topic, sinkId or cluster has changed, or the query wrote elsewhere until now. Rows that an interrupted "
            f"attempt wrote could be written twice. Set sinkStartsAtBatch={batch} to go on from here"
        )


class RowsDiffer(SinkError):
    """A task that was committed before holds other rows now."""

    def __init__(self, task: int, batch: int, was: tuple[int, int], now: tuple[int, int]) -> None:
        super().__init__(
            f"task {task} of batch {batch} committed {was[0]} rows (digest {was[1]:016x}) before and holds {now[0]} "
            f"(digest {now[1]:016x}) now: the batch was cut into other tasks, or its rows are not deterministic. "
            "Restart with the settings of the interrupted run (minPartitions, "
            "spark.sql.shuffle.partitions, adaptive execution off), finish the batch, and change them then"
        )


class LayoutChanged(SinkError):
    """Rows of this batch stand in the topic that no task of this run accounts for."""

    def __init__(self, batch: int, tasks: str, count: int) -> None:
        super().__init__(
            f"batch {batch} has {count} tasks now, but {tasks} committed rows of it before: the batch was cut into "
            "other tasks. Nothing of this run was written. Restart with the settings of the interrupted run "
            "(minPartitions, spark.sql.shuffle.partitions), finish the batch, and change them then"
        )


class MarkerLost(SinkError):
    def __init__(self, task: int, batch: int, rows: int) -> None:
        super().__init__(
            f"task {task} committed {rows} rows of batch {batch}, but its marker is not there: the sink's offsets were "
            "deleted, or the broker lost them"
        )


class BatchFinished(SinkError):
    def __init__(self, task: int, batch: int) -> None:
        super().__init__(
            f"batch {batch} was finished before, and task {task}, which wrote nothing then, holds rows now: the batch "
            "was cut into other tasks, or its rows are not deterministic. Nothing of this run was written"
        )


class SecondWrite(SinkError):
    def __init__(self, sink: str, batch: int) -> None:
        super().__init__(
            f"batch {batch} was written to sink {sink!r} already in this run: a second write in one foreachBatch "
            "needs a sinkId of its own"
        )


class TakenOver(SinkError):
    def __init__(self, group: str, run: str) -> None:
        super().__init__(
            f"another run of this query ({run}) writes to the same sink now; is its checkpoint used twice? "
            f"(markers in group {group!r})"
        )


class RowRefused(SinkError):
    """A row cannot become a record; the message names the column."""
