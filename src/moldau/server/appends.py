"""Group commit: batches staged during one turn of the event loop are written together, then published, then answered.

Order of events for every batch (rule: nothing is published before it is written): staged → one write per partition →
log end offset, producer state and indexes move → (fdatasync, if the topic's flush settings ask for it) → high
watermark → answer. A write that fails fails every batch staged with it and takes its log directory offline. A partition
whose term ends before the write has refused what it had staged; what waits for a sync refuses itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from moldau.replication.partition import Partition
from moldau.replication.waiting import Append
from moldau.server.connection import AnswerGate
from moldau.storage.errors import LogIOError
from moldau.storage.log import Commit, PartitionLog
from moldau.types.errors import ErrorCode

log = logging.getLogger("moldau.server.appends")

RunBlocking = Callable[[Callable[[], Any]], asyncio.Future[Any]]
#: Told of each commit, with the number of batches in it.
Counted = Callable[[Partition, Commit, int], None]


def uncounted(_partition: Partition, _commit: Commit, _batches: int) -> None:
    """For those who count nothing."""


class AppendQueue:
    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        run_blocking: RunBlocking,
        io_failed: Callable[[PartitionLog, Exception], None],
        rolled: Callable[[PartitionLog], None],
        gate: AnswerGate,
        counted: Counted = uncounted,
    ) -> None:
        self._counted = counted
        self._call_soon = call_soon
        self._run_blocking = run_blocking
        self._io_failed = io_failed
        self._rolled = rolled
        self._gate = gate
        self._unwritten: list[Partition] = []
        self._scheduled = False
        self._syncing: dict[Partition, list[Append]] = {}

    def add(self, partition: Partition, append: Append) -> None:
        if not partition.staged:
            self._unwritten.append(partition)
        partition.staged.append(append)
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self.flush)

    def flush(self) -> None:
        self._scheduled = False
        if not self._unwritten:
            return
        self._gate.closed = True
        try:
            while self._unwritten:
                self.flush_partition(self._unwritten.pop())
        finally:
            self._gate.open()

    def flush_partition(self, partition: Partition) -> None:
        appends = partition.staged
        if appends:
            partition.staged = []
            self._commit(partition, appends)

    def _commit(self, partition: Partition, appends: list[Append]) -> None:
        partition_log = partition.log
        if partition_log is None:
            fail(appends)
            return
        try:
            commit = partition_log.commit()
            if commit.rolled:
                self._rolled(partition_log)
        except LogIOError as error:
            fail(appends)
            self._io_failed(partition_log, error)
            return
        self._counted(partition, commit, len(appends))
        partition.log_grew()
        if partition in self._syncing:
            self._syncing[partition].extend(appends)
        elif partition_log.flush_required():
            self._syncing[partition] = []
            self._sync(partition, partition_log, appends)
        else:
            partition.advance(partition_log.log_end_offset)
            for append in appends:
                append.written()

    def bring_to_disk(self, partition: Partition) -> None:
        """A term has begun over records that may not be on disk, as the topic asks: they count when they are."""
        partition_log = partition.log
        if partition_log is None or not partition.leads or partition in self._syncing:
            return
        if partition_log.flush_required():
            self._syncing[partition] = []
            self._sync(partition, partition_log, [])
        else:
            partition.advance(partition_log.log_end_offset)

    def _sync(self, partition: Partition, partition_log: PartitionLog, appends: list[Append]) -> None:
        end_offset, epoch = partition_log.log_end_offset, partition.leader_epoch

        def synced(done: asyncio.Future[Any]) -> None:
            error = done.exception()
            behind = self._syncing.pop(partition)
            if error is not None or partition.log is not partition_log:
                fail(appends + behind)
                if error is not None:
                    self._io_failed(partition_log, error if isinstance(error, Exception) else OSError(str(error)))
                return
            partition_log.flushed(end_offset)
            if partition.leader_epoch == epoch:
                partition.advance(end_offset)
            for append in appends:
                append.written()
            if behind:
                self._syncing[partition] = []
                self._sync(partition, partition_log, behind)
            elif partition.leader_epoch != epoch:
                self.bring_to_disk(partition)

        self._run_blocking(partition_log.flush_work(end_offset)).add_done_callback(synced)


def fail(appends: list[Append]) -> None:
    for append in appends:
        append.failed(ErrorCode.KAFKA_STORAGE_ERROR)
