"""Committed offsets, and those that wait for the end of their transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from moldau.coordinators.groups.records import OffsetCommitKey, OffsetCommitValue, RecordKind
from moldau.coordinators.machine import ProducerStamp, StateRecord
from moldau.coordinators.record_codec import decode_key, decode_value, encode_record
from moldau.types.ids import NO_EPOCH, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicPartition

VALUE_VERSION = 4
#: The version in which an offset can say itself when it expires; only old clients ask for that.
VALUE_VERSION_WITH_EXPIRY = 1


@dataclass(slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_timestamp: int = NO_TIMESTAMP
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: UUID = ZERO_TOPIC_ID

    def is_of_another_topic(self, topic_id: UUID) -> bool:
        """The name was used before by a topic that was deleted. An id that is not known fits all."""
        return ZERO_TOPIC_ID not in (self.topic_id, topic_id) and self.topic_id != topic_id


@dataclass(slots=True)
class PendingOffset:
    offset: CommittedOffset
    #: Its place among the pending ones.
    order: int
    #: Another commit of the same partition came later and counts already: this one never will.
    is_overtaken: bool = False


#: By topic, then by partition.
TopicOffsets = dict[str, dict[int, CommittedOffset]]
#: By group, then by partition.
PendingOffsets = dict[str, dict[TopicPartition, PendingOffset]]


class OffsetTable:
    def __init__(self) -> None:
        self.committed: dict[str, TopicOffsets] = {}
        """By group."""
        self.pending: dict[int, PendingOffsets] = {}
        """By producer id: they count when the producer's transaction is committed."""
        self.readers: dict[str, set[str]] = {}
        """The groups that have offsets of a topic, and perhaps some that had."""
        self._order = 0
        #: One object for equal ids: there may be a million offsets and only a few topics.
        self._topic_ids: dict[UUID, UUID] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.committed.get(group, {}).get(topic, {}).get(partition)

    def of_group(self, group: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for topic, partitions in self.committed.get(group, {}).items():
            for partition, offset in partitions.items():
                yield TopicPartition(topic, partition), offset

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction would change this offset: it is not stable then."""
        wanted = TopicPartition(topic, partition)
        return any(wanted in groups.get(group, ()) for groups in self.pending.values())

    def pending_of(self, group: str) -> set[TopicPartition]:
        return {partition for groups in self.pending.values() for partition in groups.get(group, ())}

    def of_topic(self, topic: str, topic_id: UUID) -> Iterator[tuple[str, int]]:
        """Group and partition of each offset of this very topic, pending ones included."""
        for group in self.readers.get(topic, ()):
            found = self.committed.get(group, {}).get(topic, {})
            partitions = {index for index, offset in found.items() if not offset.is_of_another_topic(topic_id)}
            for groups in self.pending.values():
                for partition, pending in groups.get(group, {}).items():
                    if partition.topic == topic and not pending.offset.is_of_another_topic(topic_id):
                        partitions.add(partition.partition)
            for index in sorted(partitions):
                yield group, index

    def groups(self) -> set[str]:
        """Whoever has an offset, pending ones included."""
        return set(self.committed).union(*self.pending.values())

    # --- replay ---

    def replay(self, record: StateRecord, producer: ProducerStamp | None) -> str:
        """Gives the group that the offset belongs to."""
        key = decode_key(OffsetCommitKey, record.key)
        value = decode_value(OffsetCommitValue, record.value)
        if value is None:
            self._remove(key.group, key.topic, key.partition)
            return key.group
        offset = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            self._topic_ids.setdefault(value.topic_id, value.topic_id),
        )
        if producer is None:
            self._commit(key.group, key.topic, key.partition, offset)
            if self.pending:
                self._overtake(key.group, TopicPartition(key.topic, key.partition))
        else:
            self._order += 1
            groups = self.pending.setdefault(producer.producer_id, {})
            partition = TopicPartition(key.topic, key.partition)
            groups.setdefault(key.group, {})[partition] = PendingOffset(offset, self._order)
            self.readers.setdefault(key.topic, set()).add(key.group)
        return key.group

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> None:
        groups = self.pending.pop(producer_id, {})
        if not is_committed:
            return
        for group, offsets in groups.items():
            for partition, pending in offsets.items():
                if not pending.is_overtaken:
                    self._commit(group, *partition, pending.offset)
                    self._overtake(group, partition, pending.order)

    def _commit(self, group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        topics = self.committed.get(group)
        if topics is None:
            topics = self.committed[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
            self.readers.setdefault(topic, set()).add(group)
        partitions[partition] = offset

    def _overtake(self, group: str, partition: TopicPartition, order: int | None = None) -> None:
        """Of several commits of a partition the last written counts, also if its transaction ends first."""
        for groups in self.pending.values():
            pending = groups.get(group, {}).get(partition)
            if pending is not None and (order is None or pending.order < order):
                pending.is_overtaken = True

    def _remove(self, group: str, topic: str, partition: int) -> None:
        for groups in self.pending.values():
            groups.get(group, {}).pop(TopicPartition(topic, partition), None)
        topics = self.committed.get(group, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is not None and not partitions:
            del topics[topic]
            if not self.pending:
                self.readers[topic].discard(group)
            if not topics:
                del self.committed[group]


def commit_record(group: str, topic: str, partition: int, offset: CommittedOffset) -> StateRecord:
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
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return encode_record(RecordKind.OFFSET_COMMIT, key, None)
