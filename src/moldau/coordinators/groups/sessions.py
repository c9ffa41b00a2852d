"""Whether members of classic groups are still there.

Heartbeats are the commonest request of all: one moves a number and nothing else. The member's timer, when it fires,
sees that the member was heard of and is armed for the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.coordinators.groups.classic_group import ClassicGroup
from moldau.coordinators.groups.classic_member import NEVER, Member
from moldau.coordinators.machine import Timers, Write

Expired = Callable[[ClassicGroup, Member, float], Write[None]]


class Sessions:
    def __init__(self, timers: Timers, expired: Expired) -> None:
        self._timers = timers
        self._expired = expired

    def expect(self, group: ClassicGroup, member: Member, now: float) -> None:
        """The member was heard of, or is told something that it must react to: its session begins anew."""
        self.expect_within(group, member, now, member.session_timeout_ms / 1000)

    def expect_within(self, group: ClassicGroup, member: Member, now: float, seconds: float) -> None:
        member.deadline = now + seconds
        if member.deadline < member.armed_for:
            self._arm(group, member)

    def forget(self, group: ClassicGroup, member: Member) -> None:
        member.deadline = member.armed_for = NEVER
        self._timers.cancel(session_of(group, member))

    def _arm(self, group: ClassicGroup, member: Member) -> None:
        member.armed_for = member.deadline
        self._timers.set(session_of(group, member), member.deadline, lambda now: self._look(group, member, now))

    def _look(self, group: ClassicGroup, member: Member, now: float) -> Write[None]:
        member.armed_for = NEVER
        if group.members.get(member.member_id) is not member or member.is_exempt_from_expiry:
            return Write(None)
        if now < member.deadline:
            self._arm(group, member)
            return Write(None)
        return self._expired(group, member, now)


def session_of(group: ClassicGroup, member: Member) -> object:
    return ("session", group.group_id, member.member_id)
