"""How offsets go: deleted by request, with their group, with their topic, or by age."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from uuid import UUID

from moldau.coordinators.groups.offset_codec import CommittedOffset, offset_tombstone
from moldau.coordinators.groups.tables import Group, GroupTables
from moldau.coordinators.machine import StateRecord, Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_TIMESTAMP, TopicPartition

#: So many offsets are looked at in one turn of the loop: a few milliseconds.
OFFSETS_PER_LOOK = 64


class OffsetRemoval:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables
        self.deleted_while_loading: dict[str, UUID] = {}

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> Write[list[ErrorCode]]:
        """OffsetDelete: one code for each partition, in their order."""
        group = self._find(group_id)
        group.check_offset_delete()
        records, codes = [], []
        for topic, index in partitions:
            if group.is_subscribed_to(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if self._exists(group_id, topic, index):
                records.append(offset_tombstone(group_id, topic, index))
        return Write(codes, records)

    def delete_group(self, group_id: str) -> Write[None]:
        group = self._find(group_id)
        group.check_delete()
        return Write(None, self._tombstones_of(group))

    def _tombstones_of(self, group: Group) -> list[StateRecord]:
        offsets = self._tables.offsets
        partitions = {partition: None for partition, _ in offsets.of_group(group.group_id)}
        partitions |= dict.fromkeys(offsets.pending_of(group.group_id))
        return [*(offset_tombstone(group.group_id, *partition) for partition in partitions), *group.tombstones()]

    def _find(self, group_id: str) -> Group:
        group = self._tables.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def _exists(self, group_id: str, topic: str, index: int) -> bool:
        offsets = self._tables.offsets
        return offsets.get(group_id, topic, index) is not None or offsets.is_pending(group_id, topic, index)

    # --- topics that are gone ---

    def topics_deleted(self, topics: Mapping[str, UUID], now: float) -> Write[None]:
        """Removes some of their offsets; whatever is left is removed by a timer, a batch at a time."""
        gone = (
            offset_tombstone(group_id, topic, index)
            for topic, topic_id in topics.items()
            for group_id, index in self._tables.offsets.of_topic(topic, topic_id)
        )
        records = list(islice(gone, OFFSETS_PER_LOOK))
        if len(records) == OFFSETS_PER_LOOK:
            name = ("deleted topics", frozenset(topics.values()))
            self._tables.timers.set(name, now, lambda later: self.topics_deleted(topics, later))
        return Write(None, records)

    # --- age ---

    def loaded(self, now: float) -> None:
        if self.deleted_while_loading:
            deleted = self.deleted_while_loading
            self._tables.timers.set("deleted topics", now, lambda later: self.topics_deleted(deleted, later))
        self._watch(now)

    def _watch(self, now: float) -> None:
        """Looks for expired offsets now and then."""
        self._look_again(now + self._tables.config().offsets_retention_check_interval_ms / 1000, None)

    def _look_again(self, at: float, rest: Iterator[str] | None) -> None:
        self._tables.timers.set("expiry", at, lambda now: self._look(now, rest))

    def _look(self, now: float, rest: Iterator[str] | None) -> Write[None]:
        """A part of all groups; what is left is for the next turn."""
        if rest is None:
            rest = iter(tuple(self._tables.groups))
        records: list[StateRecord] = []
        seen = 0
        for group_id in rest:
            group = self._tables.groups.get(group_id)
            if group is not None:
                looked_at, expired = self._expired_of(group)
                records += expired
                seen += looked_at + 1
            if seen >= OFFSETS_PER_LOOK:
                has_more = len(records) >= OFFSETS_PER_LOOK
                self._look_again(now, chain([group_id], rest) if has_more else rest)
                return Write(None, records)
        self._watch(now)
        return Write(None, records)

    def _expired_of(self, group: Group) -> tuple[int, list[StateRecord]]:
        """How many offsets were looked at, and what removes the expired ones, or some of them if they are many; with
        the last offset goes the group, if it is empty."""
        pending = self._tables.offsets.pending_of(group.group_id)
        now_ms = self._tables.wall_ms()
        looked_at = 0
        records: list[StateRecord] = []
        for partition, offset in self._tables.offsets.of_group(group.group_id):
            looked_at += 1
            if partition not in pending and self._is_expired(group, partition.topic, offset, now_ms):
                records.append(offset_tombstone(group.group_id, *partition))
                if len(records) == OFFSETS_PER_LOOK:
                    return looked_at, records
        if len(records) == looked_at and not pending and group.is_empty:
            records += group.tombstones()
        return looked_at, records

    def _is_expired(self, group: Group, topic: str, offset: CommittedOffset, now_ms: int) -> bool:
        since = group.offsets_expire_from(offset.commit_timestamp)
        if since is None or group.is_subscribed_to(topic):
            return False
        if offset.expire_timestamp != NO_TIMESTAMP:
            return now_ms >= offset.expire_timestamp
        return now_ms - since >= self._tables.config().offsets_retention_minutes * 60_000
