"""Names of partition folders in a log directory, as Kafka names them (pure).

<topic>-<partition>                     a log in service
<topic>-<partition>.<id>-delete         removed, waits for `file.delete.delay.ms`
<topic>-<partition>.<id>-future         a copy that will replace the log of another directory
<topic>-<partition>.<id>-stray          its topic is not, or no longer, in the cluster
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from uuid import UUID

from moldau.types.ids import TopicPartition

# What file systems allow for one name.
MAX_NAME = 255
_IN_SERVICE = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)")
_MARKED = re.compile(_IN_SERVICE.pattern + r"\.[0-9a-zA-Z_-]+(?P<mark>-delete|-future|-stray)")


class Mark(Enum):
    NONE = ""
    DELETE = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


@dataclass(frozen=True, slots=True)
class Folder:
    name: str
    partition: TopicPartition
    mark: Mark


def folder_name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def marked_name(partition: TopicPartition, unique: UUID, mark: Mark) -> str:
    """Of a very long topic name the end is left out, as Kafka does: nobody reads it back from such a folder."""
    suffix = f"-{partition.partition}.{unique.hex}{mark.value}"
    return partition.topic[: MAX_NAME - len(suffix)] + suffix


def parse_folder(name: str) -> Folder | None:
    """None for folders that hold no log."""
    found = _MARKED.fullmatch(name) or _IN_SERVICE.fullmatch(name)
    if found is None:
        return None
    parts = found.groupdict()
    partition = TopicPartition(parts["topic"], int(parts["partition"]))
    return Folder(name, partition, Mark(parts.get("mark") or ""))
