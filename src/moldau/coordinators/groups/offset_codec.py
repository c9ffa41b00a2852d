"""OffsetCommit records: there may be a million of them to load, so the common form is read by hand.

    key    int16 kind = 1, string group, string topic, int32 partition
    value  int16 version = 4, int64 offset, int32 leader epoch, compact string metadata, int64 commit timestamp,
           tagged fields: none, or tag 0 with the 16 bytes of the topic id

The common form has version 4 and no metadata. All others are read by the codec of messages. What is committed stays
as the bytes of its value: most of it is never asked for before the next commit takes its place.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from uuid import UUID

from moldau.coordinators.groups.records import OffsetCommitKey, OffsetCommitValue, RecordKind
from moldau.coordinators.machine import StateRecord
from moldau.coordinators.record_codec import decode_key, decode_value, encode_record
from moldau.types.ids import NO_EPOCH, NO_TIMESTAMP, ZERO_TOPIC_ID
from moldau.wire.codec import DecodeError

VALUE_VERSION = 4
#: The version in which an offset can say itself when it expires; only old clients ask for that.
VALUE_VERSION_WITH_EXPIRY = 1

_LENGTH: Final = Struct(">h")
_PARTITION: Final = Struct(">i")
_COMMON: Final = Struct(">hqiBqBBB")
_NO_METADATA, _ONE_TAG, _TOPIC_ID_TAG, _ID_BYTES = 1, 1, 0, 16
_COMMON_SIZE: Final = _COMMON.size + _ID_BYTES
_COMMON_VERSION: Final = b"\x00\x04"
_METADATA_AT, _TAGS_AT, _ID_AT = 14, 23, 26
_COMMON_TAGS: Final = bytes((_ONE_TAG, _TOPIC_ID_TAG, _ID_BYTES))
REMEMBERED_TOPIC_IDS = 10_000


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp: int = NO_TIMESTAMP
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: UUID = ZERO_TOPIC_ID

    def is_of_another_topic(self, topic_id: UUID) -> bool:
        """The name was used before by a topic that was deleted. An id that is not known fits all."""
        return ZERO_TOPIC_ID not in (self.topic_id, topic_id) and self.topic_id != topic_id


@lru_cache(REMEMBERED_TOPIC_IDS)
def topic_id_of(raw: bytes) -> UUID:
    """One object for equal ids: there are a few topics for many offsets."""
    return UUID(bytes=raw)


def read_key(key: bytes) -> tuple[str, str, int]:
    """Group, topic and partition."""
    try:
        (size,) = _LENGTH.unpack_from(key, 2)
        topic_at = 4 + size
        (topic_size,) = _LENGTH.unpack_from(key, topic_at)
        end = topic_at + 2 + topic_size
        if size >= 0 <= topic_size and end + 4 <= len(key):
            (partition,) = _PARTITION.unpack_from(key, end)
            return str(key[4:topic_at], "utf-8", "replace"), str(key[topic_at + 2 : end], "utf-8", "replace"), partition
    except StructError:
        pass
    # Not as it should be: let the codec say why.
    decoded = decode_key(OffsetCommitKey, key)
    raise DecodeError(f"the key of a commit of {decoded.group} has no topic or partition")


def ends_with_partition(key: bytes) -> bool:
    """Whether nothing follows the partition of a key that `read_key` has read."""
    (size,) = _LENGTH.unpack_from(key, 2)
    (topic_size,) = _LENGTH.unpack_from(key, 4 + size)
    return len(key) == 4 + int(size) + 2 + int(topic_size) + _PARTITION.size


def check_value(value: bytes) -> None:
    """What cannot be read is refused when it is loaded, not when somebody asks for it."""
    if (
        len(value) != _COMMON_SIZE
        or value[:2] != _COMMON_VERSION
        or value[_METADATA_AT] != _NO_METADATA
        or value[_TAGS_AT:_ID_AT] != _COMMON_TAGS
    ):
        decode_value(OffsetCommitValue, value)


def packed_topic_id(value: bytes) -> UUID:
    """Of a value as the kernel packs it: the id stands at its end."""
    return topic_id_of(value[-_ID_BYTES:])


def read_value(value: bytes) -> CommittedOffset:
    if len(value) == _COMMON_SIZE:
        version, offset, leader_epoch, metadata, timestamp, tags, tag, size = _COMMON.unpack_from(value)
        is_common = version == VALUE_VERSION and metadata == _NO_METADATA and tags == _ONE_TAG
        if is_common and tag == _TOPIC_ID_TAG and size == _ID_BYTES:
            return CommittedOffset(offset, leader_epoch, "", timestamp, NO_TIMESTAMP, topic_id_of(value[-_ID_BYTES:]))
    decoded = decode_value(OffsetCommitValue, value)
    assert decoded is not None
    return CommittedOffset(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp,
        decoded.expire_timestamp,
        topic_id_of(decoded.topic_id.bytes),
    )


def commit_record(group: str, topic: str, partition: int, offset: CommittedOffset) -> StateRecord:
    if not offset.metadata and offset.expire_timestamp == NO_TIMESTAMP and offset.topic_id.int:
        number, epoch, _, committed_ms, _, _ = offset
        raw = _COMMON.pack(VALUE_VERSION, number, epoch, _NO_METADATA, committed_ms, _ONE_TAG, _TOPIC_ID_TAG, _ID_BYTES)
        return StateRecord(_key_head(group, topic) + _PARTITION.pack(partition), raw + offset.topic_id.bytes)
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=offset.expire_timestamp,
        topic_id=offset.topic_id,
    )
    version = VALUE_VERSION if offset.expire_timestamp == NO_TIMESTAMP else VALUE_VERSION_WITH_EXPIRY
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return encode_record(RecordKind.OFFSET_COMMIT, key, value, version)


def offset_tombstone(group: str, topic: str, partition: int) -> StateRecord:
    return StateRecord(_key_head(group, topic) + _PARTITION.pack(partition), None)


@lru_cache(1000)
def _key_head(group: str, topic: str) -> bytes:
    """A key up to the partition: a commit has many of the same topic."""
    key = OffsetCommitKey(group=group, topic=topic, partition=0)
    return encode_record(RecordKind.OFFSET_COMMIT, key, None).key[: -_PARTITION.size]
