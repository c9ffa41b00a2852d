"""What one operation makes of a consumer group: a view of the group as it will be, and the records that make it so.

The group itself changes only when the records are replayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from uuid import UUID

from moldau.coordinators.groups.assignors import range as range_assignor
from moldau.coordinators.groups.assignors import uniform as uniform_assignor
from moldau.coordinators.groups.assignors.problem import Assignor, Subscriber
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.consumer_member import NO_TARGET, ConsumerMember, Target, same_metadata, same_progress
from moldau.coordinators.groups.consumer_record_forms import (
    ResolvedRegex,
    assignment_record,
    group_record,
    member_record,
    member_tombstones,
    progress_record,
    regex_record,
    regex_tombstone,
    target_record,
)
from moldau.coordinators.groups.subscriptions import hash_of
from moldau.coordinators.machine import StateRecord
from moldau.metadata.image import ClusterImage
from moldau.work.slices import Work, at_once, pauses

ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform_assignor.assign, "range": range_assignor.assign}


class Draft:
    def __init__(self, group: ConsumerGroup, image: ClusterImage) -> None:
        self.group = group
        self.image = image
        self.records: list[StateRecord] = []
        self.epoch = group.epoch
        self.assignment_epoch = group.assignment_epoch
        self._changed: dict[str, ConsumerMember] = {}
        #: They may come again in the same draft, as new ones.
        self._removed: set[str] = set()
        self._targets: dict[str, Target] = {}
        self._regexes: dict[str, ResolvedRegex | None] = {}
        #: New members whose epoch is in the records already.
        self._progressed: set[str] = set()

    # --- as it will be ---

    def members(self) -> dict[str, ConsumerMember]:
        if not self._changed and not self._removed:
            return self.group.members
        members = {who: member for who, member in self.group.members.items() if who not in self._removed}
        return members | self._changed

    def target_of(self, member_id: str) -> Target:
        found = self._targets.get(member_id)
        return self.group.targets.get(member_id, NO_TARGET) if found is None else found

    def regex_topics(self, regex: str) -> frozenset[str] | None:
        """None if the expression is not resolved yet."""
        resolved = self._regexes[regex] if regex in self._regexes else self.group.regexes.get(regex)
        return None if resolved is None else resolved.topics

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        if not member.topic_regex:
            return member.topic_names
        return member.topic_names | (self.regex_topics(member.topic_regex) or frozenset())

    def subscribed_topics(self) -> set[str]:
        if not self._changed and not self._removed and not self._regexes:
            return self.group.subscribed_topics()
        names, regexes = self._subscriptions()
        topics = {topic for topic, count in names.items() if count > 0}
        return topics.union(*(self.regex_topics(regex) or () for regex, count in regexes.items() if count > 0))

    def _subscriptions(self) -> tuple[Counter[str], Counter[str]]:
        """How many members use a name or an expression: counted from the few that change, not from all."""
        names, regexes = self.group.named.copy(), self.group.regex_users.copy()
        for member_id in self._changed.keys() | self._removed:
            before, after = self.group.members.get(member_id), self._changed.get(member_id)
            if before is not None:
                names.subtract(before.topic_names)
                regexes.subtract((before.topic_regex,))
            if after is not None:
                names.update(after.topic_names)
                regexes.update((after.topic_regex,))
        del regexes[""]
        return names, regexes

    def uses_regex(self, regex: str) -> bool:
        return self._subscriptions()[1][regex] > 0

    def is_subscribed(self, member: ConsumerMember, topic_id: UUID) -> bool:
        """Of a topic that is gone nobody can say; an expression that is not resolved may match any topic."""
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None or topic.name in member.topic_names:
            return True
        if not member.topic_regex:
            return False
        topics = self.regex_topics(member.topic_regex)
        return topics is None or topic.name in topics

    # --- changes ---

    def put(self, member: ConsumerMember) -> None:
        """Identity, subscription, settings."""
        known = self._known(member.member_id)
        self._changed[member.member_id] = member
        if known is None or not same_metadata(known, member):
            self.records.append(member_record(self.group.group_id, member))

    def progress(self, member: ConsumerMember) -> None:
        """What the member holds, and its epoch."""
        member_id = member.member_id
        known = self._known(member_id)
        self._changed[member_id] = member
        is_written = member_id in self._progressed or (
            member_id in self.group.members and member_id not in self._removed
        )
        if known is None or not is_written or not same_progress(known, member):
            self._progressed.add(member_id)
            self.records.append(progress_record(self.group.group_id, member))

    def _known(self, member_id: str) -> ConsumerMember | None:
        """As the records so far tell it."""
        if member_id in self._changed:
            return self._changed[member_id]
        return None if member_id in self._removed else self.group.members.get(member_id)

    def remove(self, member: ConsumerMember) -> None:
        self._removed.add(member.member_id)
        self._changed.pop(member.member_id, None)
        self.records += member_tombstones(self.group.group_id, member.member_id)

    def drop_unused_regex(self, regex: str) -> None:
        if regex and not self.uses_regex(regex):
            self._regexes[regex] = None
            self.records.append(regex_tombstone(self.group.group_id, regex))

    def resolve(self, regex: str, resolved: ResolvedRegex) -> None:
        self._regexes[regex] = resolved
        self.records.append(regex_record(self.group.group_id, regex, resolved))

    def retarget(self, member_id: str, target: Target) -> None:
        self._targets[member_id] = target
        self.records.append(target_record(self.group.group_id, member_id, target))

    # --- epochs ---

    def bump_if(self, is_needed: bool) -> None:
        """A new epoch, if the caller saw a reason or the subscribed topics have changed."""
        metadata_hash = hash_of(self.subscribed_topics(), self.image)
        if is_needed or metadata_hash != self.group.metadata_hash:
            self.epoch = self.group.epoch + 1
            self.records.append(group_record(self.group.group_id, self.epoch, metadata_hash))

    def assign(self, assignor: str, now_ms: int) -> None:
        """A target for every member, in the present epoch."""
        self.take_over(at_once(self.new_targets(assignor)).items())
        self.assigned(self.epoch, now_ms)

    def new_targets(self, assignor: str) -> Work[dict[str, Target]]:
        """What the members shall have, as the group is now; it may change while this is worked out."""
        topics = sorted(name for name in self.subscribed_topics() if name in self.image.topics)
        ids = {name: self.image.topics[name].id for name in topics}
        subscribers = []
        known_wishes: dict[tuple[frozenset[str], str], frozenset[UUID]] = {}
        paused = pauses()
        for member in tuple(self.members().values()):
            if next(paused):
                yield
            wish = (member.topic_names, member.topic_regex)
            wanted = known_wishes.get(wish)
            if wanted is None:
                wanted = known_wishes[wish] = frozenset(ids[name] for name in self.topics_of(member) if name in ids)
            current = self.target_of(member.member_id)
            subscribers.append(Subscriber(member.member_id, member.instance_id, wanted, current))
        partitions = {ids[name]: len(self.image.topics[name].partitions) for name in topics}
        return (yield from ASSIGNORS[assignor](subscribers, partitions))

    def size(self) -> int:
        """Members and partitions: what there is to assign, and to whom."""
        topics = (self.image.topics.get(name) for name in self.subscribed_topics())
        return len(self.members()) + sum(len(topic.partitions) for topic in topics if topic is not None)

    def take_over(self, targets: Iterable[tuple[str, Target]]) -> None:
        """Where they are new, for members that are still there."""
        members = self.members()
        for member_id, target in targets:
            is_known = member_id in self.group.targets or member_id in self._targets
            if member_id in members and (not is_known or target != self.target_of(member_id)):
                self.retarget(member_id, target)

    def assigned(self, epoch: int, now_ms: int) -> None:
        """Every member has its target of this epoch."""
        self.assignment_epoch = epoch
        self.records.append(assignment_record(self.group.group_id, epoch, now_ms))
