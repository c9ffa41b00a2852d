"""Committed offsets, and those that wait for the end of their transaction."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from moldau.coordinators.groups.records import OffsetCommitKey, OffsetCommitValue, RecordKind
from moldau.coordinators.machine import ProducerStamp, StateRecord
from moldau.coordinators.record_codec import decode_key, decode_value, encode_record
from moldau.types.ids import NO_EPOCH, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicPartition

VALUE_VERSION = 3
VALUE_VERSION_WITH_EXPIRY = 1


@dataclass(slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp: int = NO_TIMESTAMP
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: UUID = ZERO_TOPIC_ID
    #: Its place among all replayed commits: of two offsets of a partition the later one counts.
    order: int = 0


PartitionOffsets = dict[TopicPartition, CommittedOffset]


class OffsetTable:
    def __init__(self) -> None:
        #: By group, then by partition.
        self.committed: dict[str, PartitionOffsets] = {}
        #: By producer id, group, then by partition: they count when the producer's transaction is committed.
        self.pending: dict[int, dict[str, PartitionOffsets]] = {}
        self._order = 0

    def get(self, group: str, partition: TopicPartition) -> CommittedOffset | None:
        return self.committed.get(group, {}).get(partition)

    def is_pending(self, group: str, partition: TopicPartition) -> bool:
        """Whether an open transaction would change this offset: it is not stable then."""
        return any(partition in groups.get(group, ()) for groups in self.pending.values())

    def has_any(self, group: str) -> bool:
        """Whether the group has offsets, transactional ones included."""
        return bool(self.committed.get(group)) or any(groups.get(group) for groups in self.pending.values())

    # --- replay ---

    def replay(self, record: StateRecord, producer: ProducerStamp | None) -> str:
        """Gives the group that the offset belongs to."""
        key = decode_key(OffsetCommitKey, record.key)
        value = decode_value(OffsetCommitValue, record.value)
        partition = TopicPartition(key.topic, key.partition)
        if value is None:
            self._remove(key.group, partition)
            return key.group
        self._order += 1
        offset = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self._order,
        )
        if producer is None:
            self.committed.setdefault(key.group, {})[partition] = offset
        else:
            groups = self.pending.setdefault(producer.producer_id, {})
            groups.setdefault(key.group, {})[partition] = offset
        return key.group

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> list[str]:
        """Gives the groups whose offsets were pending."""
        groups = self.pending.pop(producer_id, {})
        if is_committed:
            for group, offsets in groups.items():
                present = self.committed.setdefault(group, {})
                for partition, offset in offsets.items():
                    before = present.get(partition)
                    if before is None or before.order < offset.order:
                        present[partition] = offset
        return list(groups)

    def _remove(self, group: str, partition: TopicPartition) -> None:
        offsets = self.committed.get(group)
        if offsets is not None:
            offsets.pop(partition, None)
            if not offsets:
                del self.committed[group]


def commit_record(group: str, partition: TopicPartition, offset: CommittedOffset) -> StateRecord:
    key = OffsetCommitKey(group=group, topic=partition.topic, partition=partition.partition)
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.commit_timestamp,
        expire_timestamp=offset.expire_timestamp,
        topic_id=offset.topic_id,
    )
    version = VALUE_VERSION if offset.expire_timestamp == NO_TIMESTAMP else VALUE_VERSION_WITH_EXPIRY
    return encode_record(RecordKind.OFFSET_COMMIT, key, value, version)


def offset_tombstone(group: str, partition: TopicPartition) -> StateRecord:
    key = OffsetCommitKey(group=group, topic=partition.topic, partition=partition.partition)
    return encode_record(RecordKind.OFFSET_COMMIT, key, None)
