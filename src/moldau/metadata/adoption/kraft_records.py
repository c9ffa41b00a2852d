"""The records in which Apache Kafka's controller keeps its metadata (KRaft). A record's value is

    uvarint  version of this frame = 1
    uvarint  type of the record
    uvarint  version of the record
    fields   in the flexible encoding: compact strings and arrays, tagged fields at the end

Those that matter here, with the fields read (x? may be null, #n is tag n):

     2 Topic            name, id
     3 Partition        partition, topic id, replicas, isr, removing, adding, leader, epoch, partition epoch;
                        (v1) directories; #1 eligible leaders?, #2 last known eligible leaders?
     4 Config           resource type, resource name, name, value?
     5 PartitionChange  partition, topic id; #0 isr?, #1 leader, #2 replicas?, #6 eligible leaders?, #7 last known ones?
     9 RemoveTopic      id
    10, 26              a delegation token and its end: only told
    11 ScramCredential  name, mechanism, salt, stored key, server key, iterations
    14 ClientQuota      entity [type, name?], key, value, whether it is removed
    15 ProducerIds      broker, broker epoch, next producer id
    18 Acl              id, resource type, resource name, pattern type, principal, host, operation, permission
    19 RemoveAcl        id
    22 RemoveScram      name, mechanism
    23, 24, 25          begin, end and abort of several records that count together or not at all
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import TypeAlias
from uuid import UUID

from moldau.types.credentials import ScramCredential
from moldau.wire import primitives

FRAME_VERSION = 1
NO_LEADER_CHANGE = -2
_INT8, _INT32, _INT64, _DOUBLE = Struct(">b"), Struct(">i"), Struct(">q"), Struct(">d")
_NEWEST = {2: 0, 3: 2, 4: 0, 5: 2, 9: 0, 11: 0, 14: 0, 15: 0, 18: 0, 19: 0, 22: 0}


class UnreadableMetadataError(Exception):
    """Apache Kafka's metadata cannot be what we think it is."""


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: UUID


@dataclass(frozen=True, slots=True)
class Partition:
    index: int
    topic_id: UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    eligible: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """None: as it was."""

    index: int
    topic_id: UUID
    replicas: tuple[int, ...] | None
    isr: tuple[int, ...] | None
    eligible: tuple[int, ...] | None
    new_leader: bool


@dataclass(frozen=True, slots=True)
class Setting:
    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class TopicRemoved:
    id: UUID


@dataclass(frozen=True, slots=True)
class NextProducerId:
    value: int


@dataclass(frozen=True, slots=True)
class AclFound:
    """The numbers are Kafka's."""

    id: UUID
    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class AclRemoved:
    id: UUID


@dataclass(frozen=True, slots=True)
class ScramFound:
    """No credential: it was taken away."""

    user: str
    mechanism: int
    credential: ScramCredential | None


@dataclass(frozen=True, slots=True)
class QuotaFound:
    """No limit: it was removed."""

    entity: tuple[tuple[str, str | None], ...]
    key: str
    limit: float | None


@dataclass(frozen=True, slots=True)
class TokenFound:
    """A delegation token; only that there was one matters."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Of records that count together."""

    type: int


BEGIN, END, ABORT = 23, 24, 25
MetadataRecord: TypeAlias = (
    Topic
    | Partition
    | PartitionChange
    | Setting
    | TopicRemoved
    | NextProducerId
    | AclFound
    | AclRemoved
    | ScramFound
    | QuotaFound
    | TokenFound
    | Boundary
)


class _Fields:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def number(self, kind: Struct) -> int:
        (value,) = kind.unpack_from(self._data, self._at)
        self._at += kind.size
        return int(value)

    def int8(self) -> int:
        return self.number(_INT8)

    def int32(self) -> int:
        return self.number(_INT32)

    def int64(self) -> int:
        return self.number(_INT64)

    def uvarint(self) -> int:
        value, self._at = primitives.read_uvarint(self._data, self._at)
        return value

    def text(self) -> str | None:
        value, self._at = primitives.read_compact_string(self._data, self._at, "a metadata record")
        return value

    def name(self) -> str:
        return self.text() or ""

    def data(self) -> bytes:
        value, self._at = primitives.read_compact_bytes(self._data, self._at, "a metadata record")
        return bytes(value or b"")

    def double(self) -> float:
        (value,) = _DOUBLE.unpack_from(self._data, self._at)
        self._at += _DOUBLE.size
        return float(value)

    def uuid(self) -> UUID:
        value, self._at = primitives.read_uuid(self._data, self._at, "a metadata record")
        return value

    def ids(self) -> tuple[int, ...] | None:
        count, self._at = primitives.read_compact_count(self._data, self._at, "a metadata record")
        return None if count < 0 else tuple(self.int32() for _ in range(count))

    def skip_uuids(self) -> None:
        count, self._at = primitives.read_compact_count(self._data, self._at, "a metadata record")
        for _ in range(count):
            self.uuid()

    def tagged(self) -> dict[int, _Fields]:
        found = {}
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            raw, self._at = primitives.take(self._data, self._at, size, "a tagged field")
            found[tag] = _Fields(bytes(raw))
        return found


def decode(value: bytes) -> MetadataRecord | None:
    """None for records that say nothing about data. Raises UnreadableMetadataError."""
    try:
        return _decode(_Fields(value))
    except (ValueError, IndexError, StructError) as error:
        raise UnreadableMetadataError(f"a metadata record of {len(value)} bytes cannot be read: {error}") from error


def _decode(fields: _Fields) -> MetadataRecord | None:
    frame, kind, version = fields.uvarint(), fields.uvarint(), fields.uvarint()
    if frame != FRAME_VERSION or version > _NEWEST.get(kind, version):
        raise UnreadableMetadataError(
            f"a metadata record of type {kind} has version {version}, which is newer than what this release reads"
        )
    match kind:
        case 2:
            return Topic(fields.text() or "", fields.uuid())
        case 3:
            return _partition(fields, version)
        case 4:
            return Setting(fields.int8(), fields.text() or "", fields.text() or "", fields.text())
        case 5:
            return _partition_change(fields)
        case 9:
            return TopicRemoved(fields.uuid())
        case 15:
            fields.int32(), fields.int64()
            return NextProducerId(fields.int64())
        case 23 | 24 | 25:
            return Boundary(kind)
        case _:
            return _of_access(kind, fields)


def _partition(fields: _Fields, version: int) -> Partition:
    index, topic_id = fields.int32(), fields.uuid()
    replicas, isr, _removing, _adding = fields.ids(), fields.ids(), fields.ids(), fields.ids()
    _leader, epoch, _partition_epoch = fields.int32(), fields.int32(), fields.int32()
    if version >= 1:
        fields.skip_uuids()
    tagged = fields.tagged()
    eligible = _tagged_ids(tagged, 1) or _tagged_ids(tagged, 2) or ()
    return Partition(index, topic_id, replicas or (), isr or (), epoch, eligible)


def _partition_change(fields: _Fields) -> PartitionChange:
    index, topic_id = fields.int32(), fields.uuid()
    tagged = fields.tagged()
    eligible = _tagged_ids(tagged, 6)
    if not eligible and 7 in tagged:
        eligible = _tagged_ids(tagged, 7)
    new_leader = 1 in tagged and tagged[1].int32() != NO_LEADER_CHANGE
    return PartitionChange(index, topic_id, _tagged_ids(tagged, 2), _tagged_ids(tagged, 0), eligible, new_leader)


def _tagged_ids(tagged: dict[int, _Fields], tag: int) -> tuple[int, ...] | None:
    return tagged[tag].ids() if tag in tagged else None


def _of_access(kind: int, fields: _Fields) -> MetadataRecord | None:
    match kind:
        case 10:
            return TokenFound()
        case 11:
            user, mechanism = fields.name(), fields.int8()
            salt, stored_key, server_key = fields.data(), fields.data(), fields.data()
            return ScramFound(user, mechanism, ScramCredential(salt, fields.int32(), stored_key, server_key))
        case 14:
            entity = []
            for _ in range(fields.uvarint() - 1):
                entity.append((fields.name(), fields.text()))
                fields.tagged()
            key, limit = fields.name(), fields.double()
            return QuotaFound(tuple(entity), key, None if fields.int8() else limit)
        case 18:
            acl_id, resource, name, pattern = fields.uuid(), fields.int8(), fields.name(), fields.int8()
            return AclFound(acl_id, resource, name, pattern, fields.name(), fields.name(), fields.int8(), fields.int8())
        case 19:
            return AclRemoved(fields.uuid())
        case 22:
            return ScramFound(fields.name(), fields.int8(), None)
        case _:
            return None
