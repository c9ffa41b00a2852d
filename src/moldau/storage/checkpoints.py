"""The small text files of a log directory, in Kafka's formats.

Offset checkpoints (recovery-point-, log-start-, replication-, cleaner-offset-checkpoint), UTF-8 lines:
    0                          version
    <count>
    <topic> <partition> <offset>     count times
meta.properties, Java properties:      version=1, cluster.id, node.id, directory.id
partition.metadata:                    version: 0 / topic_id: <uuid>
.kafka_cleanshutdown, JSON:            {"version":0,"brokerEpoch":<epoch>}
A uuid is 16 bytes in URL-safe base64 without padding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from moldau.storage.files import FileSystem, read_file, replace_file, write_file
from moldau.types.ids import TopicPartition
from moldau.types.uuid_text import decode_uuid, encode_uuid

T = TypeVar("T")

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

OFFSETS_VERSION = 0
META_VERSION = 1
PARTITION_METADATA_VERSION = 0
CLEAN_SHUTDOWN_VERSION = 0
UNKNOWN_BROKER_EPOCH = -1


class CorruptFileError(Exception):
    """A file of ours that cannot be what we wrote: names the file and the line."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}")
        self.path = path
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class DirectoryProperties:
    cluster_id: str
    node_id: int
    directory_id: UUID


class DirectoryInUseError(Exception):
    """Another broker has the log directory open."""

    def __init__(self, directory: str) -> None:
        super().__init__(
            f"Failed to acquire lock on file {LOCK} in {directory}. "
            "Another broker in this or another process is using this directory."
        )
        self.directory = directory


def lock_directory(files: FileSystem, directory: str) -> int:
    """Takes the directory for this process until the returned handle is closed."""
    try:
        return files.lock(os.path.join(directory, LOCK))
    except BlockingIOError:
        raise DirectoryInUseError(directory) from None


def read_offsets(files: FileSystem, directory: str, name: str) -> dict[TopicPartition, int]:
    return _read(files, os.path.join(directory, name), parse_offsets) or {}


def write_offsets(files: FileSystem, directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    replace_file(files, os.path.join(directory, name), format_offsets(offsets))


def read_directory(files: FileSystem, directory: str) -> DirectoryProperties | None:
    return _read(files, os.path.join(directory, META_PROPERTIES), parse_directory)


def write_directory(files: FileSystem, directory: str, properties: DirectoryProperties) -> None:
    replace_file(files, os.path.join(directory, META_PROPERTIES), format_directory(properties))


def read_topic_id(files: FileSystem, partition_directory: str) -> UUID | None:
    return _read(files, os.path.join(partition_directory, PARTITION_METADATA), parse_partition)


def write_topic_id(files: FileSystem, partition_directory: str, topic_id: UUID) -> None:
    replace_file(files, os.path.join(partition_directory, PARTITION_METADATA), format_partition(topic_id))


def write_topic_id_unsynced(files: FileSystem, partition_directory: str, topic_id: UUID) -> None:
    """The log's first flush brings it to disk; before that there is nothing that the id would protect."""
    write_file(files, os.path.join(partition_directory, PARTITION_METADATA), format_partition(topic_id), sync=False)


def write_clean_shutdown(files: FileSystem, directory: str, broker_epoch: int) -> None:
    replace_file(files, os.path.join(directory, CLEAN_SHUTDOWN), format_clean_shutdown(broker_epoch))


def take_clean_shutdown(files: FileSystem, directory: str) -> int | None:
    """The broker epoch of the last clean stop, None after a crash.

    The marker is gone for good when this returns, so that a crash while the logs are loaded counts as one.
    """
    path = os.path.join(directory, CLEAN_SHUTDOWN)
    epoch = _read(files, path, lambda data, _: parse_clean_shutdown(data))
    if epoch is not None:
        files.unlink(path)
        files.sync_directory(directory)
    return epoch


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [str(OFFSETS_VERSION), str(len(offsets))]
    lines.extend(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    return ("\n".join(lines) + "\n").encode()


def parse_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    """An empty file, which Kafka makes when it first opens a checkpoint, holds no offsets."""
    lines = _lines(data, path)
    if not lines:
        return {}
    _expect_version(lines[0], OFFSETS_VERSION, path, 1)
    if len(lines) == 1:
        return {}
    count = _integer(lines[1], path, 2)
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(lines[2:], 3):
        parts = line.split()
        if len(parts) != 3:
            raise CorruptFileError(path, number, f"expected topic, partition and offset, found {line!r}")
        partition = TopicPartition(parts[0], _integer(parts[1], path, number))
        offsets[partition] = _integer(parts[2], path, number)
    if len(lines) - 2 != count:
        raise CorruptFileError(path, 2, f"says {count} entries, the file holds {len(lines) - 2}")
    return offsets


def format_directory(properties: DirectoryProperties) -> bytes:
    return (
        f"#\ncluster.id={properties.cluster_id}\ndirectory.id={encode_uuid(properties.directory_id)}\n"
        f"node.id={properties.node_id}\nversion={META_VERSION}\n"
    ).encode()


def parse_directory(data: bytes, path: str) -> DirectoryProperties:
    found = dict(_pairs(data, path, "="))
    version, line = _required(found, "version", path)
    _expect_version(version, META_VERSION, path, line)
    cluster_id, _ = _required(found, "cluster.id", path)
    node_id, node_line = _required(found, "node.id", path)
    directory_id, directory_line = _required(found, "directory.id", path)
    return DirectoryProperties(
        cluster_id, _integer(node_id, path, node_line), _uuid(directory_id, path, directory_line)
    )


def format_partition(topic_id: UUID) -> bytes:
    return f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {encode_uuid(topic_id)}".encode()


def parse_partition(data: bytes, path: str) -> UUID:
    found = dict(_pairs(data, path, ":"))
    version, line = _required(found, "version", path)
    _expect_version(version, PARTITION_METADATA_VERSION, path, line)
    topic_id, line = _required(found, "topic_id", path)
    parsed = _uuid(topic_id, path, line)
    if parsed.int == 0:
        raise CorruptFileError(path, line, "the topic id is zero")
    return parsed


def format_clean_shutdown(broker_epoch: int) -> bytes:
    return f'{{"version":{CLEAN_SHUTDOWN_VERSION},"brokerEpoch":{broker_epoch}}}'.encode()


def parse_clean_shutdown(data: bytes) -> int:
    """The broker epoch of the last clean stop. Only the file's presence counts, so any content is accepted."""
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return UNKNOWN_BROKER_EPOCH
    return epoch if isinstance(epoch, int) else UNKNOWN_BROKER_EPOCH


def _read(files: FileSystem, path: str, parse: Callable[[bytes, str], T]) -> T | None:
    try:
        data = read_file(files, path)
    except FileNotFoundError:
        return None
    return parse(data, path)


def _lines(data: bytes, path: str) -> list[str]:
    try:
        return data.decode().splitlines()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorruptFileError(path, line, "not UTF-8") from error


def _pairs(data: bytes, path: str, separator: str) -> Iterator[tuple[str, tuple[str, int]]]:
    for number, line in enumerate(_lines(data, path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise CorruptFileError(path, number, f"expected a name, {separator!r} and a value, found {line!r}")
        yield key.strip(), (value.strip(), number)


def _required(found: Mapping[str, tuple[str, int]], key: str, path: str) -> tuple[str, int]:
    if key not in found:
        raise CorruptFileError(path, 1, f"{key} is missing")
    return found[key]


def _integer(text: str, path: str, line: int) -> int:
    try:
        return int(text)
    except ValueError:
        raise CorruptFileError(path, line, f"expected a number, found {text!r}") from None


def _uuid(text: str, path: str, line: int) -> UUID:
    try:
        return decode_uuid(text)
    except ValueError as error:
        raise CorruptFileError(path, line, str(error)) from None


def _expect_version(text: str, version: int, path: str, line: int) -> None:
    found = _integer(text, path, line)
    if found != version:
        raise CorruptFileError(path, line, f"version {found}, expected {version}")
