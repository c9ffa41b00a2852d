"""Groups of the consumer protocol (KIP-848): their requests, what happens to them in time, and their records read
back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from moldau.coordinators.groups.classic_bridge import ClassicBridge, is_behind
from moldau.coordinators.groups.classic_group import ClassicGroup
from moldau.coordinators.groups.classic_joins import Client
from moldau.coordinators.groups.classic_records import group_tombstone
from moldau.coordinators.groups.consumer_describe import describe
from moldau.coordinators.groups.consumer_draft import Draft
from moldau.coordinators.groups.consumer_group import ConsumerGroup, not_a_member
from moldau.coordinators.groups.consumer_heartbeat import Heartbeats, check_static, session_seconds
from moldau.coordinators.groups.consumer_member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_FOR_A_WHILE_EPOCH,
    ConsumerMember,
    Held,
    MemberState,
)
from moldau.coordinators.groups.consumer_regexes import Regexes
from moldau.coordinators.groups.consumer_replay import replay_record
from moldau.coordinators.groups.consumer_sessions import ConsumerSessions
from moldau.coordinators.groups.consumer_settings import ConsumerSettings
from moldau.coordinators.groups.migration import Migration
from moldau.coordinators.groups.rebalance import Rebalances
from moldau.coordinators.groups.subscriptions import FULL_SIGHT, Sight
from moldau.coordinators.groups.tables import Group, GroupTables
from moldau.coordinators.machine import RecordContext, StateRecord, Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.consumer_group_describe import DescribedGroup
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerGroups:
    def __init__(self, tables: GroupTables, rebalances: Rebalances) -> None:
        self._tables = tables
        self.sessions = ConsumerSessions(tables.timers, self._expired, self._did_not_catch_up)
        self._regexes = Regexes(tables)
        self._heartbeats = Heartbeats(tables, self.sessions)
        self._migration = Migration(tables, rebalances, self.sessions)
        self.classic_members = ClassicBridge(tables, self.sessions, self._heartbeats, self._removal)

    # --- requests ---

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now: float, sight: Sight = FULL_SIGHT
    ) -> Write[ConsumerGroupHeartbeatResponse]:
        if request.member_epoch in (LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH):
            return self._leave(request, now)
        known = self._tables.groups.get(request.group_id)
        group, records = self._group_for(request, known)
        write = self._heartbeats.beat(group, request, client, now)
        self._regexes.refresh_if_needed(group, request.subscribed_topic_regex, sight, now)
        if records:
            write.records = [*records, *write.records]
        if isinstance(known, ClassicGroup):
            write.replies = self._migration.leave_the_classic_group(known, now)
        return write

    def _group_for(
        self, request: ConsumerGroupHeartbeatRequest, known: Group | None
    ) -> tuple[ConsumerGroup, list[StateRecord]]:
        """The group, which is new if its first member joins, and the records that make it of what was there."""
        group_id = request.group_id
        if isinstance(known, ConsumerGroup):
            return known, []
        is_joining = request.member_epoch == JOINING_EPOCH
        if known is None:
            if not is_joining:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
            return ConsumerGroup(group_id), []
        if is_joining and isinstance(known, ClassicGroup):
            if known.is_empty:
                return ConsumerGroup(group_id), [] if known.is_simple else [group_tombstone(group_id)]
            if self._migration.may_upgrade(known):
                return self._migration.upgraded(known)
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def find(self, group_id: str) -> ConsumerGroup:
        group = self._tables.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def describe(self, group_id: str) -> DescribedGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        return describe(self.find(group_id), self._tables.config(), self._tables.image())

    def _leave(self, request: ConsumerGroupHeartbeatRequest, now: float) -> Write[ConsumerGroupHeartbeatResponse]:
        group = self.find(request.group_id)
        member_id, instance_id = request.member_id, request.instance_id
        if instance_id is not None:
            check_static(group.static_member(instance_id), member_id, instance_id, is_joining=False)
        member = group.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, not_a_member(member_id, group.group_id))
        answer = ConsumerGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch)
        if request.member_epoch == LEAVING_EPOCH:
            return Write(answer, self._removal(group, [member], now))
        return Write(answer, self._go_away(group, member).records)

    def _go_away(self, group: ConsumerGroup, member: ConsumerMember) -> Draft:
        """A static member keeps its place until its session, which runs on, is over."""
        draft = Draft(group, self._tables.image())
        draft.progress(
            replace(
                member,
                epoch=LEAVING_FOR_A_WHILE_EPOCH,
                state=MemberState.STABLE,
                assigned=without_history(member.assigned),
                revoking={},
            )
        )
        self.sessions.revoked(group.group_id, member.member_id)
        return draft

    def _removal(self, group: ConsumerGroup, leaving: list[ConsumerMember], now: float) -> list[StateRecord]:
        draft = Draft(group, self._tables.image())
        for member in leaving:
            draft.remove(member)
            self.sessions.forget(group.group_id, member.member_id)
        remaining = draft.members().values()
        if self._migration.may_downgrade(remaining):
            return self._migration.downgrade(group, remaining, now)
        for regex in {member.topic_regex for member in leaving}:
            draft.drop_unused_regex(regex)
        draft.bump_if(True)
        return draft.records

    # --- time ---

    def _expired(self, group_id: str, member_id: str, now: float) -> Write[None]:
        return self._expel(group_id, member_id, now, lambda group, member: True)

    def _did_not_catch_up(self, group_id: str, member_id: str, now: float) -> Write[None]:
        return self._expel(group_id, member_id, now, is_late)

    def _expel(
        self, group_id: str, member_id: str, now: float, is_due: Callable[[ConsumerGroup, ConsumerMember], bool]
    ) -> Write[None]:
        group = self._tables.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return Write(None)
        member = group.members.get(member_id)
        if member is None or not is_due(group, member):
            return Write(None)
        return Write(None, self._removal(group, [member], now))

    # --- Machine ---

    def replay(self, kind: int, record: StateRecord, context: RecordContext) -> None:
        """A record of one of the kinds of consumer groups."""
        replay_record(self._tables, kind, record)

    def loaded(self, now: float) -> None:
        """Everybody gets a whole session to be heard of again."""
        for group in tuple(self._tables.groups.values()):
            if not isinstance(group, ConsumerGroup):
                continue
            settings = ConsumerSettings(group.group_id, self._tables.config(), self._tables.image())
            for member in group.members.values():
                deadline = now + session_seconds(member, settings)
                self.sessions.expect(group.group_id, member.member_id, deadline)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    deadline = now + member.rebalance_timeout_ms / 1000
                    self.sessions.expect_revocation(group.group_id, member.member_id, deadline)

    def unloaded(self) -> None:
        """Nobody waits: heartbeats are answered at once."""


def is_late(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """It has not given back its partitions, or, as a classic member, has not joined again."""
    is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
    return is_revoking or (member.classic is not None and is_behind(group, member))


def without_history(held: Held) -> Held:
    """Who comes back does not know in which epoch it got a partition: as good as from the beginning."""
    return {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in held.items()}
