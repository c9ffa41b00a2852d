"""Groups of the classic protocol: their requests, and their records read back."""

from __future__ import annotations

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.classic_bridge import ClassicBridge
from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.classic_joins import Client, Joins
from moldau.coordinators.groups.classic_member import Member, Protocol
from moldau.coordinators.groups.classic_records import group_record
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.rebalance import Rebalances
from moldau.coordinators.groups.records import GroupMetadataKey, GroupMetadataValue
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.groups.turn import Turn
from moldau.coordinators.machine import NOT_IN_THE_LOG_YET, RecordContext, StateRecord, Write
from moldau.coordinators.record_codec import decode_key, decode_value
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

#: Members of records before version 1 have no rebalance time-out of their own.
UNKNOWN_TIMEOUT = -1


class ClassicGroups:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables
        self.rebalances = Rebalances(tables)
        self._joins = Joins(tables, self.rebalances)
        self.bridge: ClassicBridge | None = None
        """Serves classic members of consumer groups; the machine that has both kinds sets it."""

    # --- requests ---

    def join(self, request: JoinGroupRequest, client: Client, api_version: int, now: float) -> Write[JoinGroupResponse]:
        group, bridge = self._consumer_group(request.group_id)
        if group is None or bridge is None:
            return self._joins.join(request, client, api_version, now)
        if not group.is_empty:
            return bridge.join(group, request, client, api_version, now)
        return self._join_in_place_of(group, request, client, api_version, now)

    def _join_in_place_of(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: Client, api_version: int, now: float
    ) -> Write[JoinGroupResponse]:
        """A consumer group that everybody has left makes room for a classic one."""
        del self._tables.groups[group.group_id]
        try:
            write = self._joins.join(request, client, api_version, now)
        except KafkaError:
            self._tables.groups[group.group_id] = group
            raise
        write.records = [*group.tombstones(), *write.records]
        return write

    def _consumer_group(self, group_id: str) -> tuple[ConsumerGroup | None, ClassicBridge | None]:
        group = self._tables.groups.get(group_id)
        return (group, self.bridge) if isinstance(group, ConsumerGroup) else (None, None)

    def sync(self, request: SyncGroupRequest, now: float) -> Write[SyncGroupResponse]:
        consumer_group, bridge = self._consumer_group(request.group_id)
        if consumer_group is not None and bridge is not None:
            return bridge.sync(consumer_group, request, now)
        group = self._find(request.group_id)
        group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        differs = request.protocol_type not in (None, group.kind) or request.protocol_name not in (None, group.protocol)
        if differs:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member = group.members[request.member_id]
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.discard(member.member_id)
        if group.state is GroupState.STABLE:
            self.rebalances.sessions.expect(group, member, now)
            return Write(synced(group, member.assignment))
        return self._sync_when_assigned(group, member, request, now)

    def _sync_when_assigned(
        self, group: ClassicGroup, member: Member, request: SyncGroupRequest, now: float
    ) -> Write[SyncGroupResponse]:
        turn = self.rebalances.turn(now)
        answer: Deferred[SyncGroupResponse] = Deferred()
        turn.answer(member.sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync = answer
        if member.member_id == group.leader:
            given = {each.member_id: bytes(each.assignment) for each in request.assignments}
            turn.records.append(group_record(group, given, turn.now_ms))
            for each in group.members.values():
                waiting, each.sync = each.sync, None
                if waiting is not None:
                    turn.answer(waiting, synced(group, given.get(each.member_id, b"")))
                    self.rebalances.sessions.expect(group, each, now)
        return turn.write(answer)

    def heartbeat(self, request: HeartbeatRequest, now: float) -> Write[ErrorCode]:
        consumer_group, bridge = self._consumer_group(request.group_id)
        if consumer_group is not None and bridge is not None:
            return bridge.heartbeat(consumer_group, request, now)
        group = self._find(request.group_id)
        group.check_member(request.member_id, request.group_instance_id)
        group.check_generation(request.generation_id)
        self.rebalances.sessions.expect(group, group.members[request.member_id], now)
        is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
        return Write(ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE)

    def leave(self, request: LeaveGroupRequest, now: float) -> Write[list[MemberResponse]]:
        consumer_group, bridge = self._consumer_group(request.group_id)
        if consumer_group is not None and bridge is not None:
            return bridge.leave(consumer_group, request, now)
        group = self._find(request.group_id)
        turn = self.rebalances.turn(now)
        answers = []
        have_left = False
        for identity in request.members:
            try:
                self._remove(turn, group, identity)
                have_left, error = True, ErrorCode.NONE
            except KafkaError as refusal:
                error = refusal.code
            answers.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        if have_left:
            self.rebalances.go_on_without(turn, group)
        return turn.write(answers)

    def _remove(self, turn: Turn, group: ClassicGroup, identity: MemberIdentity) -> None:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id and instance_id is not None:
            # An administrator removes a static member, whose present id only the group knows.
            member_id = group.static_members.get(instance_id, "")
        if member_id in group.pending_joins:
            self.rebalances.forget_pending(group, member_id)
            return
        group.check_member(member_id, instance_id)
        self.rebalances.expel(turn, group, group.members[member_id])

    def _find(self, group_id: str) -> ClassicGroup:
        group = self._tables.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # --- Machine ---

    def replay(self, record: StateRecord, context: RecordContext) -> None:
        """A GroupMetadata record: a copy of the whole group. A group that lives here knows all of it but the assignment
        of its generation."""
        group_id = decode_key(GroupMetadataKey, record.key).group
        value = decode_value(GroupMetadataValue, record.value)
        known = self._tables.groups.get(group_id)
        if value is None:
            if isinstance(known, ClassicGroup):
                del self._tables.groups[group_id]
        elif context.offset == NOT_IN_THE_LOG_YET and isinstance(known, ClassicGroup):
            known.settle(value)
        else:
            self._tables.groups[group_id] = restored(group_id, value)

    def loaded(self, now: float) -> None:
        for group in self._groups():
            for member in group.members.values():
                self.rebalances.sessions.expect(group, member, now)
            if len(group.members) > self._tables.config().group_max_size:
                turn = self.rebalances.turn(now)
                # Nobody waits and nothing is written by this: the members learn of it from their heartbeats.
                self.rebalances.prepare(turn, group)

    def unloaded(self) -> None:
        error = KafkaError(ErrorCode.NOT_COORDINATOR)
        for group in self._groups():
            for member in group.members.values():
                waiting_join, waiting_sync = group.end_join(member), member.sync
                member.sync = None
                if waiting_join is not None:
                    waiting_join.fail(error)
                if waiting_sync is not None:
                    waiting_sync.fail(error)

    def _groups(self) -> list[ClassicGroup]:
        return [group for group in self._tables.groups.values() if isinstance(group, ClassicGroup)]


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.kind, protocol_name=group.protocol, assignment=assignment)


def restored(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup(group_id, value.current_state_timestamp)
    group.generation = value.generation
    group.kind = value.protocol_type or None
    group.protocol = value.protocol
    for each in value.members:
        session, rebalance = each.session_timeout, each.rebalance_timeout
        protocols = (Protocol(value.protocol or "", bytes(each.subscription)),)
        member = Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            session if rebalance == UNKNOWN_TIMEOUT else rebalance,
            session,
            protocols,
            bytes(each.assignment),
        )
        group.add(member, value.protocol_type)
    if value.members:
        group.state = GroupState.STABLE
    group.leader = value.leader
    group.read_subscriptions()
    return group
