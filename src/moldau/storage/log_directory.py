"""One entry of `log.dirs`: its lock, its identity, its checkpoint files, and whether it still works."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from moldau.storage import checkpoints
from moldau.storage.checkpoints import CorruptFileError, DirectoryProperties
from moldau.storage.files import DiskSpace, FileSystem
from moldau.storage.folders import Folder, parse_folder
from moldau.storage.log import PartitionLog
from moldau.types.ids import ZERO_UUID, TopicPartition
from moldau.types.internal_topics import METADATA_TOPIC

log = logging.getLogger("moldau.storage.directory")

Offsets = Mapping[TopicPartition, int]

# A directory that Apache Kafka has used holds its controller's log, which is not ours to touch.


class InconsistentDirectoryError(Exception):
    """The directory belongs to another broker or cluster."""


@dataclass(frozen=True, slots=True)
class Damaged:
    path: str
    problem: str


@dataclass(frozen=True, slots=True)
class Replica:
    log: PartitionLog
    is_future: bool

    @property
    def topic_partition(self) -> TopicPartition:
        return self.log.topic_partition

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes


class OffsetCheckpoint:
    """A checkpoint file that any thread may write: writes follow each other, a late one never undoes a newer one."""

    def __init__(self, files: FileSystem, directory: str, name: str) -> None:
        self._files = files
        self._directory = directory
        self._name = name
        self._lock = threading.Lock()
        self._drawn = 0  # numbers tell which of two writes was decided later, whenever they run
        self._replaced = 0
        self._edited = 0
        self._present = False
        self.on_disk: dict[TopicPartition, int] = {}
        """What the file says."""

    def load(self) -> None:
        """An unreadable file counts as empty: its offsets only save work, or are found again in the logs."""
        self._present = self._files.exists(os.path.join(self._directory, self._name))
        try:
            self.on_disk = checkpoints.read_offsets(self._files, self._directory, self._name)
        except CorruptFileError as error:
            log.warning("%s; going on without it", error)

    def writer(self, offsets: Offsets, number: int | None = None) -> Callable[[], None]:
        """A write of the whole file as something that blocks, to be run wherever that does no harm. Who collects the
        offsets in turns gives the number that was drawn before: changes decided meanwhile are newer."""
        number, content = self.draw() if number is None else number, dict(offsets)

        def write() -> None:
            with self._lock:
                if number > max(self._replaced, self._edited):
                    self._replaced = number
                    self._store(content)

        return write

    def setter(self, partition: TopicPartition, offset: int) -> Callable[[], None]:
        return self._editor(lambda found: found | {partition: offset})

    def remover(self, partitions: Collection[TopicPartition]) -> Callable[[], None]:
        return self._editor(lambda found: {known: at for known, at in found.items() if known not in partitions})

    def _editor(self, edit: Callable[[dict[TopicPartition, int]], dict[TopicPartition, int]]) -> Callable[[], None]:
        number = self.draw()

        def write() -> None:
            with self._lock:
                if number > self._replaced:
                    self._edited = max(self._edited, number)
                    self._store(edit(self.on_disk))

        return write

    def draw(self) -> int:
        self._drawn += 1
        return self._drawn

    def _store(self, content: dict[TopicPartition, int]) -> None:
        if content != self.on_disk or not self._present:
            checkpoints.write_offsets(self._files, self._directory, self._name, content)
            self.on_disk = content
            self._present = True


class LogDirectory:
    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path
        self.id = ZERO_UUID
        self.failure: str | None = None
        self.clean_epoch: int | None = None
        """The broker epoch under which the last broker here stopped in good order."""
        self.loaded = False
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        """Copies that will replace a log of another directory."""
        self.damaged: dict[TopicPartition, Damaged] = {}
        """Logs that could not be opened."""
        self.recovery_points = OffsetCheckpoint(files, path, checkpoints.RECOVERY_POINTS)
        self.log_start_offsets = OffsetCheckpoint(files, path, checkpoints.LOG_START_OFFSETS)
        self.high_watermarks = OffsetCheckpoint(files, path, checkpoints.HIGH_WATERMARKS)
        self.cleaned_offsets = OffsetCheckpoint(files, path, checkpoints.CLEANED_OFFSETS)
        self._lock = -1

    @property
    def was_clean(self) -> bool:
        return self.clean_epoch is not None

    @property
    def offline(self) -> bool:
        return self.failure is not None

    @property
    def checkpoints(self) -> tuple[OffsetCheckpoint, ...]:
        return (self.recovery_points, self.log_start_offsets, self.high_watermarks, self.cleaned_offsets)

    def open(self, cluster_id: str, node_id: int, new_uuid: Callable[[], UUID]) -> None:
        """Takes the directory for this broker. Blocks; raises OSError if the disk does not play along."""
        if not self._files.is_directory(self.path):
            self._files.make_directory(self.path)
            self._files.sync_directory(os.path.dirname(os.path.abspath(self.path)))
        self._lock = checkpoints.lock_directory(self._files, self.path)
        try:
            self._identify(cluster_id, node_id, new_uuid)
            self.clean_epoch = checkpoints.take_clean_shutdown(self._files, self.path)
            for checkpoint in self.checkpoints:
                checkpoint.load()
        except BaseException:
            self.unlock()
            raise

    def _identify(self, cluster_id: str, node_id: int, new_uuid: Callable[[], UUID]) -> None:
        found = checkpoints.read_directory(self._files, self.path)
        if found is None:
            found = DirectoryProperties(cluster_id, node_id, new_uuid())
            checkpoints.write_directory(self._files, self.path, found)
        where = os.path.join(self.path, checkpoints.META_PROPERTIES)
        if found.cluster_id != cluster_id:
            raise InconsistentDirectoryError(
                f"Invalid cluster.id in: {where}. Expected {cluster_id}, but read {found.cluster_id}. The log "
                "directory holds data of another cluster: set zookeeper.connect to that cluster, or log.dirs to a "
                "directory of this one (an empty one is filled from the other brokers)."
            )
        if found.node_id != node_id:
            raise InconsistentDirectoryError(
                f"Stored node id {found.node_id} doesn't match previous node id {node_id} in {where}. If you moved "
                "your data, make sure your configured node id matches. If you intend to create a new node, you should "
                "remove all data in your data directories."
            )
        self.id = found.directory_id

    def folders(self) -> list[Folder]:
        """The partition folders in it, in a fixed order. Blocks."""
        found = []
        for name in sorted(self._files.list(self.path)):
            if not self._files.is_directory(os.path.join(self.path, name)):
                continue
            folder = parse_folder(name)
            if folder is None or folder.partition.topic == METADATA_TOPIC:
                log.debug("%s holds %s, which is no partition; it is left alone", self.path, name)
            else:
                found.append(folder)
        return found

    def join(self, name: str) -> str:
        return os.path.join(self.path, name)

    def serves(self, partition_log: PartitionLog) -> bool:
        partition = partition_log.topic_partition
        return partition_log in (self.logs.get(partition), self.futures.get(partition))

    def replicas(self) -> list[Replica]:
        current = [Replica(each, is_future=False) for each in self.logs.values()]
        return current + [Replica(each, is_future=True) for each in self.futures.values()]

    def forget(self, partitions: Collection[TopicPartition]) -> list[Callable[[], None]]:
        """Writes that take partitions out of the checkpoints: a new log must not get the offsets of an old one."""
        return [
            checkpoint.remover(partitions)
            for checkpoint in self.checkpoints
            if not checkpoint.on_disk.keys().isdisjoint(partitions)
        ]

    def mark_clean(self, broker_epoch: int) -> None:
        checkpoints.write_clean_shutdown(self._files, self.path, broker_epoch)

    def space(self) -> DiskSpace:
        return self._files.disk_space(self.path)

    def unlock(self) -> None:
        if self._lock >= 0:
            handle, self._lock = self._lock, -1
            self._files.close(handle)
