"""Writes transaction markers into partitions that this broker leads, for its own coordinators and those of others.

A marker is appended as a control batch and counts when it is committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from moldau.coordinators.machine import ProducerStamp
from moldau.coordinators.runtime import Appended
from moldau.coordinators.transactions.machine import Markers
from moldau.coordinators.transactions.state import EPOCH_PER_TRANSACTION
from moldau.kernels import check_batch
from moldau.replication.partition import Partition
from moldau.server.appends import AppendQueue
from moldau.server.coordination.shard_log import ShardAppend
from moldau.server.partition_table import PartitionTable
from moldau.storage.batch_info import BatchInfo, Origin
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.control import EndTransactionMarker, build_end_transaction_batch


class EndListener(Protocol):
    """Told that a transaction has ended in a partition: the group coordinator, of its offsets."""

    def __call__(self, partition: TopicPartition, producer: ProducerStamp, committed: bool) -> None: ...


class MarkerWriter:
    def __init__(
        self, partitions: PartitionTable, appends: AppendQueue, wall_ms: Callable[[], int], ended: EndListener
    ) -> None:
        self._partitions = partitions
        self._appends = appends
        self._wall_ms = wall_ms
        self._ended = ended

    async def write(self, markers: Markers, topic_partition: TopicPartition) -> ErrorCode:
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def appended(error: KafkaError | None) -> None:
            if not done.done():
                done.set_result(ErrorCode.NONE if error is None else error.code)

        try:
            partition = self._partitions.get(*topic_partition)
            self._append(markers, partition, appended)
        except KafkaError as error:
            return error.code
        code = await done
        if code is ErrorCode.NONE:
            stamp = ProducerStamp(markers.producer_id, markers.producer_epoch)
            self._ended(topic_partition, stamp, markers.commit)
        return code

    def _append(self, markers: Markers, partition: Partition, appended: Appended) -> None:
        if partition.log is None and partition.local_id not in partition.replicas:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition_log = partition.leader_log()
        if markers.transaction_version >= EPOCH_PER_TRANSACTION:
            partition_log.producers.check_marker_epoch(markers.producer_id, markers.producer_epoch)
        batch = bytearray(
            build_end_transaction_batch(
                EndTransactionMarker(markers.commit, markers.coordinator_epoch),
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                timestamp=self._wall_ms(),
            )
        )
        info = BatchInfo(*check_batch(batch, 0, len(batch)))
        base_offset = partition_log.stage(batch, info, partition.leader_epoch, Origin.COORDINATOR)
        self._appends.add(partition, ShardAppend(partition, base_offset + 1, appended))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics
