"""Writing what clients produce. `Producing` is the one service of it: whichever way a request takes through the broker,
its batches are judged, staged and counted here.

`Produce` is a request under way, answered when each partition's fate is known: with acks=1 when the batch is written
(and synced, if the topic asks), with acks=all when the high watermark has passed it, or the request's time is up.
`quick_produce` is the short way of requests that look like earlier ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from moldau.metrics import Counter, Metrics
from moldau.replication.partition import Partition
from moldau.replication.waiting import Append
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.appends import AppendQueue
from moldau.server.request_times import RequestTimes
from moldau.storage.batch_info import BatchInfo
from moldau.storage.errors import DuplicateBatchError, RefusedBatchError
from moldau.storage.files import WritableBuffer
from moldau.storage.log import PartitionLog
from moldau.storage.validation import Validated, validate
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from moldau.wire.schema import Buffer

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.server.connection import Frame, Slot

ALL, NOTHING = -1, 0
#: The first version of Produce that names topics by their ids.
TOPIC_IDS_FROM = 13
#: A batch this large is written at once: keeping its buffer until the end of the loop's turn would gain nothing.
WRITE_AT_ONCE_BYTES = 64 * 1024


class StagedBatch(Append, Protocol):
    """Whoever waits for a batch: is told where it stands, then what became of it."""

    def expect(self, partition: Partition, base_offset: int, required_offset: int, append_time_ms: int) -> None: ...


class Producing:
    def __init__(self, wall_ms: Callable[[], int], appends: AppendQueue, metrics: Metrics) -> None:
        self.wall_ms = wall_ms
        self._appends = appends
        self._metrics = metrics
        self._requests: dict[int, Counter] = {}
        self._failed = metrics.counter("kafka.server", "BrokerTopicMetrics", "FailedProduceRequestsPerSec")
        self._times = metrics.histogram("kafka.network", "RequestMetrics", "TotalTimeMs", request="Produce")
        self.request_times = RequestTimes(metrics)

    # --- batches ---

    def judge(
        self, partition: Partition, log: PartitionLog, records: WritableBuffer, version: int, now_ms: int
    ) -> Validated:
        """Raises KafkaError. A batch that is taken may have got its append time: it cannot be judged again."""
        return validate(
            records,
            config=log.config,
            topic_partition=partition.topic_partition,
            now_ms=now_ms,
            produce_version=version,
        )

    def stage(
        self,
        partition: Partition,
        log: PartitionLog,
        batch: WritableBuffer,
        info: BatchInfo,
        now_ms: int,
        waiting: StagedBatch,
    ) -> None:
        """What was judged is written at the end of the loop's turn, then `waiting` hears of it. Raises KafkaError."""
        try:
            base_offset = log.stage(batch, info, partition.leader_epoch)
            append_time_ms = now_ms if log.config.log_append_time else NO_TIMESTAMP
            waiting.expect(partition, base_offset, base_offset + info.last_offset_delta + 1, append_time_ms)
        except DuplicateBatchError as duplicate:
            waiting.expect(partition, duplicate.base_offset, duplicate.last_offset + 1, duplicate.timestamp)
        except KafkaError as refusal:
            # A deposed leader knows old numbers of producers: the new one may have what is missing here.
            if not partition.holds_lease():
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER) from refusal
            raise
        self._appends.add(partition, waiting)
        if info.size >= WRITE_AT_ONCE_BYTES:
            self._appends.flush_partition(partition)

    # --- metrics ---

    def count_request(self, version: int) -> None:
        """As the dispatcher counts the requests that it hands to handlers."""
        counter = self._requests.get(version)
        if counter is None:
            counter = self._requests[version] = self._metrics.counter(
                "kafka.network", "RequestMetrics", "RequestsPerSec", request="Produce", version=str(version)
            )
        counter.value += 1

    def count_answer(self, started: float, failed: bool = False) -> None:
        self._times.record((perf_counter() - started) * 1000)
        if failed:
            self._failed.value += 1

    def count_wait(self, since: float) -> None:
        self.request_times.waited("Produce", perf_counter() - since)


class PartitionResult:
    """One partition's part of the answer; as an `Append` it learns what became of its batch."""

    __slots__ = (
        "_epoch", "_partition", "_produce", "_required_offset", "base_offset", "current_leader", "error", "index",
        "key", "log_append_time_ms", "log_start_offset", "message", "record_errors",
    )  # fmt: skip

    def __init__(self, produce: Produce, key: UUID | str, index: int) -> None:
        self._produce = produce
        self.key = key
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

    def expect(self, partition: Partition, base_offset: int, required_offset: int, append_time_ms: int) -> None:
        self._partition, self._epoch = partition, partition.leader_epoch
        self.base_offset, self._required_offset = base_offset, required_offset
        self.log_append_time_ms = append_time_ms
        self._produce.expect(self)

    def written(self) -> None:
        partition = self._partition
        assert partition is not None
        if partition.leader_epoch != self._epoch or (self._produce.acks != ALL and not partition.holds_lease()):
            # The term has ended while the batch was brought to disk, or may have ended.
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
        "_done", "_respond", "_started", "_timer", "_undone", "_unwritten", "_waits_since", "acks", "broker",
        "context", "frame", "results", "slot", "timeout_ms",
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
        started: float,
    ) -> None:
        """`started`: when the request came, as `perf_counter` says."""
        self.broker, self.context, self.frame, self.slot = broker, context, frame, slot
        self.acks, self.timeout_ms = acks, timeout_ms
        self._started = started
        self.results: list[PartitionResult] = []
        self._respond = respond
        #: The request itself counts as one, so that it cannot end while it is still being taken apart.
        self._unwritten = self._undone = 1
        self._done = False
        self._timer: asyncio.TimerHandle | None = None
        self._waits_since = 0.0

    def refuse(self, key: UUID | str, index: int, code: ErrorCode, message: str | None = None) -> PartitionResult:
        result = PartitionResult(self, key, index)
        result.refuse(code, message)
        self.results.append(result)
        return result

    def append(self, key: UUID | str, index: int, records: Buffer | None) -> None:
        partition = None
        try:
            partition = self._find(key, index)
            self._stage(key, partition, index, records)
        except KafkaError as error:
            self.explain(key, index, partition, error)
            self.broker.traffic.refused(error.code, 0 if records is None else len(records))

    def explain(self, key: UUID | str, index: int, partition: Partition | None, error: KafkaError) -> None:
        """A partition's batch is refused, with all that Kafka tells about it."""
        result = self.refuse(key, index, error.code, error.message)
        if partition is None:
            return
        if isinstance(error, RefusedBatchError):
            result.record_errors = error.record_errors
            if error.tells_log_start and partition.log is not None:
                result.log_start_offset = partition.log.log_start_offset
        elif error.code == ErrorCode.NOT_ENOUGH_REPLICAS and partition.log is not None:
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
        if self.acks != ALL:
            partition.check_lease()
        if self.acks == ALL and not partition.has_enough_in_sync(log.config.min_insync_replicas):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        producing = self.broker.producing
        now_ms = producing.wall_ms()
        view: memoryview = b"" if records is None else records  # type: ignore[assignment]  # the frame is writable
        batch, info = producing.judge(partition, log, view, self.context.api_version, now_ms)
        producing.stage(partition, log, batch, info, now_ms, PartitionResult(self, key, index))

    def expect(self, result: PartitionResult) -> None:
        self.results.append(result)
        self._unwritten += 1
        self._undone += 1

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
            self._waits_since = perf_counter()
            self._timer = loop.call_later(self.timeout_ms / 1000, self._time_is_up)

    def one_done(self) -> None:
        self._undone -= 1
        if self._undone == 0 and not self._done:
            self._finish()

    def _time_is_up(self) -> None:
        for result in self.results:
            result.time_is_up()
        self._finish()

    def _finish(self) -> None:
        self._done = True
        if self._timer is not None:
            self._timer.cancel()
            self.broker.producing.count_wait(self._waits_since)
        quotas = self.broker.quotas
        if quotas.active:
            self.slot.mute_ms = max(
                quotas.produced(self.context, self.frame.size),
                quotas.handled(self.context, self.slot.take_busy_seconds()) if self.acks else 0,
            )
            if self.slot.mute_ms:
                self.broker.producing.request_times.throttled("Produce", self.slot.mute_ms)
        failed = any(result.error for result in self.results)
        self.broker.producing.count_answer(self._started, failed)
        self._respond(self)
