"""One coordinator over the partitions of its internal topic: follows their leadership, loads and unloads their
shards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.machine import Machine, Timers, Told, Write
from moldau.coordinators.runtime import CoordinatorRuntime
from moldau.coordinators.sharding import partition_for
from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.server.appends import AppendQueue, RunBlocking
from moldau.server.coordination.shard_log import PartitionShardLog, load_shard
from moldau.server.partition_table import PartitionTable
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.compression import Codec

log = logging.getLogger("moldau.server.coordination")

M = TypeVar("M", bound=Machine)
T = TypeVar("T")


def uncompressed() -> int:
    return Codec.NONE


class CoordinatorService(Generic[M]):
    def __init__(
        self,
        topic: str,
        new_machine: Callable[[int, Timers], M],
        timers: Timers,
        partitions: PartitionTable,
        appends: AppendQueue,
        run_blocking: RunBlocking,
        monotonic: Callable[[], float],
        wall_ms: Callable[[], int],
        codec: Callable[[], int] = uncompressed,
        checks_lease: bool = False,
    ) -> None:
        """`codec`: in which the topic's records are stored. `checks_lease`: some answers write nothing."""
        self._checks_lease = checks_lease
        self.topic = topic
        self.runtime: CoordinatorRuntime[M] = CoordinatorRuntime(new_machine, timers, monotonic, self._reload)
        self._partitions = partitions
        self._appends = appends
        self._run_blocking = run_blocking
        self._wall_ms = wall_ms
        self._codec = codec
        self._count = 0
        self._epochs: dict[int, int] = {}
        self._loading: set[asyncio.Task[None]] = set()

    def load(self, image: ClusterImage) -> None:
        self._follow(image)

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        """Called behind the partition table, which has made the partitions by then."""
        if old.topics.get(self.topic) is not new.topics.get(self.topic):
            self._follow(new)

    def logs_lost(self) -> None:
        """A log directory failed: what was in it has no coordinator here any more."""
        for index in tuple(self._epochs):
            partition = self._partitions.find(self.topic, index)
            if partition is None or partition.log is None:
                self._resign(index)

    def shard_of(self, key: str) -> int:
        """The partition that a group or transactional id belongs to. Raises NOT_COORDINATOR before the topic exists."""
        if self._count == 0:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return partition_for(key, self._count)

    def machine_of(self, key: str) -> M | None:
        """The state of this group or transactional id's shard, if it is loaded here."""
        shard = self.runtime.shard(self.shard_of(key)) if self._count else None
        return None if shard is None or not shard.is_loaded else shard.machine

    def write(self, key: str, operation: Callable[[M, float], Write[T]]) -> Deferred[T]:
        """Runs an operation on the shard of this group or transactional id; raises KafkaError."""
        shard = self.shard_of(key)
        if self._checks_lease:
            self._check_lease(shard)
        return self.runtime.write(shard, operation)

    def write_packed(
        self, key: str, operation: Callable[[M, float], Callable[[], None]], batch: bytearray, count: int, told: Told
    ) -> None:
        """The same with records that stand in a batch; see the runtime."""
        shard = self.shard_of(key)
        if self._checks_lease:
            self._check_lease(shard)
        self.runtime.write_packed(shard, operation, batch, count, told)

    def read(self, key: str, operation: Callable[[M, float], T]) -> Deferred[T]:
        shard = self.shard_of(key)
        if self._checks_lease:
            self._check_lease(shard)
        return self.runtime.read(shard, operation)

    def _check_lease(self, index: int) -> None:
        """A heartbeat is answered, and offsets are read, without asking a follower. An image is applied in turns:
        the partition may be another's already, or in another term, while the shard is not unloaded yet."""
        partition = self._partitions.find(self.topic, index)
        if partition is None or index not in self._epochs:
            return
        is_over = partition.leader_epoch != self._epochs[index]
        if is_over or (partition.rivals and not partition.holds_lease()):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    async def stop(self) -> None:
        for index in tuple(self._epochs):
            self.runtime.end(index)
        for task in tuple(self._loading):
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)

    def _follow(self, image: ClusterImage) -> None:
        topic = image.topics.get(self.topic)
        self._count = 0 if topic is None else len(topic.partitions)
        for index in [index for index in self._epochs if index >= self._count]:
            self._resign(index)
        for index in range(self._count):
            partition = self._partitions.find(self.topic, index)
            if partition is None or not partition.leads or partition.log is None:
                self._resign(index)
            elif self._epochs.get(index) != partition.leader_epoch:
                self._begin(index)

    def _begin(self, index: int) -> None:
        partition = self._partitions.get(self.topic, index)
        self._epochs[index] = partition.leader_epoch
        shard_log = PartitionShardLog(partition, self._appends, self._wall_ms, self._codec)
        shard = self.runtime.begin(index, partition.leader_epoch, shard_log)
        partition_log = partition.leader_log()
        if partition_log.staged_end_offset == partition_log.log_start_offset:
            self.runtime.loaded(shard)
            return

        async def load() -> None:
            try:
                await load_shard(self.runtime, shard, partition, self._run_blocking)
            except KafkaError as error:
                log.info("%s-%d is not loaded: %s", self.topic, index, error)
            except Exception:
                log.exception("%s-%d cannot be loaded: its groups or transactions stay unavailable", self.topic, index)

        task = asyncio.get_running_loop().create_task(load())
        self._loading.add(task)
        task.add_done_callback(self._loading.discard)

    def _resign(self, index: int) -> None:
        if self._epochs.pop(index, None) is not None:
            self.runtime.end(index)

    def _reload(self, index: int) -> None:
        """An append failed: what was replayed may not be in the log. Load it anew, if the partition is still ours."""
        self._epochs.pop(index, None)
        partition = self._partitions.find(self.topic, index)
        if partition is not None and partition.leads and partition.log is not None and not partition.log.failed:
            self._begin(index)
