"""The partitions that this broker knows, kept in step with the metadata image.

Deltas of the image, and nothing else, create and delete partitions and turn them into leader or follower. A topic is
its id: a re-created name never sees the old topic's data.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial

from moldau.config.topic import TopicConfig
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.image_changes import ImageDelta, TopicDelta
from moldau.replication.leader import NO_NEIGHBOURS, Neighbours
from moldau.replication.partition import Partition
from moldau.server.new_logs import joins, new_logs
from moldau.storage.errors import LogIOError
from moldau.storage.log import PartitionLog
from moldau.storage.manager import LogManager, NewLog
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

log = logging.getLogger("moldau.server.partitions")

PARTITIONS_PER_TURN = 16


class PartitionTable:
    def __init__(
        self,
        local_id: int,
        logs: LogManager,
        topic_config: Callable[[TopicImage], TopicConfig],
        neighbours: Neighbours = NO_NEIGHBOURS,
    ) -> None:
        self._local_id = local_id
        self._neighbours = neighbours
        self._logs = logs
        self._topic_config = topic_config
        self._topics: dict[str, dict[int, Partition]] = {}
        self._paused = pauses(PARTITIONS_PER_TURN)
        self._uncounted: list[Partition] = []
        self._bring_to_disk: Callable[[Partition], object] = self._uncounted.append

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def get(self, topic: str, index: int) -> Partition:
        try:
            return self._topics[topic][index]
        except KeyError:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from None

    def find(self, topic: str, index: int) -> Partition | None:
        return self._topics.get(topic, {}).get(index)

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        partition = self.find(*topic_partition)
        return None if partition is None else partition.high_watermark

    # --- following the image ---

    def load(self, image: ClusterImage) -> Work[None]:
        for topic in image.topics.values():
            yield from self._follow(topic, range(len(topic.partitions)), is_new=lambda _: False)

    def preparing(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Awaitable[None] | None:
        """Makes the logs that the new image needs here; None if it needs none."""
        begun = begin(new_logs(delta, self._local_id, self._topic_config))
        if isinstance(begun, Awaitable):
            return self._prepare_later(begun)
        return self._logs.maker.prepare(begun) if begun else None

    async def _prepare_later(self, wanted: Awaitable[list[NewLog]]) -> None:
        await self._logs.maker.prepare(await wanted)

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Work[None]:
        for topic in delta.deleted:
            yield from self._delete(topic)
        for topic in delta.created:
            yield from self._follow(topic, range(len(topic.partitions)), is_new=lambda _: True)
        for change in delta.changed:
            if change.settings_changed:
                yield from self.reconfigure(change.new)
            if change.partitions:
                yield from self._follow(change.new, change.partitions, is_new=partial(self._joins, change))

    def _joins(self, change: TopicDelta, index: int) -> bool:
        return joins(change, index, self._local_id)

    def reconfigure(self, topic: TopicImage) -> Work[None]:
        config = self._topic_config(topic)
        for partition in tuple(self._topics.get(topic.name, {}).values()):
            if next(self._paused):
                yield
            partition.reconfigure(config)

    def _follow(self, topic: TopicImage, indexes: Iterable[int], is_new: Callable[[int], bool]) -> Work[None]:
        """Brings partitions into the state of the image: their log comes and goes with our place among the replicas."""
        partitions = self._topics.setdefault(topic.name, {})
        config = self._topic_config(topic)
        for index in indexes:
            if next(self._paused):
                yield
            state = topic.partitions[index]
            partition = partitions.get(index)
            if partition is None:
                place = TopicPartition(topic.name, index)
                partition = partitions[index] = Partition(place, topic.id, self._local_id, self._neighbours)
            if self._local_id not in state.replicas:
                self._leave(partition)
            elif partition.log is None:
                self._open_log(partition, topic, config, is_new(index))
            if state.leader == self._local_id:
                partition.lead(state)
                if partition.has_uncounted:
                    self._bring_to_disk(partition)
            else:
                partition.follow(state)

    def bring_to_disk(self, bring: Callable[[Partition], object]) -> None:
        """`bring` is told of partitions that are led from now on, and whose records are not known to be on disk as
        their topic asks."""
        waiting, self._uncounted = self._uncounted, []
        self._bring_to_disk = bring
        for partition in waiting:
            bring(partition)

    def _leave(self, partition: Partition) -> None:
        """We are no replica of it (any more)."""
        if partition.log is not None:
            partition.delete()
            self._logs.delete(partition.topic_partition)

    def _open_log(self, partition: Partition, topic: TopicImage, config: TopicConfig, is_new: bool) -> None:
        try:
            partition.log = self._logs.maker.get_or_create(partition.topic_partition, topic.id, config, is_new=is_new)
        except LogIOError as error:
            log.error("%s stays offline: %s", partition.topic_partition, error)
            return
        partition.high_watermark = self._logs.table.checkpointed_high_watermark(partition.topic_partition)
        partition.log_truncated()

    def _delete(self, topic: TopicImage) -> Work[None]:
        for partition in self._topics.pop(topic.name, {}).values():
            if next(self._paused):
                yield
            partition.delete()
            self._logs.delete(partition.topic_partition)

    # --- what happens to logs ---

    def take_offline(self, lost: Iterable[TopicPartition]) -> None:
        """Their log directory failed: these partitions answer KAFKA_STORAGE_ERROR from now on."""
        for topic, index in lost:
            partition = self.find(topic, index)
            if partition is not None:
                partition.lose_log()

    def replace_log(self, topic_partition: TopicPartition, replacement: PartitionLog) -> None:
        """The log was moved to another folder."""
        partition = self.find(*topic_partition)
        if partition is not None:
            partition.log = replacement
            if partition.leads:
                replacement.begin_epoch(partition.leader_epoch)
