"""The partitions that this broker knows, kept in step with the metadata image: deltas of it, and nothing else,
create, delete and turn partitions into leader or follower. A topic is its id: a re-created name never sees the old
topic's data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from moldau.config.topic import TopicConfig
from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.image_changes import ImageDelta
from moldau.replication.partition import Partition
from moldau.storage.errors import LogIOError
from moldau.storage.manager import LogManager
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

log = logging.getLogger("moldau.server.partitions")

NOBODY = -1


class PartitionTable:
    def __init__(self, local_id: int, logs: LogManager, topic_config: Callable[[TopicImage], TopicConfig]) -> None:
        self._local_id = local_id
        self._logs = logs
        self._topic_config = topic_config
        self._topics: dict[str, dict[int, Partition]] = {}

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

    # --- following the image ---

    def load(self, image: ClusterImage) -> None:
        for topic in image.topics.values():
            self._create(topic, range(len(topic.partitions)))

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        for topic in delta.deleted:
            self._delete(topic)
        for topic in delta.created:
            self._create(topic, range(len(topic.partitions)))
        for change in delta.changed:
            if change.settings_changed:
                self.reconfigure(change.new)
            self._create(change.new, change.partitions)

    def reconfigure(self, topic: TopicImage) -> None:
        config = self._topic_config(topic)
        for partition in self._topics.get(topic.name, {}).values():
            if partition.log is not None:
                partition.log.config = config

    def _create(self, topic: TopicImage, indexes: Iterable[int]) -> None:
        partitions = self._topics.setdefault(topic.name, {})
        for index in indexes:
            state = topic.partitions[index]
            partition = partitions.get(index)
            if partition is None:
                partition = partitions[index] = Partition(TopicPartition(topic.name, index), topic.id, self._local_id)
            if self._local_id in state.replicas and partition.log is None:
                self._open_log(partition, topic)
            if state.leader == self._local_id:
                partition.lead(state.leader_epoch, state.replicas, state.isr)
            else:
                partition.follow(state.leader, state.leader_epoch, state.replicas, state.isr)

    def _open_log(self, partition: Partition, topic: TopicImage) -> None:
        try:
            partition.log = self._logs.get_or_create(partition.topic_partition, topic.id, self._topic_config(topic))
        except LogIOError as error:
            log.error("%s stays offline: %s", partition.topic_partition, error)
            return
        if partition.log is not None:
            partition.high_watermark = self._logs.checkpointed_high_watermark(partition.topic_partition)
            partition.log_truncated()

    def _delete(self, topic: TopicImage) -> None:
        for partition in self._topics.pop(topic.name, {}).values():
            self._retire(partition)
            self._logs.delete(partition.topic_partition)

    # --- faults ---

    def take_offline(self, directory: str) -> list[Partition]:
        """The log folder failed: its partitions answer KAFKA_STORAGE_ERROR from now on."""
        lost = [
            partition
            for partition in self
            if partition.log is not None and partition.log.directory.startswith(directory)
        ]
        for partition in lost:
            partition.log = None
            partition.fetch_waits.wake_all()
            for reached in partition.produce_waits.take_all():
                reached()
        return lost

    def _retire(self, partition: Partition) -> None:
        partition.log = None
        partition.leader = NOBODY
        partition.fetch_waits.wake_all()
        for reached in partition.produce_waits.take_all():
            reached()
