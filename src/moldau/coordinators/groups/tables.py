"""What the parts of a group machine share: the groups by name, the offsets, and what is passed in from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.groups.offsets import OffsetTable
from moldau.coordinators.machine import StateRecord, Timers
from moldau.metadata.image import ClusterImage


class GroupType(Enum):
    """With the names that clients see."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class CommittedPartition(Protocol):
    """A partition that an offset is committed for."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partition(self) -> int: ...


class Group(Protocol):
    """What every kind of group answers, whoever asks: commits, deletions, lists."""

    group_id: str

    @property
    def group_type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As ListGroups and the describing requests name it."""

    @property
    def protocol_type(self) -> str: ...

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        api_version: int,
        is_transactional: bool,
        partitions: Iterable[CommittedPartition] = (),
    ) -> None:
        """May this member commit offsets of these at this generation or member epoch? Raises KafkaError if not."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """May this member fetch offsets? Raises KafkaError if not."""

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP (or what else Kafka says) if the group cannot be deleted now."""

    def check_offset_delete(self) -> None:
        """Raises NON_EMPTY_GROUP if nobody may delete offsets of the group now."""

    @property
    def member_count(self) -> int: ...

    @property
    def is_empty(self) -> bool:
        """It has no members."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Offsets of such topics neither expire nor may be deleted."""

    def offsets_expire_from(self, commit_timestamp: int) -> int | None:
        """The time from which the retention of an offset counts; None while it may not expire."""

    def tombstones(self) -> Sequence[StateRecord]:
        """What removes the group, without its offsets."""


@dataclass(slots=True)
class GroupTables:
    timers: Timers
    config: Callable[[], BrokerConfig]
    image: Callable[[], ClusterImage]
    wall_ms: Callable[[], int]
    new_uuid: Callable[[], UUID]
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: OffsetTable = field(default_factory=OffsetTable)
