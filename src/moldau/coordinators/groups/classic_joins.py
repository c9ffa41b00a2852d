"""JoinGroup: who may join a classic group, under which member id, and whether the group must rebalance for it."""

from __future__ import annotations

from typing import NamedTuple

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.classic_member import Member, Protocol
from moldau.coordinators.groups.classic_records import group_record, new_group_record
from moldau.coordinators.groups.rebalance import Rebalances, dismiss, joined
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.groups.turn import Turn
from moldau.coordinators.machine import Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_IS_REQUIRED_FROM = 4
SKIPS_ASSIGNMENT_FROM = 9


class Client(NamedTuple):
    """Whose request it is, as administrators see it."""

    client_id: str
    host: str


class Joining(NamedTuple):
    """A JoinGroup request with what belongs to it."""

    request: JoinGroupRequest
    client: Client
    api_version: int
    protocols: list[Protocol]
    answer: Deferred[JoinGroupResponse]

    @property
    def rebalance_timeout_ms(self) -> int:
        """Before version 1 there was one time-out for both."""
        request = self.request
        return request.session_timeout_ms if self.api_version == 0 else request.rebalance_timeout_ms


class Joins:
    def __init__(self, tables: GroupTables, rebalances: Rebalances) -> None:
        self._tables = tables
        self._rebalances = rebalances

    def join(self, request: JoinGroupRequest, client: Client, api_version: int, now: float) -> Write[JoinGroupResponse]:
        turn = self._rebalances.turn(now)
        protocols = [Protocol(each.name, bytes(each.metadata)) for each in request.protocols]
        joining = Joining(request, client, api_version, protocols, Deferred())
        group, is_new = self._find_or_create(request, turn)
        if not group.accepts(request.member_id, self._tables.config().group_max_size):
            self._turn_away(group, request.member_id, turn)
            turn.answer(joining.answer, JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
            return turn.write(joining.answer)
        group.check_protocols(request.protocol_type, protocols)
        if is_new:
            self._tables.groups[group.group_id] = group
            turn.records.append(new_group_record(group))
        if request.member_id:
            self._join_again(turn, group, joining)
        else:
            self._join_anew(turn, group, joining)
        return turn.write(joining.answer)

    def _find_or_create(self, request: JoinGroupRequest, turn: Turn) -> tuple[ClassicGroup, bool]:
        group = self._tables.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            return ClassicGroup(request.group_id, turn.now_ms), True
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return group, False

    def _turn_away(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        """The group is full. A member that is in, but has not joined this rebalance in time, loses its place."""
        self._rebalances.forget_pending(group, member_id)
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.expel(turn, group, member)
        self._rebalances.complete_if_all_joined(turn, group)

    # --- without a member id ---

    def _join_anew(self, turn: Turn, group: ClassicGroup, joining: Joining) -> None:
        request = joining.request
        instance_id = request.group_instance_id
        member_id = f"{joining.client.client_id if instance_id is None else instance_id}-{self._tables.new_uuid()}"
        if instance_id is not None:
            known = group.static_members.get(instance_id)
            if known is not None:
                self._replace(turn, group, group.members[known], member_id, joining)
                return
        elif joining.api_version >= MEMBER_ID_IS_REQUIRED_FROM:
            self._rebalances.expect_return(turn, group, member_id, request.session_timeout_ms / 1000)
            answer = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            turn.answer(joining.answer, answer)
            return
        self._admit(turn, group, member_id, joining)

    def _admit(self, turn: Turn, group: ClassicGroup, member_id: str, joining: Joining) -> None:
        request = joining.request
        member = Member(
            member_id,
            request.group_instance_id,
            *joining.client,
            joining.rebalance_timeout_ms,
            request.session_timeout_ms,
            joining.protocols,
            is_new=True,
        )
        group.begin_join(member, joining.answer)
        self._rebalances.admit(turn, group, member, request.protocol_type)

    def _replace(self, turn: Turn, group: ClassicGroup, member: Member, new_id: str, joining: Joining) -> None:
        """A static member started again: its older self is fenced, its place in the group stays as it was."""
        old_leader = group.leader
        dismiss(turn, group, member, ErrorCode.FENCED_INSTANCE_ID)
        self._rebalances.sessions.forget(group, member)
        group.replace(member, new_id)
        self._update(turn, group, member, joining)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
            turn.records.append(group_record(group))
            turn.answer(group.end_join(member), self._replaced(group, member, old_leader, joining.api_version))
        else:
            self._rebalances.prepare_or_complete(turn, group)

    def _replaced(
        self, group: ClassicGroup, member: Member, old_leader: str | None, api_version: int
    ) -> JoinGroupResponse:
        """The group goes on as it is: a leader that came back must not assign anew, since nobody would hear of it.
        From version 9 it is told so; before, the leader's old id makes it believe that another one leads."""
        answer = joined(group, member)
        if api_version < SKIPS_ASSIGNMENT_FROM:
            answer.leader = old_leader or ""
            answer.members = ()
        else:
            answer.skip_assignment = group.leader == member.member_id
        return answer

    # --- with a member id ---

    def _join_again(self, turn: Turn, group: ClassicGroup, joining: Joining) -> None:
        request = joining.request
        if request.member_id in group.pending_joins:
            self._admit(turn, group, request.member_id, joining)
            return
        group.check_member(request.member_id, request.group_instance_id)
        member = group.members[request.member_id]
        if self._must_rebalance(group, member, joining):
            self._update(turn, group, member, joining)
            self._rebalances.prepare_or_complete(turn, group)
        else:
            turn.answer(joining.answer, joined(group, member))

    def _must_rebalance(self, group: ClassicGroup, member: Member, joining: Joining) -> bool:
        """Not for a member that only missed its answer. The leader of a stable group asks for a new assignment."""
        if group.state is GroupState.PREPARING_REBALANCE or not member.offers_the_same(joining.protocols):
            return True
        return group.state is GroupState.STABLE and group.leader == member.member_id

    def _update(self, turn: Turn, group: ClassicGroup, member: Member, joining: Joining) -> None:
        request = joining.request
        group.offer(member, joining.protocols)
        member.rebalance_timeout_ms = joining.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.client_id, member.client_host = joining.client
        earlier = group.begin_join(member, joining.answer)
        turn.answer(earlier, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self._rebalances.sessions.expect(group, member, turn.now)
