"""Whose a log directory is, found out before anything is written into it.

Apache Kafka does not start on one in which it finds what it does not know, so a broker that is refused leaves no
trace. Both write `meta.properties`; Java puts the date into a comment on top of it, Moldau does not:

    #                                    #
    #Wed Nov 18 10:50:31 UTC 2026        cluster.id=...
    cluster.id=...

Taking the data over (`moldau broker adopt`) ends with writing it anew, in Moldau's form.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.storage.checkpoints import META_PROPERTIES
from moldau.storage.files import FileSystem, read_file
from moldau.storage.log_directory import InconsistentDirectoryError
from moldau.types.internal_topics import OWN_PREFIX

METADATA_FOLDER = f"{OWN_PREFIX}_metadata"
"""Where the metadata of a broker without a cluster lies, in the first log directory."""
UNFINISHED_COPY = ".moldau-adopting"
"""Lies in a log directory as long as data of Apache Kafka is copied to it."""
ZOOKEEPER_VERSION = "0"


@dataclass(frozen=True, slots=True)
class KafkaDirectory:
    """What `meta.properties` tells of a log directory that Apache Kafka has written."""

    path: str
    properties: dict[str, str]

    @property
    def cluster_id(self) -> str:
        return self.properties.get("cluster.id", "")

    @property
    def node_id(self) -> str:
        """Kafka 3 with ZooKeeper called it `broker.id`."""
        return self.properties.get("node.id") or self.properties.get("broker.id", "")

    @property
    def of_zookeeper(self) -> bool:
        return self.properties.get("version") == ZOOKEEPER_VERSION


class UnfinishedCopyError(InconsistentDirectoryError):
    """Data of Apache Kafka was being copied to this log directory."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: copying the data of Apache Kafka here was interrupted. Run `moldau broker adopt` again."
        )


class ForeignDirectoryError(InconsistentDirectoryError):
    """The log directory belongs to Apache Kafka."""

    def __init__(self, directory: KafkaDirectory, *, interrupted: bool) -> None:
        path, cluster = directory.path, directory.cluster_id or "without an id"
        belongs = f"{path}: this log directory belongs to Apache Kafka, cluster {cluster}"
        if interrupted:
            remedy = f"Taking its data over was interrupted: `moldau broker adopt {path} --in-place` completes it"
        else:
            remedy = (
                f"Nothing in it was changed. `moldau broker adopt {path} --dry-run` shows what Moldau can take "
                "over from it; for a broker with data of its own set log.dirs to another directory"
            )
        super().__init__(f"{belongs}. {remedy}.")
        self.directory = directory


def refuse_foreign_directories(files: FileSystem, paths: Sequence[str]) -> None:
    """Only reads. Raises ForeignDirectoryError or UnfinishedCopyError; what cannot be read is left to who opens it."""
    for path in paths:
        if files.exists(os.path.join(path, UNFINISHED_COPY)):
            raise UnfinishedCopyError(path)
        found = kafka_directory(files, path)
        if found is not None:
            raise ForeignDirectoryError(found, interrupted=_was_begun(files, paths[0]))


def kafka_directory(files: FileSystem, path: str) -> KafkaDirectory | None:
    """None if Apache Kafka has not written it, or Moldau has taken it over."""
    try:
        return described_directory(path, read_file(files, os.path.join(path, META_PROPERTIES)))
    except OSError:
        return None


def described_directory(path: str, meta_properties: bytes) -> KafkaDirectory | None:
    lines = [line.strip() for line in meta_properties.decode(errors="replace").splitlines()]
    properties = dict(_pair(line) for line in lines if line and not line.startswith("#"))
    dated = any(len(line) > 1 for line in lines if line.startswith("#"))
    if dated or properties.get("version") == ZOOKEEPER_VERSION:
        return KafkaDirectory(path, properties)
    return None


def _pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key.strip(), value.strip()


def _was_begun(files: FileSystem, first: str) -> bool:
    return files.is_directory(os.path.join(first, METADATA_FOLDER))
