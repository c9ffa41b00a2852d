"""Which log a partition has, and in which log directory it lies."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from uuid import UUID

from moldau.storage.log import PartitionLog
from moldau.storage.log_directory import Damaged, LogDirectory
from moldau.types.ids import TopicPartition


class LogTable:
    def __init__(self) -> None:
        self.directories: list[LogDirectory] = []
        self.high_watermark: Callable[[TopicPartition], int | None] = lambda _: None
        """Set by whoever knows it. While it is None for a partition, nothing of that is deleted or cleaned."""
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._topic_ids: dict[TopicPartition, UUID | None] = {}

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        return self._logs.get(partition)

    def in_service(self) -> Collection[PartitionLog]:
        return self._logs.values()

    def with_copies(self) -> Iterator[PartitionLog]:
        """Those in service, and the copies that grow in other directories."""
        for directory in self.directories:
            yield from list(directory.logs.values())
            yield from list(directory.futures.values())

    # -- directories --------------------------------------------------------------------------------------------------

    def directory_at(self, path: str) -> LogDirectory:
        return next(directory for directory in self.directories if directory.path == path)

    def directory_of(self, partition_log: PartitionLog) -> LogDirectory:
        return self.directory_at(os.path.dirname(partition_log.folder))

    def find_damaged(self, partition: TopicPartition) -> Damaged | None:
        return next((each.damaged[partition] for each in self.directories if partition in each.damaged), None)

    def damage_of(self, partition: TopicPartition) -> str | None:
        """Why the partition's log could not be opened at start."""
        damaged = self.find_damaged(partition)
        return None if damaged is None else damaged.problem

    def checkpointed_high_watermark(self, partition: TopicPartition) -> int:
        """Where it stood when it was last written down; 0 if it never was."""
        found = self._logs.get(partition)
        return 0 if found is None else self.directory_of(found).high_watermarks.on_disk.get(partition, 0)

    # -- topics -------------------------------------------------------------------------------------------------------

    def topic_id(self, partition: TopicPartition) -> UUID | None:
        return self._topic_ids.get(partition)

    def set_topic_id(self, partition: TopicPartition, topic_id: UUID) -> None:
        self._topic_ids[partition] = topic_id

    # -- coming and going ---------------------------------------------------------------------------------------------

    def register(self, directory: LogDirectory, registered: PartitionLog, topic_id: UUID | None) -> None:
        partition = registered.topic_partition
        self._logs[partition] = directory.logs[partition] = registered
        self._topic_ids[partition] = topic_id

    def forget(self, partition: TopicPartition) -> PartitionLog | None:
        """The partition has no log any more; the one that it had is its directory's still."""
        self._topic_ids.pop(partition, None)
        return self._logs.pop(partition, None)

    def drop(self, retired: PartitionLog) -> None:
        """This log leaves its directory, and its partition unless that has another one already."""
        partition = retired.topic_partition
        self.directory_of(retired).logs.pop(partition, None)
        if self._logs.get(partition) is retired:
            del self._logs[partition]

    def lose(self, partition: TopicPartition) -> None:
        """Its directory has failed; which topic it belonged to is known still."""
        self._logs.pop(partition, None)
