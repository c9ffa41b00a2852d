"""A coordinator's log: a partition of an internal topic that this broker leads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from moldau.coordinators.machine import ProducerStamp, RecordContext, StateRecord
from moldau.coordinators.runtime import Appended, CoordinatorRuntime, Shard
from moldau.kernels import check_batch, decode_records
from moldau.replication.partition import Partition
from moldau.server.appends import AppendQueue, RunBlocking
from moldau.storage.batch_info import BatchInfo, Origin
from moldau.storage.log import LogSlice, PartitionLog
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.control import ControlType, decode_control_type
from moldau.wire.records import LARGEST_BATCH, Batch, build_keyed_batch, compressed_batch, iter_batches, iter_records
from moldau.work.slices import Work, pauses
from moldau.work.turns import in_turns

#: Read at once; batches may be larger.
LOAD_SLICE_BYTES = 128 * 1024


class PartitionShardLog:
    """Implements ShardLog."""

    def __init__(
        self, partition: Partition, appends: AppendQueue, wall_ms: Callable[[], int], codec: Callable[[], int]
    ) -> None:
        self._partition = partition
        self._appends = appends
        self._wall_ms = wall_ms
        self._codec = codec

    def append(self, records: Sequence[StateRecord], producer: ProducerStamp | None, done: Appended) -> None:
        log = self._log()
        keys, values = zip(*records, strict=True)
        batch = bytearray(
            build_keyed_batch(
                keys,
                values,
                self._wall_ms(),
                codec=self._codec(),
                transactional=producer is not None,
                producer_id=-1 if producer is None else producer.producer_id,
                producer_epoch=-1 if producer is None else producer.producer_epoch,
            )
        )
        self._stage(log, batch, len(records), done)

    def append_packed(self, batch: bytearray, count: int, done: Appended) -> None:
        log = self._log()
        codec = self._codec()
        self._stage(log, bytearray(compressed_batch(batch, codec)) if codec else batch, count, done)

    def _log(self) -> PartitionLog:
        """Raises KafkaError where nothing may be appended."""
        log = self._partition.leader_log()
        if not self._partition.has_enough_in_sync(log.config.min_insync_replicas):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return log

    def _stage(self, log: PartitionLog, batch: bytearray, count: int, done: Appended) -> None:
        if len(batch) > log.config.max_message_bytes:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        partition = self._partition
        info = BatchInfo._make(check_batch(batch, 0, len(batch)))
        base_offset = log.stage(batch, info, partition.leader_epoch, Origin.COORDINATOR)
        self._appends.add(partition, ShardAppend(partition, base_offset + count, done))


class ShardAppend:
    """One batch of a coordinator, until it is committed."""

    __slots__ = ("_done", "_epoch", "_partition", "_required_offset")

    def __init__(self, partition: Partition, required_offset: int, done: Appended) -> None:
        self._partition, self._required_offset, self._done = partition, required_offset, done
        self._epoch = partition.leader_epoch

    def written(self) -> None:
        if self._partition.leader_epoch != self._epoch:  # the term has ended while the batch was brought to disk
            self.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif self._partition.high_watermark >= self._required_offset:
            self._done(None)
        else:
            self._partition.produce_waits.add(self._required_offset, self)

    def failed(self, code: ErrorCode) -> None:
        self._done(KafkaError(code))

    def reached(self) -> None:
        self._done(None)

    def ended(self, code: ErrorCode) -> None:
        self._done(KafkaError(code))

    def starved(self) -> bool:
        """Goes on waiting: a coordinator has no use for an answer that leaves open what has become of its records."""
        return False


async def load_shard(
    runtime: CoordinatorRuntime[Any], shard: Shard[Any], partition: Partition, run_blocking: RunBlocking
) -> None:
    """Replays the log from its start to its end, as far as it is committed; what an earlier life of the shard has on
    its way into the log is waited for. Gives up quietly if the shard's life ends meanwhile."""
    offset = partition.leader_log().log_start_offset
    while offset < partition.leader_log().staged_end_offset:
        if offset >= partition.high_watermark:
            await high_watermark_reaches(partition, offset + 1)
        else:
            piece = partition.leader_log().read(offset, LOAD_SLICE_BYTES, partition.high_watermark)
            data = await read_slice(piece, run_blocking)
            if shard.is_over:
                return
            await in_turns(replay_batches(shard, data, offset))
            offset = piece.next_offset
        if shard.is_over:
            return
    runtime.loaded(shard)


async def high_watermark_reaches(partition: Partition, offset: int) -> None:
    """Returns when it does, and also when it never will: the term has ended."""
    wait = MarkWait()
    partition.produce_waits.add(offset, wait)
    try:
        await wait.is_over
    finally:
        partition.produce_waits.discard(offset, wait)


class MarkWait:
    def __init__(self) -> None:
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def reached(self) -> None:
        if not self.is_over.done():
            self.is_over.set_result(None)

    def ended(self, code: ErrorCode) -> None:
        self.reached()

    def starved(self) -> bool:
        return False


async def read_slice(piece: LogSlice, run_blocking: RunBlocking) -> bytes:
    piece.file.acquire()
    try:
        data: bytes = await run_blocking(lambda: os.pread(piece.file.fileno, piece.length, piece.position))
        return data
    finally:
        piece.file.release()


def replay_batches(shard: Shard[Any], data: bytes, from_offset: int) -> Work[None]:
    for batch in iter_batches(data):
        yield from replay_batch(shard, batch, from_offset)
        yield


def replay_batch(shard: Shard[Any], batch: Batch, from_offset: int) -> Work[None]:
    header = batch.header
    producer = ProducerStamp(header.producer_id, header.producer_epoch) if header.is_transactional else None
    if header.is_control:
        replay_control(shard, batch, ProducerStamp(header.producer_id, header.producer_epoch))
        return
    replay, base_offset, base_timestamp = shard.machine.replay, header.base_offset, header.base_timestamp
    replay_plain = shard.machine.replay_plain if producer is None else None
    paused = pauses()
    # There may be millions: the fields as the kernel gives them, without a Record around them.
    records = decode_records(batch.payload(LARGEST_BATCH), header.count)
    for offset_delta, timestamp_delta, _, key, value, _, _, _ in records:
        if next(paused):
            yield
            if shard.is_over:
                return
        if key is None or base_offset + offset_delta < from_offset:
            continue
        if replay_plain is None or not replay_plain(key, value):
            context = RecordContext(base_offset + offset_delta, base_timestamp + timestamp_delta, producer)
            replay(StateRecord(key, value), context)


def replay_control(shard: Shard[Any], batch: Batch, producer: ProducerStamp) -> None:
    for record in iter_records(batch):
        kind = decode_control_type(record.key)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            shard.machine.replay_end_of_transaction(producer, kind is ControlType.COMMIT)
