"""Committed offsets, and those that wait for the end of their transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from moldau.coordinators.groups.offset_codec import CommittedOffset, read_key, read_value
from moldau.coordinators.machine import ProducerStamp, StateRecord
from moldau.types.ids import TopicPartition


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
            waiting = {
                partition.partition
                for groups in self.pending.values()
                for partition, pending in groups.get(group, {}).items()
                if partition.topic == topic and not pending.offset.is_of_another_topic(topic_id)
            }
            # There may be thousands, and whoever asks may want a few.
            for index in sorted(found.keys() | waiting):
                if index in waiting or not found[index].is_of_another_topic(topic_id):
                    yield group, index

    def groups(self) -> set[str]:
        """Whoever has an offset, pending ones included."""
        return set(self.committed).union(*self.pending.values())

    # --- replay ---

    def replay(self, record: StateRecord, producer: ProducerStamp | None) -> str:
        """Gives the group that the offset belongs to."""
        group, topic, partition = read_key(record.key)
        offset = read_value(record.value)
        if offset is None:
            self._remove(group, topic, partition)
        elif producer is None:
            self._commit(group, topic, partition, offset)
            if self.pending:
                self._overtake(group, TopicPartition(topic, partition))
        else:
            self._order += 1
            pending = self.pending.setdefault(producer.producer_id, {}).setdefault(group, {})
            pending[TopicPartition(topic, partition)] = PendingOffset(offset, self._order)
            self.readers.setdefault(topic, set()).add(group)
        return group

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
