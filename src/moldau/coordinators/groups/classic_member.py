"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.coordinators.deferred import Deferred
from moldau.wire.messages.join_group import JoinGroupResponse
from moldau.wire.messages.sync_group import SyncGroupResponse

NEVER = float("inf")


class Protocol(NamedTuple):
    """A way of assigning that a member offers, with what the member tells the leader about itself."""

    name: str
    metadata: bytes


@dataclass(slots=True, eq=False)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Sequence[Protocol]
    assignment: bytes = b""
    #: Has not been told its first generation yet.
    is_new: bool = False
    #: The JoinGroup request that waits for the generation to be complete.
    join: Deferred[JoinGroupResponse] | None = None
    #: The SyncGroup request that waits for the leader's assignment.
    sync: Deferred[SyncGroupResponse] | None = None
    #: When the member counts as dead unless it is heard of, and when its timer looks; monotonic seconds. A heartbeat
    #: moves only the first: the timer, when it fires, is armed again for the rest.
    deadline: float = field(default=NEVER)
    armed_for: float = field(default=NEVER)

    @property
    def is_waiting(self) -> bool:
        return self.join is not None or self.sync is not None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_exempt_from_expiry(self) -> bool:
        """Whoever waits for the group cannot send heartbeats. A new member that waits may have gone unseen."""
        return self.is_waiting and not self.is_new

    def metadata_of(self, protocol: str | None) -> bytes:
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def offers_the_same(self, protocols: Sequence[Protocol]) -> bool:
        return list(self.protocols) == list(protocols)

    def vote(self, candidates: set[str]) -> str:
        """The first of its protocols that is a candidate."""
        return next(offered.name for offered in self.protocols if offered.name in candidates)
