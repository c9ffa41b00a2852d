"""A member of a consumer group, as its records tell it: an immutable value."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

#: Partitions by topic id, each with the group's assignment epoch in which the member got it.
Held: TypeAlias = Mapping[UUID, Mapping[int, int]]
#: Partitions by topic id: what a member is meant to have in the end.
Target: TypeAlias = Mapping[UUID, frozenset[int]]
#: Partitions by topic id, as a member reports them.
Owned: TypeAlias = Mapping[UUID, Collection[int]]

NO_TARGET: Target = {}

JOINING_EPOCH = 0
LEAVING_EPOCH = -1
#: A static member that means to come back.
LEAVING_FOR_A_WHILE_EPOCH = -2


class MemberState(IntEnum):
    """As records number it."""

    STABLE = 0
    #: Must give partitions back before it may go on to the next epoch.
    UNREVOKED_PARTITIONS = 1
    #: Waits for partitions that other members still hold.
    UNRELEASED_PARTITIONS = 2


class OfferedProtocol(NamedTuple):
    """A way of assigning that a classic member names, with what it tells about itself."""

    name: str
    metadata: bytes


class ClassicSide(NamedTuple):
    """What is known of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    #: Empty if the member subscribes by names only.
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    epoch: int = JOINING_EPOCH
    previous_epoch: int = JOINING_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Held = field(default_factory=dict)
    revoking: Held = field(default_factory=dict)

    @property
    def is_away(self) -> bool:
        """A static member that left and means to come back: its place is kept until its session ends."""
        return self.epoch == LEAVING_FOR_A_WHILE_EPOCH

    def assignment_epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        for held in (self.assigned, self.revoking):
            epoch = held.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def holds_no_more_than(self, owned: Owned) -> bool:
        """Whether what the member reports is part of what it is assigned."""
        return all(set(partitions) <= self.assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items())


def partitions_of(held: Held) -> Target:
    return {topic_id: frozenset(partitions) for topic_id, partitions in held.items()}


def same_metadata(one: ConsumerMember, other: ConsumerMember) -> bool:
    """Whether both would be written as the same record of metadata."""
    return metadata_fields(one) == metadata_fields(other)


def metadata_fields(member: ConsumerMember) -> tuple[object, ...]:
    return (
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topic_names,
        member.topic_regex,
        member.rebalance_timeout_ms,
        member.assignor,
        member.classic,
    )


def same_progress(one: ConsumerMember, other: ConsumerMember) -> bool:
    """Whether both would be written as the same record of the current assignment."""
    return progress_fields(one) == progress_fields(other)


def progress_fields(member: ConsumerMember) -> tuple[object, ...]:
    return (member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking)
