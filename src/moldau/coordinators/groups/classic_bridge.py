"""Classic members in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, each a step of the consumer
protocol. The group's epoch is their generation, nobody is leader, and the broker's assignment is what they sync.

A classic member can only be moved by making it join again: its heartbeats are answered REBALANCE_IN_PROGRESS as long
as it has something to catch up with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from uuid import UUID

from moldau.coordinators.groups.classic_joins import MEMBER_ID_IS_REQUIRED_FROM, Client
from moldau.coordinators.groups.classic_subscriptions import CONSUMER_PROTOCOL_TYPE
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.consumer_heartbeat import Heartbeats, Recognised
from moldau.coordinators.groups.consumer_member import (
    JOINING_EPOCH,
    ClassicSide,
    ConsumerMember,
    MemberState,
    OfferedProtocol,
)
from moldau.coordinators.groups.consumer_sessions import ConsumerSessions
from moldau.coordinators.groups.embedded import Subscription, read_subscription
from moldau.coordinators.groups.migration import assignment_bytes, ids_of
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import StateRecord, Write
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

Remove = Callable[[ConsumerGroup, list[ConsumerMember], float], list[StateRecord]]


class ClassicBridge:
    def __init__(self, tables: GroupTables, sessions: ConsumerSessions, heartbeats: Heartbeats, remove: Remove) -> None:
        self._tables = tables
        self._sessions = sessions
        self._heartbeats = heartbeats
        self._remove = remove

    # --- joining ---

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, client: Client, api_version: int, now: float
    ) -> Write[JoinGroupResponse]:
        offered = tuple(OfferedProtocol(each.name, bytes(each.metadata)) for each in request.protocols)
        protocol, subscription = self._agree(group, request, offered)
        if not request.member_id and request.group_instance_id is None and api_version >= MEMBER_ID_IS_REQUIRED_FROM:
            new_id = self._new_id(client, None)
            return Write(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id))
        who = self._recognise(group, request, client)
        known = who.member
        wanted = replace(
            known,
            instance_id=request.group_instance_id or known.instance_id,
            client_id=client.client_id,
            client_host=client.host,
            topic_names=subscription.topics,
            topic_regex="",
            rebalance_timeout_ms=request.rebalance_timeout_ms if api_version > 0 else request.session_timeout_ms,
            classic=ClassicSide(request.session_timeout_ms, offered),
        )
        owned = ids_of(subscription.owned, self._tables.image())
        draft, member = self._heartbeats.advance(group, who, wanted, owned, now)
        answer = JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=protocol,
            member_id=member.member_id,
        )
        return Write(answer, draft.records)

    def _agree(
        self, group: ConsumerGroup, request: JoinGroupRequest, offered: Iterable[OfferedProtocol]
    ) -> tuple[str, Subscription]:
        """The first protocol of the request that all classic members have, and what it says."""
        others = [
            {name for name, _ in member.classic.protocols}
            for member in group.members.values()
            if member.classic is not None and member.member_id != request.member_id
        ]
        if request.protocol_type == CONSUMER_PROTOCOL_TYPE:
            for name, metadata in offered:
                subscription = read_subscription(metadata)
                if subscription is not None and all(name in names for names in others):
                    return name, subscription
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _recognise(self, group: ConsumerGroup, request: JoinGroupRequest, client: Client) -> Recognised:
        member_id, instance_id = request.member_id, request.group_instance_id
        static = None if instance_id is None else group.static_member(instance_id)
        if static is not None:
            if member_id and static.member_id != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
            if not member_id:
                new_id = self._new_id(client, instance_id)
                successor = replace(static, member_id=new_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
                return Recognised(successor, static)
        known = group.members.get(member_id)
        if known is not None:
            return Recognised(known)
        self._heartbeats.check_size(group)
        return Recognised(ConsumerMember(member_id or self._new_id(client, instance_id)))

    def _new_id(self, client: Client, instance_id: str | None) -> str:
        return f"{client.client_id if instance_id is None else instance_id}-{self._tables.new_uuid()}"

    # --- staying ---

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now: float) -> Write[SyncGroupResponse]:
        member, classic = self._find(group, request.member_id, request.group_instance_id)
        check_generation(member, request.generation_id)
        names = {name for name, _ in classic.protocols}
        is_foreign = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
        if is_foreign or (request.protocol_name is not None and request.protocol_name not in names):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if is_behind(group, member):
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._heard_of(group, member, classic, now)
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member, member.assigned, self._tables.image()),
        )
        return Write(answer)

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, now: float) -> Write[ErrorCode]:
        member, classic = self._find(group, request.member_id, request.group_instance_id)
        check_generation(member, request.generation_id)
        self._heard_of(group, member, classic, now)
        if not self._must_join(group, member):
            return Write(ErrorCode.NONE)
        deadline = now + member.rebalance_timeout_ms / 1000
        self._sessions.expect_revocation(group.group_id, member.member_id, deadline)
        return Write(ErrorCode.REBALANCE_IN_PROGRESS)

    def _must_join(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        match member.state:
            case MemberState.UNREVOKED_PARTITIONS:
                return True
            case MemberState.UNRELEASED_PARTITIONS:
                return is_behind(group, member) or self._can_go_on(group, member)
            case _:
                return is_behind(group, member)

    def _can_go_on(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether a partition that it waits for is free by now."""
        takers = (member.member_id,)

        def waits_for(topic_id: UUID, partition: int) -> bool:
            return partition not in member.assigned.get(topic_id, {})

        return any(
            waits_for(topic_id, partition) and group.is_free(topic_id, partition, takers)
            for topic_id, partitions in group.targets.get(member.member_id, {}).items()
            for partition in partitions
        )

    def _heard_of(self, group: ConsumerGroup, member: ConsumerMember, classic: ClassicSide, now: float) -> None:
        self._sessions.expect(group.group_id, member.member_id, now + classic.session_timeout_ms / 1000)

    # --- leaving ---

    def leave(self, group: ConsumerGroup, request: LeaveGroupRequest, now: float) -> Write[list[MemberResponse]]:
        leaving: dict[str, ConsumerMember] = {}
        answers = []
        for identity in request.members:
            member, error = self._who_leaves(group, identity)
            if member is not None:
                leaving[member.member_id] = member
            answers.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        records = self._remove(group, list(leaving.values()), now) if leaving else []
        return Write(answers, records)

    def _who_leaves(self, group: ConsumerGroup, identity: MemberIdentity) -> tuple[ConsumerMember | None, ErrorCode]:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if instance_id is not None:
            static = group.static_member(instance_id)
            if static is None:
                return None, ErrorCode.UNKNOWN_MEMBER_ID
            if member_id and static.member_id != member_id:
                return None, ErrorCode.FENCED_INSTANCE_ID
            return static, ErrorCode.NONE
        member = group.members.get(member_id)
        return member, ErrorCode.UNKNOWN_MEMBER_ID if member is None else ErrorCode.NONE

    def _find(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> tuple[ConsumerMember, ClassicSide]:
        if instance_id is not None:
            static = group.static_member(instance_id)
            if static is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if static.member_id != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = group.members.get(member_id)
        if member is None or member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member, member.classic


def check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def is_behind(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """There is a new target, and the member has not joined since; one that revokes has."""
    return member.epoch < group.assignment_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS
