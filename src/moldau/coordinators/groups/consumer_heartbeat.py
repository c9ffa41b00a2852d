"""ConsumerGroupHeartbeat: members of consumer groups join, tell what they want and own, and learn what to do.

The order of events in one heartbeat: who is it, and may it speak → what has changed about it → is there a new group
epoch (its subscription, or the topics) → is there a new target (not more often than the assignment interval) → what is
the member's next step → the answer. A heartbeat that finds nothing new writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from moldau.coordinators.groups.classic_joins import Client
from moldau.coordinators.groups.consumer_assignments import LARGE, Assignments
from moldau.coordinators.groups.consumer_draft import Draft
from moldau.coordinators.groups.consumer_group import ConsumerGroup, not_a_member, without_epochs
from moldau.coordinators.groups.consumer_member import JOINING_EPOCH, ConsumerMember, Held, MemberState, Owned
from moldau.coordinators.groups.consumer_sessions import ConsumerSessions
from moldau.coordinators.groups.consumer_settings import ConsumerSettings
from moldau.coordinators.groups.reconcile import Circumstances, reconcile
from moldau.coordinators.groups.subscriptions import compile_regex
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
    TopicPartitionsInResponse,
)

UNCHANGED = -1


class Recognised(NamedTuple):
    """Who sends the heartbeat. `predecessor` is a static member whose place it takes."""

    member: ConsumerMember
    predecessor: ConsumerMember | None = None


class Heartbeats:
    def __init__(self, tables: GroupTables, sessions: ConsumerSessions) -> None:
        self._tables = tables
        self._sessions = sessions
        self._assignments = Assignments(tables)

    def beat(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, client: Client, now: float
    ) -> Write[ConsumerGroupHeartbeatResponse]:
        idle = group.members.get(request.member_id)
        if idle is not None and self._has_no_news(group, idle, request, client):
            settings = ConsumerSettings(group.group_id, self._tables.config(), self._tables.image())
            self._watch(group, idle, settings, now)
            return Write(self._answer(request, idle, idle, settings))
        owned = owned_partitions(request.topic_partitions)
        who = self._recognise(group, request, owned)
        draft, member = self.advance(group, who, requested(who.member, request, client), owned, now)
        settings = ConsumerSettings(group.group_id, self._tables.config(), draft.image)
        return Write(self._answer(request, who.member, member, settings), draft.records)

    def _has_no_news(
        self, group: ConsumerGroup, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client
    ) -> bool:
        """The commonest heartbeat by far says nothing, and there is nothing to say to it."""
        return (
            request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and member.state is MemberState.STABLE
            and group.seen_image is self._tables.image()
            and request.topic_partitions is None
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.instance_id == member.instance_id
            and request.rebalance_timeout_ms == UNCHANGED
            and request.server_assignor is None
            and request.rack_id in (None, member.rack_id)
            and member.classic is None
            and (client.client_id, client.host) == (member.client_id, member.client_host)
        )

    def advance(
        self, group: ConsumerGroup, who: Recognised, wanted: ConsumerMember, owned: Owned | None, now: float
    ) -> tuple[Draft, ConsumerMember]:
        """All that follows from a member's request, and the member after it."""
        known, predecessor = who
        draft = Draft(group, self._tables.image())
        settings = ConsumerSettings(group.group_id, self._tables.config(), draft.image)
        if predecessor is not None:
            self._succeed(draft, predecessor, known)
        has_new_subscription = self._update(draft, known, wanted)
        self._renew_epoch(draft, has_new_subscription)
        self._renew_target(draft, settings, now)
        member = reconcile(wanted, self._around(draft, wanted, predecessor, owned, has_new_subscription))
        draft.progress(member)
        self._watch(group, member, settings, now)
        return draft, member

    # --- who ---

    def _recognise(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, owned: Owned | None
    ) -> Recognised:
        member_id, instance_id = request.member_id, request.instance_id
        is_joining = request.member_epoch == JOINING_EPOCH
        static = None if instance_id is None else group.static_member(instance_id)
        may_be_replaced = static is not None and (static.is_away or static.classic is not None)
        if static is not None and is_joining and may_be_replaced:
            successor = replace(static, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
            return Recognised(successor, static)
        if instance_id is not None:
            check_static(static, member_id, instance_id, is_joining)
        member = group.members.get(member_id)
        if member is None:
            if not is_joining:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, not_a_member(member_id, group.group_id))
            self.check_size(group)
            return Recognised(ConsumerMember(member_id))
        if not is_joining:
            check_epoch(member, request.member_epoch, owned)
        return Recognised(member)

    def check_size(self, group: ConsumerGroup) -> None:
        limit = self._tables.config().group_consumer_max_size
        if len(group.members) >= limit:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {limit} members.",
            )

    def _succeed(self, draft: Draft, predecessor: ConsumerMember, successor: ConsumerMember) -> None:
        target = draft.target_of(predecessor.member_id)
        draft.remove(predecessor)
        draft.put(successor)
        draft.retarget(successor.member_id, target)
        draft.progress(successor)
        if predecessor.member_id != successor.member_id:
            self._sessions.forget(draft.group.group_id, predecessor.member_id)

    # --- what has changed ---

    def _update(self, draft: Draft, known: ConsumerMember, wanted: ConsumerMember) -> bool:
        """Whether the member subscribes to other topics than before."""
        has_new_regex = wanted.topic_regex != known.topic_regex
        if has_new_regex and wanted.topic_regex:
            compile_regex(wanted.topic_regex)
        draft.put(wanted)
        has_new_subscription = wanted.topic_names != known.topic_names
        if has_new_regex:
            draft.drop_unused_regex(known.topic_regex)
            # Topics of a new expression count once it is resolved.
            has_new_subscription |= not wanted.topic_regex or draft.regex_topics(wanted.topic_regex) is not None
        return has_new_subscription

    def _renew_epoch(self, draft: Draft, has_new_subscription: bool) -> None:
        if has_new_subscription or draft.group.seen_image is not draft.image:
            draft.group.seen_image = draft.image
            draft.bump_if(has_new_subscription)

    def _renew_target(self, draft: Draft, settings: ConsumerSettings, now: float) -> None:
        if draft.epoch <= draft.assignment_epoch or self._assignments.is_under_way(draft.group):
            return
        now_ms = self._tables.wall_ms()
        waited_ms = now_ms - draft.group.assignment_timestamp
        if 0 <= waited_ms < settings.assignment_interval_ms:
            return
        default = self._tables.config().group_consumer_assignors[0]
        assignor = draft.group.preferred_assignor(draft.members().values(), default)
        # The first member gets its partitions with its first heartbeat, however many there are.
        if draft.group.targets and draft.size() > LARGE:
            self._assignments.begin(draft.group, assignor, now)
        else:
            draft.assign(assignor, now_ms)

    # --- the next step ---

    def _around(
        self,
        draft: Draft,
        member: ConsumerMember,
        predecessor: ConsumerMember | None,
        owned: Owned | None,
        subscription_changed: bool,
    ) -> Circumstances:
        takers = {member.member_id} if predecessor is None else {member.member_id, predecessor.member_id}
        return Circumstances(
            draft.assignment_epoch,
            draft.target_of(member.member_id),
            lambda topic_id, partition: draft.group.is_free(topic_id, partition, takers),
            lambda topic_id: draft.is_subscribed(member, topic_id),
            owned,
            subscription_changed,
        )

    def _watch(self, group: ConsumerGroup, member: ConsumerMember, settings: ConsumerSettings, now: float) -> None:
        self._sessions.expect(group.group_id, member.member_id, now + session_seconds(member, settings))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            deadline = now + member.rebalance_timeout_ms / 1000
            self._sessions.expect_revocation(group.group_id, member.member_id, deadline)
        else:
            self._sessions.revoked(group.group_id, member.member_id)

    def _answer(
        self,
        request: ConsumerGroupHeartbeatRequest,
        known: ConsumerMember,
        member: ConsumerMember,
        settings: ConsumerSettings,
    ) -> ConsumerGroupHeartbeatResponse:
        """The assignment is told when it has changed, and to whoever tells everything about itself."""
        has_changed = known is not member and without_epochs(known.assigned) != without_epochs(member.assigned)
        tells = has_changed or tells_everything(request)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            assignment=assignment_of(member.assigned) if tells else None,
        )


def session_seconds(member: ConsumerMember, settings: ConsumerSettings) -> float:
    """Classic members bring their own time-out."""
    return settings.session_seconds if member.classic is None else member.classic.session_timeout_ms / 1000


def check_static(static: ConsumerMember | None, member_id: str, instance_id: str, is_joining: bool) -> None:
    if static is None:
        if not is_joining:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    elif static.member_id != member_id:
        if is_joining:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance"
                f" id is owned by {static.member_id} member.",
            )
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}.",
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """A member that did not get the last answer still has its previous epoch, and may own what it was assigned."""
    if epoch == member.epoch:
        return
    missed_an_answer = epoch < member.epoch and epoch == member.previous_epoch
    if missed_an_answer and owned is not None and member.holds_no_more_than(owned):
        return
    relation = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member.epoch}). The member must abandon all its partitions and rejoin.",
    )


def requested(known: ConsumerMember, request: ConsumerGroupHeartbeatRequest, client: Client) -> ConsumerMember:
    """The member with what the request says; what it leaves out stays as it is."""
    names, timeout = request.subscribed_topic_names, request.rebalance_timeout_ms
    return replace(
        known,
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=client.client_id,
        client_host=client.host,
        topic_names=known.topic_names if names is None else frozenset(names),
        topic_regex=known.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout == UNCHANGED else timeout,
        assignor=known.assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )


def tells_everything(request: ConsumerGroupHeartbeatRequest) -> bool:
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.member_epoch == JOINING_EPOCH or (
        request.rebalance_timeout_ms != UNCHANGED and has_subscription and request.topic_partitions is not None
    )


def owned_partitions(reported: Sequence[TopicPartitions] | None) -> Owned | None:
    return None if reported is None else {each.topic_id: each.partitions for each in reported}


def assignment_of(held: Held) -> Assignment:
    topics: Iterable[TopicPartitionsInResponse] = (
        TopicPartitionsInResponse(topic_id=topic_id, partitions=sorted(partitions))
        for topic_id, partitions in held.items()
    )
    return Assignment(topic_partitions=list(topics))
