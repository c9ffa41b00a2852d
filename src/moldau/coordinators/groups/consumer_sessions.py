"""Whether members of consumer groups are still there, and give their partitions back in time.

A heartbeat moves a number and nothing else; the timer, when it fires, sees it and is armed for the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moldau.coordinators.machine import Timers, Write

NEVER = float("inf")

Lost = Callable[[str, str, float], Write[None]]


@dataclass(slots=True)
class Session:
    deadline: float
    armed_for: float = NEVER


class ConsumerSessions:
    def __init__(self, timers: Timers, expired: Lost, did_not_revoke: Lost) -> None:
        self._timers = timers
        self._expired = expired
        self._did_not_revoke = did_not_revoke
        self._sessions: dict[tuple[str, str], Session] = {}
        self._revocations: set[tuple[str, str]] = set()

    def expect(self, group_id: str, member_id: str, deadline: float) -> None:
        """The member was heard of: its session lasts until then."""
        who = (group_id, member_id)
        session = self._sessions.get(who)
        if session is None:
            session = self._sessions[who] = Session(deadline)
        session.deadline = deadline
        if deadline < session.armed_for:
            self._arm(who, session)

    def forget(self, group_id: str, member_id: str) -> None:
        who = (group_id, member_id)
        if self._sessions.pop(who, None) is not None:
            self._timers.cancel(("consumer session", *who))
        self.revoked(group_id, member_id)

    def _arm(self, who: tuple[str, str], session: Session) -> None:
        session.armed_for = session.deadline
        self._timers.set(("consumer session", *who), session.deadline, lambda now: self._look(who, session, now))

    def _look(self, who: tuple[str, str], session: Session, now: float) -> Write[None]:
        session.armed_for = NEVER
        if self._sessions.get(who) is not session:
            return Write(None)
        if now < session.deadline:
            self._arm(who, session)
            return Write(None)
        return self._expired(*who, now)

    # --- giving partitions back ---

    def expect_revocation(self, group_id: str, member_id: str, deadline: float) -> None:
        """The first deadline counts: a member does not get more time by asking again."""
        who = (group_id, member_id)
        if who in self._revocations:
            return
        self._revocations.add(who)

        def look(now: float) -> Write[None]:
            self._revocations.discard(who)
            return self._did_not_revoke(*who, now)

        self._timers.set(("consumer revocation", *who), deadline, look)

    def revoked(self, group_id: str, member_id: str) -> None:
        who = (group_id, member_id)
        if who in self._revocations:
            self._revocations.discard(who)
            self._timers.cancel(("consumer revocation", *who))
