"""What lies in the log directories of a stopped Apache Kafka broker. Only reads, and only what is small: no records."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from moldau.metadata.adoption.kraft_state import METADATA_LOG, KraftState, read_state
from moldau.storage.checkpoints import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES, PARTITION_METADATA, parse_partition
from moldau.storage.folders import Folder, Mark, parse_folder
from moldau.storage.layout import LEADER_EPOCH_CHECKPOINT, LOG_SUFFIX, SNAPSHOT_SUFFIX, offsets_with_suffix
from moldau.storage.ownership import KafkaDirectory, described_directory
from moldau.storage.producer_snapshots import CorruptSnapshotError, decode_snapshot
from moldau.types.ids import TopicPartition
from moldau.types.internal_topics import METADATA_TOPIC
from moldau.wire.batch import HEADER_SIZE, MAGIC_AT, MAGIC_V2


class CannotAdoptError(Exception):
    """These log directories cannot be taken over; the message says what to do."""


@dataclass(frozen=True, slots=True)
class FoundLog:
    partition: TopicPartition
    path: Path
    topic_id: UUID | None
    size_bytes: int
    last_leader_epoch: int
    highest_producer_id: int
    old_format: bool
    """Holds records in a format from before Kafka 0.11."""


@dataclass(frozen=True, slots=True)
class Survey:
    directories: tuple[KafkaDirectory, ...]
    logs: dict[TopicPartition, FoundLog]
    leftovers: tuple[tuple[str, Mark], ...]
    """Folders of partitions that were being deleted or moved, or had been set aside."""
    state: KraftState | None
    """None: the metadata is in ZooKeeper."""

    @property
    def cluster_id(self) -> str:
        return self.directories[0].cluster_id

    @property
    def node_id(self) -> int:
        return int(self.directories[0].node_id)


def survey(paths: Sequence[Path]) -> Survey:
    """Raises CannotAdoptError, UnreadableMetadataError, CorruptFileError or OSError."""
    directories = tuple(_identified(path) for path in paths)
    _check_same_broker(directories)
    logs: dict[TopicPartition, FoundLog] = {}
    leftovers = []
    for path in paths:
        for folder in _partition_folders(path):
            if folder.mark is not Mark.NONE:
                leftovers.append((str(path / folder.name), folder.mark))
                continue
            _check_stopped(path)
            if folder.partition in logs:
                raise CannotAdoptError(f"{folder.name} lies in {logs[folder.partition].path.parent} and in {path}")
            logs[folder.partition] = _found_log(path / folder.name, folder.partition)
    return Survey(directories, logs, tuple(leftovers), _kraft_state(directories))


@contextmanager
def nobody_else(paths: Sequence[Path]) -> Iterator[None]:
    """Raises CannotAdoptError if a broker runs on one of them. Nothing is created: a broker makes the file."""
    with ExitStack() as held:
        for path in paths:
            try:
                file = held.enter_context((path / LOCK).open("r+b"))
            except (FileNotFoundError, PermissionError):
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as Moldau locks
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as Java does
            except OSError as error:
                raise CannotAdoptError(f"{path} is in use by a broker; stop it first") from error
        yield


def _identified(path: Path) -> KafkaDirectory:
    if not path.is_dir():
        raise CannotAdoptError(f"{path} is no directory")
    properties = path / META_PROPERTIES
    found = described_directory(str(path), properties.read_bytes()) if properties.exists() else None
    if found is None:
        raise CannotAdoptError(
            f"{path} is no log directory of Apache Kafka: it has no meta.properties that Kafka wrote"
        )
    if not found.cluster_id or not found.node_id.isdecimal():
        raise CannotAdoptError(f"{path}/meta.properties does not tell cluster.id and node.id")
    return found


def _check_same_broker(directories: Sequence[KafkaDirectory]) -> None:
    first = directories[0]
    for other in directories[1:]:
        if (other.cluster_id, other.node_id) != (first.cluster_id, first.node_id):
            raise CannotAdoptError(
                f"{other.path} belongs to broker {other.node_id} of cluster {other.cluster_id}, {first.path} to broker "
                f"{first.node_id} of cluster {first.cluster_id}; give the log directories of one broker"
            )


def _check_stopped(path: Path) -> None:
    if not (path / CLEAN_SHUTDOWN).exists():
        raise CannotAdoptError(
            f"the broker of {path} runs, or was not stopped in good order: start Apache Kafka on it once more, stop it "
            "with SIGTERM (kafka-server-stop.sh) and wait until it has ended"
        )


def _partition_folders(path: Path) -> list[Folder]:
    names = sorted(each.name for each in path.iterdir() if each.is_dir())
    found = [folder for name in names if (folder := parse_folder(name)) is not None]
    return [folder for folder in found if folder.partition.topic != METADATA_TOPIC]


def _found_log(path: Path, partition: TopicPartition) -> FoundLog:
    files = list(path.iterdir())
    names = [file.name for file in files]
    id_file = path / PARTITION_METADATA
    segments = [file for file in files if file.suffix == LOG_SUFFIX]
    return FoundLog(
        partition,
        path,
        parse_partition(id_file.read_bytes(), str(id_file)) if id_file.exists() else None,
        sum(file.stat().st_size for file in files if file.is_file()),
        _last_epoch(path),
        _highest_producer_id(path, offsets_with_suffix(names, SNAPSHOT_SUFFIX)),
        any(_begins_with_old_format(segment) for segment in segments),
    )


def _last_epoch(path: Path) -> int:
    try:
        lines = (path / LEADER_EPOCH_CHECKPOINT).read_text().splitlines()[2:]
        return max((int(line.split()[0]) for line in lines), default=0)
    except (FileNotFoundError, ValueError, IndexError):
        return 0


def _highest_producer_id(path: Path, offsets: Sequence[int]) -> int:
    if not offsets:
        return -1
    newest = path / f"{offsets[-1]:020d}{SNAPSHOT_SUFFIX}"
    try:
        return max((producer_id for producer_id, _ in decode_snapshot(newest.read_bytes())), default=-1)
    except CorruptSnapshotError as error:
        raise CannotAdoptError(f"{newest}: {error}") from error


def _begins_with_old_format(segment: Path) -> bool:
    with segment.open("rb") as file:
        head = file.read(HEADER_SIZE)
    return len(head) > MAGIC_AT and head[MAGIC_AT] != MAGIC_V2


def _kraft_state(directories: Sequence[KafkaDirectory]) -> KraftState | None:
    for directory in directories:
        path = Path(directory.path) / METADATA_LOG
        if path.is_dir():
            return read_state(path)
    if all(directory.of_zookeeper for directory in directories):
        return None
    given = os.pathsep.join(directory.path for directory in directories)
    raise CannotAdoptError(
        f"{METADATA_LOG} is not in {given}: give all entries of log.dirs, and that of metadata.log.dir if it is another"
    )
