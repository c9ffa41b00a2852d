"""Committed offsets, and those that wait for the end of their transaction: each as the value of its record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from moldau.coordinators.groups.offset_codec import (
    CommittedOffset,
    check_value,
    ends_with_partition,
    read_key,
    read_value,
)
from moldau.coordinators.machine import ProducerStamp, StateRecord
from moldau.types.ids import TopicPartition

PARTITION_SIZE = 4
REMEMBERED_HEADS = 10_000


@dataclass(slots=True)
class PendingOffset:
    value: bytes
    #: Its place among the pending ones.
    order: int
    #: Another commit of the same partition came later and counts already: this one never will.
    is_overtaken: bool = False


#: Values of records by topic, then by partition.
TopicOffsets = dict[str, dict[int, bytes]]
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
        #: The beginnings of keys that were read a moment ago, and where offsets of their group and topic stand.
        self._heads: dict[bytes, dict[int, bytes]] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        value = self.committed.get(group, {}).get(topic, {}).get(partition)
        return None if value is None else read_value(value)

    def of_group(self, group: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        for topic, partitions in self.committed.get(group, {}).items():
            for partition, value in partitions.items():
                yield TopicPartition(topic, partition), read_value(value)

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
            waiting = {
                partition.partition
                for groups in self.pending.values()
                for partition, pending in groups.get(group, {}).items()
                if partition.topic == topic and not read_value(pending.value).is_of_another_topic(topic_id)
            }
            # There may be thousands, and whoever asks may want a few.
            for index in sorted(found.keys() | waiting):
                if index in waiting or not read_value(found[index]).is_of_another_topic(topic_id):
                    yield group, index

    def groups(self) -> set[str]:
        """Whoever has an offset, pending ones included."""
        return set(self.committed).union(*self.pending.values())

    # --- replay ---

    def replay_plain(self, key: bytes, value: bytes | None) -> bool:
        """A commit outside of transactions, if nothing but that is concerned: a log holds millions of them. Else False,
        and nothing is done."""
        if value is None or self.pending:
            return False
        check_value(value)
        head = key[:-PARTITION_SIZE]
        partitions = self._heads.get(head)
        if partitions is None:
            group, topic, partition = read_key(key)
            self._commit(group, topic, partition, value)
            if len(self._heads) >= REMEMBERED_HEADS:
                self._heads.clear()
            if ends_with_partition(key):
                self._heads[head] = self.committed[group][topic]
            return True
        partitions[int.from_bytes(key[-PARTITION_SIZE:], "big", signed=True)] = value
        return True

    def replay(self, record: StateRecord, producer: ProducerStamp | None) -> str:
        """Gives the group that the offset belongs to."""
        group, topic, partition = read_key(record.key)
        value = record.value
        if value is None:
            self._remove(group, topic, partition)
            return group
        check_value(value)
        if producer is None:
            self._commit(group, topic, partition, value)
            if self.pending:
                self._overtake(group, TopicPartition(topic, partition))
        else:
            self._order += 1
            pending = self.pending.setdefault(producer.producer_id, {}).setdefault(group, {})
            pending[TopicPartition(topic, partition)] = PendingOffset(value, self._order)
            self.readers.setdefault(topic, set()).add(group)
        return group

    def replay_end_of_transaction(self, producer_id: int, is_committed: bool) -> None:
        groups = self.pending.pop(producer_id, {})
        if not is_committed:
            return
        for group, offsets in groups.items():
            for partition, pending in offsets.items():
                if not pending.is_overtaken:
                    self._commit(group, *partition, pending.value)
                    self._overtake(group, partition, pending.order)

    def commit(self, group: str, offsets: TopicOffsets) -> None:
        """What replaying their records, outside of transactions, would do."""
        for topic, partitions in offsets.items():
            self._of(group, topic).update(partitions)
            if self.pending:
                for partition in partitions:
                    self._overtake(group, TopicPartition(topic, partition))

    def commit_in_transaction(self, producer_id: int, group: str, offsets: TopicOffsets) -> None:
        """What replaying their records, in this producer's transaction, would do."""
        pending = self.pending.setdefault(producer_id, {}).setdefault(group, {})
        for topic, partitions in offsets.items():
            first, self._order = self._order + 1, self._order + len(partitions)
            pending.update(
                (TopicPartition(topic, partition), PendingOffset(value, order))
                for order, (partition, value) in enumerate(partitions.items(), first)
            )
            self.readers.setdefault(topic, set()).add(group)

    def _commit(self, group: str, topic: str, partition: int, value: bytes) -> None:
        self._of(group, topic)[partition] = value

    def _of(self, group: str, topic: str) -> dict[int, bytes]:
        topics = self.committed.get(group)
        if topics is None:
            topics = self.committed[group] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
            self.readers.setdefault(topic, set()).add(group)
        return partitions

    def _overtake(self, group: str, partition: TopicPartition, order: int | None = None) -> None:
        """Of several commits of a partition the last written counts, also if its transaction ends first."""
        for groups in self.pending.values():
            pending = groups.get(group, {}).get(partition)
            if pending is not None and (order is None or pending.order < order):
                pending.is_overtaken = True

    def _remove(self, group: str, topic: str, partition: int) -> None:
        self._heads.clear()
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
