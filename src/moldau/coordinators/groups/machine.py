"""The state of one partition of `__consumer_offsets`: groups of both protocols and their offsets.

The machine itself only sends each record and each operation to the part that knows it; all parts work on the same
tables, since a group may change its protocol and offsets belong to groups of either kind.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.groups.classic import ClassicGroups
from moldau.coordinators.groups.consumer import ConsumerGroups
from moldau.coordinators.groups.describe import Descriptions
from moldau.coordinators.groups.offset_commits import OffsetCommits, give_a_group
from moldau.coordinators.groups.offset_removal import OffsetRemoval
from moldau.coordinators.groups.records import RecordKind
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import NOT_IN_THE_LOG_YET, ProducerStamp, RecordContext, StateRecord, Timers
from moldau.coordinators.record_codec import kind_of
from moldau.metadata.image import ClusterImage

CONSUMER_KINDS = frozenset(kind for kind in RecordKind if kind >= RecordKind.CONSUMER_GROUP_METADATA)

#: Both have the same fields.
OFFSET_KINDS = frozenset((b"\x00\x00", b"\x00\x01"))


class GroupMachine:
    """Implements Machine."""

    def __init__(
        self,
        partition: int,
        timers: Timers,
        config: Callable[[], BrokerConfig],
        image: Callable[[], ClusterImage],
        wall_ms: Callable[[], int],
        new_uuid: Callable[[], UUID],
    ) -> None:
        self.partition = partition
        self.tables = GroupTables(timers, config, image, wall_ms, new_uuid)
        self.classic = ClassicGroups(self.tables)
        self.consumer = ConsumerGroups(self.tables, self.classic.rebalances)
        self.classic.bridge = self.consumer.classic_members
        self.offsets = OffsetCommits(self.tables, self.classic.rebalances.sessions)
        self.removal = OffsetRemoval(self.tables)
        self.descriptions = Descriptions(self.tables)

    # --- Machine ---

    def replay(self, record: StateRecord, context: RecordContext) -> None:
        kind = kind_of(record.key)
        if 0 <= kind <= RecordKind.OFFSET_COMMIT:
            group_id = self.tables.offsets.replay(record, context.producer)
            if context.offset == NOT_IN_THE_LOG_YET and record.value is not None:
                give_a_group(self.tables, group_id)
        elif kind == RecordKind.GROUP_METADATA:
            self.classic.replay(record, context)
        elif kind in CONSUMER_KINDS:
            self.consumer.replay(kind, record, context)
        # Share and streams groups, and what later releases write, are not ours to judge.

    def replay_plain(self, key: bytes, value: bytes | None) -> bool:
        return key[:2] in OFFSET_KINDS and self.tables.offsets.replay_plain(key, value)

    def replay_end_of_transaction(self, producer: ProducerStamp, committed: bool) -> None:
        self.tables.offsets.replay_end_of_transaction(producer.producer_id, committed)

    def loaded(self, now: float) -> None:
        for group_id in self.tables.offsets.groups():
            give_a_group(self.tables, group_id)
        self.classic.loaded(now)
        self.consumer.loaded(now)
        self.removal.loaded(now)

    def unloaded(self) -> None:
        self.classic.unloaded()
        self.consumer.unloaded()
