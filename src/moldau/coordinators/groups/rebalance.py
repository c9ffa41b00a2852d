"""How a classic group gets from one generation to the next: who is waited for, how long, and who is left behind."""

from __future__ import annotations

from moldau.coordinators.groups.classic_group import SETTLED, ClassicGroup, GroupState
from moldau.coordinators.groups.classic_member import Member
from moldau.coordinators.groups.classic_records import group_record
from moldau.coordinators.groups.sessions import Sessions
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.groups.turn import Turn
from moldau.coordinators.machine import Write
from moldau.types.errors import ErrorCode
from moldau.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from moldau.wire.messages.sync_group import SyncGroupResponse

#: A new member that waits sends no heartbeats, and may have gone unseen: it is given up after this time.
NEW_MEMBER_SECONDS = 300.0


class Rebalances:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables
        self.sessions = Sessions(tables.timers, self._session_expired)

    def turn(self, now: float) -> Turn:
        return Turn(now, self._tables.wall_ms())

    # --- members come and go ---

    def admit(self, turn: Turn, group: ClassicGroup, member: Member, kind: str) -> None:
        """A member that was not in the group; it waits already."""
        if group.state is GroupState.PREPARING_REBALANCE and group.is_initial:
            group.joined_meanwhile = True
        self.forget_pending(group, member.member_id)
        group.add(member, kind)
        self.sessions.expect_within(group, member, turn.now, NEW_MEMBER_SECONDS)
        self.prepare_or_complete(turn, group)

    def expect_return(self, turn: Turn, group: ClassicGroup, member_id: str, seconds: float) -> None:
        """A new member was told its id and shall join again with it."""
        group.pending_joins.add(member_id)
        self._tables.timers.set(
            ("pending", group.group_id, member_id),
            turn.now + seconds,
            lambda now: self._not_back(group, member_id, now),
        )

    def forget_pending(self, group: ClassicGroup, member_id: str) -> None:
        if member_id in group.pending_joins:
            group.pending_joins.remove(member_id)
            self._tables.timers.cancel(("pending", group.group_id, member_id))

    def expel(self, turn: Turn, group: ClassicGroup, member: Member) -> None:
        """Removes a member; the caller lets the group go on."""
        dismiss(turn, group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        self.sessions.forget(group, member)
        group.remove(member)

    def go_on_without(self, turn: Turn, group: ClassicGroup) -> None:
        """Members have left: the others share what they had."""
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(turn, group)
        elif group.state is GroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(turn, group)

    # --- the joining phase ---

    def prepare_or_complete(self, turn: Turn, group: ClassicGroup) -> None:
        if group.state in SETTLED:
            self.prepare(turn, group)
        else:
            self.complete_if_all_joined(turn, group)

    def prepare(self, turn: Turn, group: ClassicGroup) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if member.sync is not None:
                    refuse_sync(turn, member, ErrorCode.REBALANCE_IN_PROGRESS)
                    # While it waited its session may have ended without consequence.
                    self.sessions.expect(group, member, turn.now)
        self._tables.timers.cancel(("sync", group.group_id))
        group.pending_syncs.clear()
        group.is_initial = group.is_empty
        group.joined_meanwhile = False
        group.change_to(GroupState.PREPARING_REBALANCE, turn.now_ms)
        if group.is_initial:
            delay = self._tables.config().group_initial_rebalance_delay_ms / 1000
            remaining = max(group.rebalance_timeout_ms / 1000 - delay, 0.0)
            self._wait_for_the_first(group, turn.now, delay, remaining)
        elif group.all_have_joined:
            self.complete(turn, group)
        else:
            self._wait_for_joins(turn, group)

    def complete_if_all_joined(self, turn: Turn, group: ClassicGroup) -> None:
        if group.state is GroupState.PREPARING_REBALANCE and not group.is_initial and group.all_have_joined:
            self.complete(turn, group)

    def complete(self, turn: Turn, group: ClassicGroup) -> None:
        """Nobody is waited for any longer. Static members that are late stay: their sessions decide about them."""
        self._tables.timers.cancel(("join", group.group_id))
        for member in [each for each in group.members.values() if each.join is None and not each.is_static]:
            self.expel(turn, group, member)
        if group.members and not group.elect_leader():
            self._wait_for_joins(turn, group)
            return
        group.is_initial = False
        group.begin_generation(turn.now_ms)
        if group.is_empty:
            turn.records.append(group_record(group))
            return
        timeout = group.rebalance_timeout_ms / 1000
        generation = group.generation
        self._tables.timers.set(
            ("sync", group.group_id), turn.now + timeout, lambda now: self._sync_time_up(group, generation, now)
        )
        for member in group.members.values():
            turn.answer(group.end_join(member), joined(group, member))
            member.is_new = False
            self.sessions.expect(group, member, turn.now)
            group.pending_syncs.add(member.member_id)

    # --- time-outs ---

    def _wait_for_the_first(self, group: ClassicGroup, now: float, delay: float, remaining: float) -> None:
        def over(now: float) -> Write[None]:
            turn = self.turn(now)
            if group.joined_meanwhile and remaining > 0:
                group.joined_meanwhile = False
                base = self._tables.config().group_initial_rebalance_delay_ms / 1000
                self._wait_for_the_first(group, now, min(base, remaining), max(remaining - delay, 0.0))
            else:
                self.complete(turn, group)
            return turn.write(None)

        self._tables.timers.set(("join", group.group_id), now + delay, over)

    def _wait_for_joins(self, turn: Turn, group: ClassicGroup) -> None:
        def time_up(now: float) -> Write[None]:
            late = self.turn(now)
            self.complete(late, group)
            return late.write(None)

        self._tables.timers.set(("join", group.group_id), turn.now + group.rebalance_timeout_ms / 1000, time_up)

    def _sync_time_up(self, group: ClassicGroup, generation: int, now: float) -> Write[None]:
        turn = self.turn(now)
        if group.generation == generation and group.pending_syncs:
            for member_id in tuple(group.pending_syncs):
                self.expel(turn, group, group.members[member_id])
            self.go_on_without(turn, group)
        return turn.write(None)

    def _session_expired(self, group: ClassicGroup, member: Member, now: float) -> Write[None]:
        turn = self.turn(now)
        self.expel(turn, group, member)
        self.go_on_without(turn, group)
        return turn.write(None)

    def _not_back(self, group: ClassicGroup, member_id: str, now: float) -> Write[None]:
        turn = self.turn(now)
        group.pending_joins.discard(member_id)
        self.complete_if_all_joined(turn, group)
        return turn.write(None)


def joined(group: ClassicGroup, member: Member) -> JoinGroupResponse:
    """What a member learns of its generation; the leader also learns of the others."""
    is_leader = group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.kind,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=described_members(group) if is_leader else (),
    )


def described_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata_of(group.protocol),
        )
        for member in group.members.values()
    ]


def dismiss(turn: Turn, group: ClassicGroup, member: Member, error: ErrorCode) -> None:
    """Tells a member that waits that it waits in vain."""
    turn.answer(group.end_join(member), JoinGroupResponse(error_code=error))
    refuse_sync(turn, member, error)


def refuse_sync(turn: Turn, member: Member, error: ErrorCode) -> None:
    waiting, member.sync = member.sync, None
    turn.answer(waiting, SyncGroupResponse(error_code=error))
