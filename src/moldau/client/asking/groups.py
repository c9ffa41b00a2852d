"""Groups: offsets that are forgotten, members that are sent away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from moldau.client.asking.answers import Wired, by_topic, refuse
from moldau.client.cluster import CoordinatorKind
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

REASON: Final = "an administrator removed it"


def delete_offsets(asks: Wired, group: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    """Of each partition what became of its offset; what is wrong with the group itself is raised."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        )
        for topic, numbers in by_topic(sorted(places)).items()
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    wire = asks.wire()

    def ask() -> dict[TopicPartition, ErrorCode]:
        answer = wire.to_coordinator(CoordinatorKind.GROUP, group, request, OffsetDeleteResponse)
        refuse(answer.error_code)
        return {
            TopicPartition(topic.name, part.partition_index): ErrorCode(part.error_code)
            for topic in answer.topics
            for part in topic.partitions
        }

    return wire.retrying(ask)


def remove_members(asks: Wired, group: str, members: Sequence[tuple[str, str | None]]) -> dict[str, ErrorCode]:
    """Members by their id, or by "" and their static one; what became of each, under the name it was called by."""
    wanted = [
        MemberIdentity(member_id=member, group_instance_id=instance, reason=REASON) for member, instance in members
    ]
    request = LeaveGroupRequest(group_id=group, members=wanted)
    wire = asks.wire()

    def ask() -> dict[str, ErrorCode]:
        answer = wire.to_coordinator(CoordinatorKind.GROUP, group, request, LeaveGroupResponse)
        refuse(answer.error_code)
        return {each.group_instance_id or each.member_id: ErrorCode(each.error_code) for each in answer.members}

    return wire.retrying(ask)
