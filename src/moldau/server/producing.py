"""A produce request under way: validated and staged partition by partition, answered when each partition's fate is
known.

With acks=1 that is when the batch is written (and synced, if the topic asks), with acks=all when the high watermark
has passed it, or the request's time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import UUID

from moldau.replication.partition import Partition
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.storage.errors import DuplicateBatchError, RefusedBatchError
from moldau.storage.validation import validate
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from moldau.wire.schema import Buffer

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.server.connection import Frame, Slot

ALL, NOTHING = -1, 0
#: A batch this large is written at once: keeping its buffer until the end of the loop's turn would gain nothing.
WRITE_AT_ONCE_BYTES = 64 * 1024


class PartitionResult:
    """One partition's part of the answer; as an `Append` it learns what became of its batch."""

    __slots__ = (
        "_epoch", "_partition", "_produce", "_required_offset", "base_offset", "current_leader", "error", "index",
        "log_append_time_ms", "log_start_offset", "message", "record_errors",
    )  # fmt: skip

    def __init__(self, produce: Produce, index: int) -> None:
        self._produce = produce
        self._partition: Partition | None = None
        self._required_offset = NO_OFFSET
        self._epoch = NO_EPOCH
        self.index = index
        self.error: int = ErrorCode.NONE
        self.message: str | None = None
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.log_start_offset = NO_OFFSET
        self.record_errors: Sequence[tuple[int, str | None]] = ()
        self.current_leader: tuple[int, int] | None = None

    def refuse(self, code: int, message: str | None = None) -> None:
        self.error, self.message = code, message
        self.base_offset = self.log_start_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP

    def expect(self, partition: Partition, base_offset: int, required_offset: int) -> None:
        self._partition, self._epoch = partition, partition.leader_epoch
        self.base_offset, self._required_offset = base_offset, required_offset

    def written(self) -> None:
        partition = self._partition
        assert partition is not None
        if partition.leader_epoch != self._epoch:  # the term has ended while the batch was brought to disk
            self.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        if self.error:  # and so has the request's time
            self._produce.one_written()
            return
        if partition.log is not None:
            self.log_start_offset = partition.log.log_start_offset
        self._produce.one_written()
        if self._produce.acks == ALL and partition.high_watermark < self._required_offset:
            partition.produce_waits.add(self._required_offset, self)
            self._produce.wait_for_replicas()
        else:
            self._produce.one_done()

    def failed(self, code: ErrorCode) -> None:
        self._lose(code)
        self._produce.one_written()
        self._produce.one_done()

    def reached(self) -> None:
        self._produce.one_done()

    def ended(self, code: ErrorCode) -> None:
        self._lose(code)
        self._produce.one_done()

    def starved(self) -> bool:
        self.ended(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    def time_is_up(self) -> None:
        partition = self._partition
        if partition is not None and not self.error and partition.high_watermark < self._required_offset:
            partition.produce_waits.discard(self._required_offset, self)
            self.refuse(ErrorCode.REQUEST_TIMED_OUT)

    def _lose(self, code: ErrorCode) -> None:
        self.refuse(code)
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and self._partition is not None:
            self.current_leader = self._partition.leader, self._partition.leader_epoch


class Produce:
    __slots__ = (
        "_done", "_respond", "_timer", "_undone", "_unwritten", "acks", "broker", "context", "frame", "results", "slot",
        "started", "timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        frame: Frame,
        slot: Slot,
        acks: int,
        timeout_ms: int,
        respond: Callable[[Produce], None],
    ) -> None:
        self.broker, self.context, self.frame, self.slot = broker, context, frame, slot
        self.acks, self.timeout_ms = acks, timeout_ms
        self.started = perf_counter()
        self.results: list[tuple[UUID | str, PartitionResult]] = []
        self._respond = respond
        #: The request itself counts as one, so that it cannot end while it is still being taken apart.
        self._unwritten = self._undone = 1
        self._done = False
        self._timer: asyncio.TimerHandle | None = None

    def refuse(self, key: UUID | str, index: int, code: ErrorCode, message: str | None = None) -> PartitionResult:
        result = PartitionResult(self, index)
        result.refuse(code, message)
        self.results.append((key, result))
        return result

    def append(self, key: UUID | str, index: int, records: Buffer | None) -> None:
        partition = None
        try:
            partition = self._find(key, index)
            self._stage(key, partition, index, records)
        except KafkaError as error:
            self.explain(key, index, partition, error)

    def explain(self, key: UUID | str, index: int, partition: Partition | None, error: KafkaError) -> None:
        """A partition's batch is refused, with all that Kafka tells about it."""
        result = self.refuse(key, index, error.code, error.message)
        if partition is None:
            return
        if isinstance(error, RefusedBatchError):
            result.record_errors = error.record_errors
            if error.tells_log_start and partition.log is not None:
                result.log_start_offset = partition.log.log_start_offset
        elif error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            result.current_leader = partition.leader, partition.leader_epoch

    def _find(self, key: UUID | str, index: int) -> Partition:
        topic = key
        if isinstance(topic, UUID):
            found = self.broker.image.topics_by_id.get(topic)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            topic = found.name
        if not self.broker.authorizer.allows(self.context, Operation.WRITE, Resource.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self.broker.partitions.get(topic, index)

    def _stage(self, key: UUID | str, partition: Partition, index: int, records: Buffer | None) -> None:
        log = partition.leader_log()
        if self.acks == ALL and not partition.has_enough_in_sync(log.config.min_insync_replicas):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        now_ms = self.broker.wall_ms()
        batch, info = validate(
            b"" if records is None else records,  # type: ignore[arg-type]  # the frame is writable
            config=log.config,
            topic_partition=partition.topic_partition,
            now_ms=now_ms,
            produce_version=self.context.api_version,
        )
        result = PartitionResult(self, index)
        try:
            base_offset = log.stage(batch, info, partition.leader_epoch)
            required_offset = base_offset + info.last_offset_delta + 1
            if log.config.log_append_time:
                result.log_append_time_ms = now_ms
        except DuplicateBatchError as duplicate:
            base_offset, required_offset = duplicate.base_offset, duplicate.last_offset + 1
            result.log_append_time_ms = duplicate.timestamp
        result.expect(partition, base_offset, required_offset)
        self.results.append((key, result))
        self._unwritten += 1
        self._undone += 1
        self.broker.appends.add(partition, result)
        if info.size >= WRITE_AT_ONCE_BYTES:
            self.broker.appends.flush_partition(partition)

    def staged(self) -> None:
        """All partitions are looked at: the frame stays until the last batch is written."""
        self.one_written()
        self.one_done()

    def one_written(self) -> None:
        self._unwritten -= 1
        if self._unwritten == 0:
            self.frame.release()

    def wait_for_replicas(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.timeout_ms / 1000, self._time_is_up)

    def one_done(self) -> None:
        self._undone -= 1
        if self._undone == 0 and not self._done:
            self._finish()

    def _time_is_up(self) -> None:
        for _, result in self.results:
            result.time_is_up()
        self._finish()

    def _finish(self) -> None:
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
        self._respond(self)
