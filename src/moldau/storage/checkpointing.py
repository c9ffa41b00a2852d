"""Writing the offsets of all logs into the checkpoint files of their directories."""

from __future__ import annotations

from collections.abc import Callable

from moldau.storage.deletions import Chore
from moldau.storage.log_directory import LogDirectory, OffsetCheckpoint
from moldau.storage.log_table import LogTable
from moldau.storage.means import Means
from moldau.storage.removal import run_chore
from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses
from moldau.work.turns import run


class Checkpoints:
    def __init__(self, table: LogTable, means: Means) -> None:
        self._table = table
        self._means = means

    async def write_recovery_points(self) -> None:
        await self._write(self._recovery_points)

    async def write_start_offsets(self) -> None:
        await self._write(self._start_offsets)

    async def write_high_watermarks(self) -> None:
        await self._write(self._high_watermarks)

    async def writers(self, directory: LogDirectory) -> list[Chore]:
        """What has to be run, in a thread, to write all of them."""
        return [
            await run(self._recovery_points(directory)),
            await run(self._start_offsets(directory)),
            await run(self._high_watermarks(directory)),
        ]

    async def _write(self, writer_of: Callable[[LogDirectory], Work[Chore]]) -> None:
        for directory in self._table.directories:
            if not directory.offline:
                await run_chore(self._means, directory, await run(writer_of(directory)))

    def _recovery_points(self, directory: LogDirectory) -> Work[Chore]:
        checkpoint = directory.recovery_points
        number, points = checkpoint.draw(), _of_damaged(directory, checkpoint)
        paused = pauses()
        for each in list(directory.logs.values()):
            points[each.topic_partition] = each.recovery_point
            if next(paused):
                yield
        return checkpoint.writer(points, number)

    def _start_offsets(self, directory: LogDirectory) -> Work[Chore]:
        """Only where the log begins within a segment: elsewhere the segment's name says it."""
        checkpoint = directory.log_start_offsets
        number, starts = checkpoint.draw(), _of_damaged(directory, checkpoint)
        paused = pauses()
        for each in list(directory.logs.values()):
            if each.log_start_offset > each.segments.first.base_offset:
                starts[each.topic_partition] = each.log_start_offset
            if next(paused):
                yield
        return checkpoint.writer(starts, number)

    def _high_watermarks(self, directory: LogDirectory) -> Work[Chore]:
        """A partition that nobody asked for yet keeps the mark of the last run."""
        checkpoint = directory.high_watermarks
        number, marks = checkpoint.draw(), _of_damaged(directory, checkpoint)
        paused = pauses()
        for partition in list(directory.logs):
            mark = self._table.high_watermark(partition)
            if mark is None:
                mark = checkpoint.on_disk.get(partition)
            if mark is not None:
                marks[partition] = mark
            if next(paused):
                yield
        return checkpoint.writer(marks, number)


def _of_damaged(directory: LogDirectory, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
    """What is known of logs that are out of service must be known when somebody has repaired them."""
    on_disk = checkpoint.on_disk
    return {partition: on_disk[partition] for partition in directory.damaged if partition in on_disk}
