"""A group of the consumer protocol: what its records say of it, and what may be done to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from uuid import UUID

from moldau.coordinators.groups.classic_subscriptions import CONSUMER_PROTOCOL_TYPE
from moldau.coordinators.groups.consumer_member import ConsumerMember, Held, MemberState, Target
from moldau.coordinators.groups.consumer_record_forms import ResolvedRegex, group_tombstones
from moldau.coordinators.groups.tables import CommittedPartition, GroupType
from moldau.coordinators.machine import StateRecord
from moldau.metadata.image import ClusterImage
from moldau.types.errors import ErrorCode, KafkaError

#: Of a group that nobody has joined yet.
FIRST_EPOCH = 1
MEMBER_EPOCHS_IN_COMMITS_FROM = 9


class ConsumerGroupState(Enum):
    """With the names that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """Implements Group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        #: Of the subscribed topics: tells whether one of them has changed.
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp = 0
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Target] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.named: Counter[str] = Counter()
        """How many members subscribe to a topic by its name."""
        self.regex_users: Counter[str] = Counter()
        self._owners: dict[UUID, dict[int, str]] = {}
        #: The images that topics and regexes were last compared with; not durable.
        self.seen_image: ClusterImage | None = None
        self.resolved_image: ClusterImage | None = None
        self.resolved_sight_version = 0

    # --- Group ---

    @property
    def group_type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self._has_arrived(member) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def _has_arrived(self, member: ConsumerMember) -> bool:
        return member.state is MemberState.STABLE and member.epoch == self.assignment_epoch

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def protocol_type(self) -> str:
        return CONSUMER_PROTOCOL_TYPE

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return not self.members

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
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, not_a_member(member_id, self.group_id))
        if member.classic is None and not is_transactional and api_version < MEMBER_EPOCHS_IN_COMMITS_FROM:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        if generation == member.epoch:
            return
        is_known = 0 <= generation < member.epoch
        if not is_known or not all(may_still_commit(member, each, generation) for each in partitions):
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.members.get(member_id or "")
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if member_epoch != member.epoch:
            raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION)

    def check_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        """Allowed at any time, for topics that nobody is subscribed to."""

    def is_subscribed_to(self, topic: str) -> bool:
        return self.named[topic] > 0 or any(topic in self.regex_topics(regex) for regex in self.regex_users)

    def offsets_expire_from(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def tombstones(self) -> Sequence[StateRecord]:
        return group_tombstones(self.group_id, self.regexes)

    # --- who is who ---

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_free(self, topic_id: UUID, partition: int, takers: Iterable[str]) -> bool:
        """Whether nobody but one of the takers holds this partition."""
        owner = self._owners.get(topic_id, {}).get(partition)
        return owner is None or owner in takers

    def preferred_assignor(self, members: Iterable[ConsumerMember], default: str) -> str:
        """The one that most members name."""
        votes = Counter(member.assignor for member in members if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else default

    # --- subscriptions ---

    def regex_topics(self, regex: str) -> frozenset[str]:
        resolved = self.regexes.get(regex)
        return frozenset() if resolved is None else resolved.topics

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        return member.topic_names | self.regex_topics(member.topic_regex) if member.topic_regex else member.topic_names

    def subscribed_topics(self) -> set[str]:
        topics = {topic for topic, count in self.named.items() if count > 0}
        return topics.union(*(self.regex_topics(regex) for regex, count in self.regex_users.items() if count > 0))

    # --- replay ---

    def put_member(self, member: ConsumerMember) -> None:
        self._forget_subscription(self.members.get(member.member_id))
        self.members[member.member_id] = member
        self.named.update(member.topic_names)
        if member.topic_regex:
            self.regex_users[member.topic_regex] += 1
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def put_progress(self, member: ConsumerMember) -> None:
        """Only what a member holds has changed."""
        known = self.members.get(member.member_id)
        if known is not None:
            self._disown(known)
        self.members[member.member_id] = member
        for topic_id, partition in held_by(member):
            self._owners.setdefault(topic_id, {})[partition] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is not None:
            self._forget_subscription(member)
            self._disown(member)
            del self.members[member_id]

    def _forget_subscription(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        forget(self.named, member.topic_names)
        forget(self.regex_users, (member.topic_regex,))
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _disown(self, member: ConsumerMember) -> None:
        for topic_id, partition in held_by(member):
            owners = self._owners.get(topic_id, {})
            if owners.get(partition) == member.member_id:
                del owners[partition]
                if not owners:
                    del self._owners[topic_id]


def held_by(member: ConsumerMember) -> Iterator[tuple[UUID, int]]:
    for held in (member.assigned, member.revoking):
        for topic_id, partitions in held.items():
            for partition in partitions:
                yield topic_id, partition


def forget(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        if counts[name] > 1:
            counts[name] -= 1
        else:
            del counts[name]


def may_still_commit(member: ConsumerMember, wanted: CommittedPartition, epoch: int) -> bool:
    """A commit may be overtaken by the member's own next epoch, as long as the partition stayed its own."""
    assigned_in = member.assignment_epoch_of(wanted.topic_id, wanted.partition)
    return assigned_in is not None and assigned_in <= epoch


def not_a_member(member_id: str, group_id: str) -> str:
    return f"Member {member_id} is not a member of group {group_id}."


def without_epochs(held: Held) -> Mapping[UUID, set[int]]:
    return {topic_id: set(partitions) for topic_id, partitions in held.items()}
