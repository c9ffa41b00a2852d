"""A group with its members, whichever protocol it speaks: the new one is asked first, as Java's admin client does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.client.asking.answers import refuse
from moldau.client.cluster import CoordinatorKind
from moldau.client.errors import VersionUnsupported
from moldau.coordinators.groups.embedded import read_assignment
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from moldau.wire.messages.consumer_group_describe import Member as ConsumerMember
from moldau.wire.messages.describe_groups import DescribedGroup as ClassicGroup
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.client.cluster import Cluster

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    host: str
    client_id: str
    instance_id: str
    assigned: list[TopicPartition]
    target: list[TopicPartition] = field(default_factory=list)
    epoch: int | None = None
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class Group:
    group_id: str
    state: str
    assignor: str
    coordinator: str
    coordinator_id: int
    members: list[Member]
    epoch: int | None = None
    target_epoch: int | None = None


def describe_group(connection: Connection, group_id: str) -> Group:
    cluster = connection.wire()
    found = cluster.retrying(lambda: as_consumer_group(cluster, group_id))
    return found or cluster.retrying(lambda: as_classic_group(cluster, group_id))


def as_consumer_group(cluster: Cluster, group_id: str) -> Group | None:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    try:
        answer = cluster.to_coordinator(CoordinatorKind.GROUP, group_id, request, ConsumerGroupDescribeResponse)
    except VersionUnsupported:
        return None
    (group,) = answer.groups
    if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    refuse(group.error_code, group.error_message)
    return from_consumer(cluster, group)


def from_consumer(cluster: Cluster, group: DescribedGroup) -> Group:
    node = cluster.coordinator(CoordinatorKind.GROUP, group.group_id)
    return Group(
        group.group_id,
        group.group_state,
        group.assignor_name,
        str(cluster.connection(node).address),
        node,
        [from_consumer_member(member) for member in group.members],
        group.group_epoch,
        group.assignment_epoch,
    )


def from_consumer_member(member: ConsumerMember) -> Member:
    upgraded = {CLASSIC_MEMBER: False, CONSUMER_MEMBER: True}.get(member.member_type)
    return Member(
        member.member_id,
        member.client_host,
        member.client_id,
        member.instance_id or "",
        partitions_of(member.assignment),
        partitions_of(member.target_assignment),
        member.member_epoch,
        upgraded,
    )


def partitions_of(assignment: Assignment | None) -> list[TopicPartition]:
    topics = assignment.topic_partitions if assignment else ()
    return [TopicPartition(each.topic_name, index) for each in topics for index in each.partitions]


def as_classic_group(cluster: Cluster, group_id: str) -> Group:
    request = DescribeGroupsRequest(groups=[group_id])
    answer = cluster.to_coordinator(CoordinatorKind.GROUP, group_id, request, DescribeGroupsResponse)
    (group,) = answer.groups
    refuse(group.error_code, group.error_message)
    return from_classic(cluster, group)


def from_classic(cluster: Cluster, group: ClassicGroup) -> Group:
    node = cluster.coordinator(CoordinatorKind.GROUP, group.group_id)
    members = [
        Member(
            member.member_id,
            member.client_host,
            member.client_id,
            member.group_instance_id or "",
            flat(read_assignment(bytes(member.member_assignment))),
        )
        for member in group.members
    ]
    address = str(cluster.connection(node).address)
    return Group(group.group_id, group.group_state, group.protocol_data, address, node, members)


def flat(by_topic: Mapping[str, Collection[int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, indexes in by_topic.items() for index in indexes]
