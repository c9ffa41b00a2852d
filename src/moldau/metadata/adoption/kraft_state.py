"""What Apache Kafka's controller knew: its last snapshot, and the records after it.

__cluster_metadata-0/<end offset, 20 digits>-<epoch, 10 digits>.checkpoint    a snapshot: batches, as in a segment
__cluster_metadata-0/<base offset, 20 digits>.log                             the records, in batches
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import UUID

from moldau.metadata.adoption import kraft_records
from moldau.metadata.adoption.kraft_records import (
    ABORT,
    BEGIN,
    END,
    AclFound,
    AclRemoved,
    Boundary,
    MetadataRecord,
    NextProducerId,
    Partition,
    PartitionChange,
    QuotaFound,
    ScramFound,
    Setting,
    TokenFound,
    Topic,
    TopicRemoved,
    UnreadableMetadataError,
)
from moldau.storage.layout import LOG_SUFFIX, offset_name, offsets_with_suffix
from moldau.types.credentials import ScramCredential
from moldau.types.internal_topics import METADATA_TOPIC
from moldau.types.quotas import QuotaEntity, quota_entity
from moldau.wire.batch import CorruptBatchError
from moldau.wire.records import iter_batches, iter_records

K = TypeVar("K")
L = TypeVar("L")
V = TypeVar("V")

METADATA_LOG = f"{METADATA_TOPIC}-0"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class Resource(NamedTuple):
    """Whose settings: Kafka's number of the kind (topic 2, broker 4, client metrics 16, group 32) and the name."""

    type: int
    name: str


@dataclass(slots=True)
class KraftState:
    topics: dict[str, UUID] = field(default_factory=dict)
    partitions: dict[UUID, dict[int, Partition]] = field(default_factory=dict)
    settings: dict[Resource, dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: dict[UUID, AclFound] = field(default_factory=dict)
    scram_users: dict[str, dict[int, ScramCredential]] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    has_tokens: bool = False

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case Topic(name, topic_id):
                self.topics[name] = topic_id
                self.partitions[topic_id] = {}
            case TopicRemoved(topic_id):
                self._remove_topic(topic_id)
            case Partition():
                self._of_topic(record.topic_id)[record.index] = record
            case PartitionChange():
                self._change(record)
            case Setting():
                self._set(record)
            case NextProducerId(value):
                self.next_producer_id = value
            case AclFound(acl_id):
                self.acls[acl_id] = record
            case AclRemoved(acl_id):
                self.acls.pop(acl_id, None)
            case ScramFound(user, mechanism, credential):
                _put(self.scram_users, user, mechanism, credential)
            case QuotaFound(entity, key, limit):
                _put(self.quotas, quota_entity(dict(entity)), key, limit)
            case TokenFound():
                self.has_tokens = True
            case Boundary():
                raise AssertionError("boundaries are resolved before")

    def _of_topic(self, topic_id: UUID) -> dict[int, Partition]:
        found = self.partitions.get(topic_id)
        if found is None:
            raise UnreadableMetadataError(f"a partition of the topic with the id {topic_id}, which does not exist")
        return found

    def _change(self, change: PartitionChange) -> None:
        partitions = self._of_topic(change.topic_id)
        old = partitions.get(change.index)
        if old is None:
            raise UnreadableMetadataError(
                f"a change of partition {change.index} of {change.topic_id}, which is unknown"
            )
        partitions[change.index] = replace(
            old,
            replicas=old.replicas if change.replicas is None else change.replicas,
            isr=old.isr if change.isr is None else change.isr,
            eligible=old.eligible if change.eligible is None else change.eligible,
            leader_epoch=old.leader_epoch + change.new_leader,
        )

    def _remove_topic(self, topic_id: UUID) -> None:
        self.partitions.pop(topic_id, None)
        for name in [name for name, found in self.topics.items() if found == topic_id]:
            del self.topics[name]
            self.settings.pop(Resource(2, name), None)

    def _set(self, setting: Setting) -> None:
        resource = Resource(setting.resource_type, setting.resource_name)
        found = self.settings.setdefault(resource, {})
        if setting.value is None:
            found.pop(setting.name, None)
        else:
            found[setting.name] = setting.value


def _put(table: dict[K, dict[L, V]], owner: K, name: L, value: V | None) -> None:
    """None takes it away, and with the last one its owner."""
    found = table.setdefault(owner, {})
    if value is None:
        found.pop(name, None)
    else:
        found[name] = value
    if not found:
        del table[owner]


def read_state(folder: Path) -> KraftState:
    """Of a folder `__cluster_metadata-0`. Raises UnreadableMetadataError or OSError."""
    names = [path.name for path in folder.iterdir()]
    state = KraftState()
    snapshots = sorted((int(found[1]), found[0]) for name in names if (found := _SNAPSHOT.fullmatch(name)))
    begin = 0
    if snapshots:
        begin, snapshot = snapshots[-1]
        _replay(state, _records(folder / snapshot, 0))
    segments = offsets_with_suffix(names, LOG_SUFFIX)
    if segments and segments[0] > begin:
        raise UnreadableMetadataError(f"{folder}: the records between {begin} and {segments[0]} are missing")
    _replay(state, _all_records(folder, segments, begin))
    return state


def _all_records(folder: Path, segments: Iterable[int], begin: int) -> Iterator[MetadataRecord]:
    for base in segments:
        yield from _records(folder / offset_name(base, LOG_SUFFIX), begin)


def _records(path: Path, begin: int) -> Iterator[MetadataRecord]:
    try:
        for batch in iter_batches(path.read_bytes()):
            if batch.header.is_control or batch.header.last_offset < begin:
                continue
            for record in iter_records(batch):
                if record.offset >= begin and record.value is not None:
                    decoded = kraft_records.decode(bytes(record.value))
                    if decoded is not None:
                        yield decoded
    except (CorruptBatchError, UnreadableMetadataError) as error:
        raise UnreadableMetadataError(f"{path}: {error}") from error


def _replay(state: KraftState, records: Iterable[MetadataRecord]) -> None:
    """What was begun and never ended, because the controller died, does not count."""
    waiting: list[MetadataRecord] | None = None
    for record in records:
        if isinstance(record, Boundary):
            if record.type == END:
                for each in waiting or ():
                    state.apply(each)
            waiting = [] if record.type == BEGIN else None
            assert record.type in (BEGIN, END, ABORT)
        elif waiting is not None:
            waiting.append(record)
        else:
            state.apply(record)
