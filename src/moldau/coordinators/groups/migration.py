"""Groups that change their protocol while they are used.

A classic group becomes a consumer group when the first member of the new protocol joins it; its classic members stay,
and are served by it. When the last member of the new protocol has gone, what is left becomes a classic group again.
Both only as far as `group.consumer.migration.policy` allows. A group without members changes with whoever joins it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from moldau.coordinators.groups.classic_group import ClassicGroup
from moldau.coordinators.groups.classic_member import Member, Protocol
from moldau.coordinators.groups.classic_records import group_record as classic_record
from moldau.coordinators.groups.classic_records import group_tombstone
from moldau.coordinators.groups.consumer_group import FIRST_EPOCH, ConsumerGroup
from moldau.coordinators.groups.consumer_member import (
    NO_TARGET,
    ClassicSide,
    ConsumerMember,
    OfferedProtocol,
    Target,
    partitions_of,
)
from moldau.coordinators.groups.consumer_record_forms import (
    assignment_record,
    group_record,
    group_tombstones,
    member_record,
    member_tombstones,
    progress_record,
    target_record,
)
from moldau.coordinators.groups.consumer_replay import replay_record
from moldau.coordinators.groups.consumer_sessions import ConsumerSessions
from moldau.coordinators.groups.embedded import read_assignment, read_subscription, write_assignment
from moldau.coordinators.groups.rebalance import Rebalances, dismiss
from moldau.coordinators.groups.subscriptions import hash_of
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import Reply, StateRecord, Write
from moldau.coordinators.record_codec import kind_of
from moldau.metadata.image import ClusterImage
from moldau.types.errors import ErrorCode

UPGRADES, DOWNGRADES = {"upgrade", "bidirectional"}, {"downgrade", "bidirectional"}


class Migration:
    def __init__(self, tables: GroupTables, rebalances: Rebalances, sessions: ConsumerSessions) -> None:
        self._tables = tables
        self._rebalances = rebalances
        self._sessions = sessions

    # --- to the consumer protocol ---

    def may_upgrade(self, group: ClassicGroup) -> bool:
        config = self._tables.config()
        return (
            config.group_consumer_migration_policy.lower() in UPGRADES
            and group.consumes
            and len(group.members) <= config.group_consumer_max_size
            and all(read_subscription(told_by(group, member)) is not None for member in group.members.values())
        )

    def upgraded(self, group: ClassicGroup) -> tuple[ConsumerGroup, list[StateRecord]]:
        """The group as a consumer group, apart from the tables, and the records that make it one."""
        image = self._tables.image()
        epoch = max(FIRST_EPOCH, group.generation)
        members = [as_consumer_member(group, member, epoch, image) for member in group.members.values()]
        topics = frozenset().union(*(member.topic_names for member in members))
        group_id = group.group_id
        records = [
            *(member_record(group_id, member) for member in members),
            group_record(group_id, epoch, hash_of(topics, image)),
            *(target_record(group_id, member.member_id, partitions_of(member.assigned)) for member in members),
            assignment_record(group_id, epoch, 0),
            *(progress_record(group_id, member) for member in members),
        ]
        apart = replace(self._tables, groups={})
        for record in records:
            replay_record(apart, kind_of(record.key), record)
        found = apart.groups[group_id]
        assert isinstance(found, ConsumerGroup)
        return found, [group_tombstone(group_id), *records]

    def leave_the_classic_group(self, group: ClassicGroup, now: float) -> list[Reply]:
        """Whoever waits is told to join again; time-outs are the consumer group's from now on."""
        turn = self._rebalances.turn(now)
        for member_id in tuple(group.pending_joins):
            self._rebalances.forget_pending(group, member_id)
        for timer in ("join", "sync"):
            self._tables.timers.cancel((timer, group.group_id))
        for member in group.members.values():
            dismiss(turn, group, member, ErrorCode.REBALANCE_IN_PROGRESS)
            self._rebalances.sessions.forget(group, member)
            self._sessions.expect(group.group_id, member.member_id, now + member.session_timeout_ms / 1000)
        return turn.replies

    # --- to the classic protocol ---

    def may_downgrade(self, remaining: Collection[ConsumerMember]) -> bool:
        config = self._tables.config()
        return (
            config.group_consumer_migration_policy.lower() in DOWNGRADES
            and 0 < len(remaining) <= config.group_max_size
            and all(member.classic is not None for member in remaining)
        )

    def downgrade(self, group: ConsumerGroup, remaining: Iterable[ConsumerMember], now: float) -> list[StateRecord]:
        """The records that make it a classic group, whose members join anew."""
        image = self._tables.image()
        classic = ClassicGroup(group.group_id, self._tables.wall_ms())
        classic.generation = group.epoch
        for member in remaining:
            target = group.targets.get(member.member_id, NO_TARGET)
            classic.add(as_classic_member(member, target, image), group.protocol_type)
        classic.protocol = classic.select_protocol()
        for member_id in group.members:
            self._sessions.forget(group.group_id, member_id)
        self._tables.timers.set(
            ("downgrade", group.group_id), now, lambda later: self._rebalance(group.group_id, later)
        )
        by_member = [member_tombstones(group.group_id, member_id) for member_id in group.members]
        of_the_group = group_tombstones(group.group_id, group.regexes)
        return [*(record for records in by_member for record in records), *of_the_group, classic_record(classic)]

    def _rebalance(self, group_id: str, now: float) -> Write[None]:
        group = self._tables.groups.get(group_id)
        turn = self._rebalances.turn(now)
        if isinstance(group, ClassicGroup) and group.members:
            for member in group.members.values():
                self._rebalances.sessions.expect(group, member, now)
            self._rebalances.prepare_or_complete(turn, group)
        return turn.write(None)


def told_by(group: ClassicGroup, member: Member) -> bytes:
    """Before the first generation there is no common protocol: then the member's favourite counts."""
    name = group.protocol if group.protocol is not None else member.protocols[0].name
    return member.metadata_of(name)


def as_consumer_member(group: ClassicGroup, member: Member, epoch: int, image: ClusterImage) -> ConsumerMember:
    subscription = read_subscription(told_by(group, member))
    return ConsumerMember(
        member.member_id,
        member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset() if subscription is None else subscription.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicSide(
            member.session_timeout_ms, tuple(OfferedProtocol(name, metadata) for name, metadata in member.protocols)
        ),
        epoch=epoch,
        previous_epoch=epoch,
        assigned={
            topic_id: dict.fromkeys(partitions, epoch)
            for topic_id, partitions in ids_of(read_assignment(member.assignment), image).items()
        },
    )


def as_classic_member(member: ConsumerMember, target: Target, image: ClusterImage) -> Member:
    assert member.classic is not None
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        [Protocol(name, metadata) for name, metadata in member.classic.protocols],
        assignment_bytes(member, target, image),
    )


def assignment_bytes(member: ConsumerMember, partitions: Mapping[UUID, Collection[int]], image: ClusterImage) -> bytes:
    """What a classic member is told of its partitions, in the version that it speaks."""
    version = 0
    if member.classic is not None and member.classic.protocols:
        subscription = read_subscription(member.classic.protocols[0].metadata)
        version = 0 if subscription is None else subscription.version
    return write_assignment(version, names_of(partitions, image))


def names_of(partitions: Mapping[UUID, Collection[int]], image: ClusterImage) -> Mapping[str, Collection[int]]:
    known = image.topics_by_id
    return {known[topic_id].name: indexes for topic_id, indexes in partitions.items() if topic_id in known}


def ids_of(partitions: Mapping[str, Collection[int]], image: ClusterImage) -> Mapping[UUID, Collection[int]]:
    return {image.topics[topic].id: indexes for topic, indexes in partitions.items() if topic in image.topics}
