"""A group of the classic protocol: who is in it, which generation it has reached, and what may be done to it.

    Empty ──join──► PreparingRebalance ──everybody joined, or time is up──► CompletingRebalance ──leader syncs──► Stable
      ▲                   │    ▲                                                  │                                │
      └───nobody is left──┘    └──────────────── join, leave, time-out ───────────┴────────────────────────────────┘

The changes of state that involve waiting and time are in `rebalance`; here are the rules that need neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.classic_member import Member, Protocol
from moldau.coordinators.groups.classic_records import group_tombstone
from moldau.coordinators.groups.classic_subscriptions import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from moldau.coordinators.groups.records import GroupMetadataValue
from moldau.coordinators.groups.tables import CommittedPartition, GroupType
from moldau.coordinators.machine import StateRecord
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_TIMESTAMP
from moldau.wire.messages.join_group import JoinGroupResponse


class GroupState(Enum):
    """With the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


#: States from which a rebalance can begin.
SETTLED = (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE)


class ClassicGroup:
    """Implements Group."""

    def __init__(self, group_id: str, since_ms: int = NO_TIMESTAMP) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        #: Wall time of the last change of state.
        self.since_ms = since_ms
        self.generation = 0
        self.kind: str | None = None
        """The type of protocol that its members speak; None until the first one joins."""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.pending_joins: set[str] = set()
        """Member ids that were given out and have not come back yet."""
        self.pending_syncs: set[str] = set()
        """Members that know the new generation and have not asked for their assignment yet."""
        self.joined_count = 0
        """How many members wait for the generation to be complete."""
        self._offered: Counter[str] = Counter()
        #: The rebalance under way began with nobody: it waits a while for more members.
        self.is_initial = False
        self.joined_meanwhile = False
        #: Empty while there are no members; None if a subscription cannot be read.
        self.subscribed_topics: frozenset[str] | None = frozenset()

    # --- Group ---

    @property
    def group_type(self) -> GroupType:
        return GroupType.CLASSIC

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return self.kind or ""

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Nobody ever joined: it exists because offsets were committed in its name."""
        return self.kind is None and self.is_empty and not self.pending_joins

    @property
    def consumes(self) -> bool:
        """Whether its members tell their subscriptions in the way of consumers."""
        return self.kind == CONSUMER_PROTOCOL_TYPE

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        api_version: int,
        is_transactional: bool,
        partitions: Iterable[CommittedPartition] = (),
    ) -> None:
        if generation < 0 and self.is_empty:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            self.check_generation(generation)
        elif not is_transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Members of classic groups are not asked who they are."""

    def check_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        if not self.is_empty and not self.consumes:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.consumes
        return topic in self.subscribed_topics

    def offsets_expire_from(self, commit_timestamp: int) -> int | None:
        if self.kind is None:
            return commit_timestamp
        if self.is_empty:
            return commit_timestamp if self.since_ms == NO_TIMESTAMP else self.since_ms
        knows_its_topics = self.consumes and self.subscribed_topics is not None
        return commit_timestamp if self.state is GroupState.STABLE and knows_its_topics else None

    def tombstones(self) -> Sequence[StateRecord]:
        return [group_tombstone(self.group_id)]

    # --- checks ---

    def check_member(self, member_id: str, instance_id: str | None) -> None:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def check_protocols(self, kind: str, protocols: Iterable[Protocol]) -> None:
        """Whether a member that offers these can work together with those who are here."""
        names = protocol_names(protocols)
        if self.is_empty:
            fits = bool(kind and names)
        else:
            fits = kind == self.kind and not names.isdisjoint(self.common_protocols())
        if not fits:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def accepts(self, member_id: str, max_size: int) -> bool:
        """Whether there is room; who is in already stays in."""
        if self.is_empty:
            return True
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING_REBALANCE:
            has_joined = member is not None and member.join is not None
            return has_joined or self.joined_count < max_size
        return member is not None or len(self.members) < max_size

    # --- members ---

    @property
    def all_have_joined(self) -> bool:
        return not self.pending_joins and self.joined_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def add(self, member: Member, kind: str) -> None:
        if not self.members:
            self.kind = kind
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._offered.update(protocol_names(member.protocols))
        self.pending_joins.discard(member.member_id)

    def remove(self, member: Member) -> None:
        """Whoever waits for this member's answers must have been told before."""
        del self.members[member.member_id]
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        self._offered.subtract(protocol_names(member.protocols))
        self.pending_syncs.discard(member.member_id)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, member: Member, new_id: str) -> None:
        """A static member came back under a new id: it keeps all it has."""
        old_id = member.member_id
        self.members[new_id] = self.members.pop(old_id)
        member.member_id = new_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(new_id)
        if self.leader == old_id:
            self.leader = new_id

    def offer(self, member: Member, protocols: Sequence[Protocol]) -> None:
        self._offered.subtract(protocol_names(member.protocols))
        member.protocols = protocols
        self._offered.update(protocol_names(protocols))

    def begin_join(self, member: Member, answer: Deferred[JoinGroupResponse]) -> Deferred[JoinGroupResponse] | None:
        """The member waits for the generation; gives an earlier request of it that waited."""
        earlier, member.join = member.join, answer
        if earlier is None:
            self.joined_count += 1
        return earlier

    def end_join(self, member: Member) -> Deferred[JoinGroupResponse] | None:
        waiting, member.join = member.join, None
        if waiting is not None:
            self.joined_count -= 1
        return waiting

    def elect_leader(self) -> bool:
        """Keeps the leader if it has joined, else takes a member that has; False if there is none."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.join is None:
            leader = next((member for member in self.members.values() if member.join is not None), None)
        if leader is None:
            return False
        self.leader = leader.member_id
        return True

    # --- protocols ---

    def common_protocols(self) -> set[str]:
        """What all members offer."""
        everybody = len(self.members)
        return {name for name, count in self._offered.items() if count == everybody}

    def select_protocol(self) -> str:
        """Each member votes for the first of its own that all have; the most votes win, then the first one seen."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # --- states ---

    def change_to(self, state: GroupState, now_ms: int) -> None:
        self.state = state
        self.since_ms = now_ms

    def begin_generation(self, now_ms: int) -> None:
        self.generation += 1
        if self.members:
            self.protocol = self.select_protocol()
            self.change_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol = None
            self.change_to(GroupState.EMPTY, now_ms)
        self.read_subscriptions()

    def settle(self, written: GroupMetadataValue) -> None:
        """The generation has its assignment."""
        for each in written.members:
            self.members[each.member_id].assignment = bytes(each.assignment)
        if written.members and self.state is not GroupState.STABLE:
            self.change_to(GroupState.STABLE, written.current_state_timestamp)

    def read_subscriptions(self) -> None:
        if not self.consumes:
            self.subscribed_topics = None if self.members else frozenset()
            return
        self.subscribed_topics = subscribed_topics(
            member.metadata_of(self.protocol) for member in self.members.values()
        )


def protocol_names(protocols: Iterable[Protocol]) -> set[str]:
    return {protocol.name for protocol in protocols}
