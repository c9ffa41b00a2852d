"""A classic group as its GroupMetadata record holds it: written when a generation gets its assignment, when a static
member is replaced, and when the group is new or left by all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.coordinators.groups.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata, RecordKind
from moldau.coordinators.machine import StateRecord
from moldau.coordinators.record_codec import encode_record

if TYPE_CHECKING:
    from moldau.coordinators.groups.classic_group import ClassicGroup

VALUE_VERSION = 3


def group_record(
    group: ClassicGroup, assignments: Mapping[str, bytes] | None = None, since_ms: int | None = None
) -> StateRecord:
    """The group as it is; or as it will be, stable since then with these assignments by member id."""
    if assignments is None:
        assignments = {member.member_id: member.assignment for member in group.members.values()}
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.since_ms if since_ms is None else since_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_of(group.protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return encode_record(RecordKind.GROUP_METADATA, GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def new_group_record(group: ClassicGroup) -> StateRecord:
    """A group that somebody is about to join: nothing is known of it but its name."""
    value = GroupMetadataValue(current_state_timestamp=group.since_ms)
    return encode_record(RecordKind.GROUP_METADATA, GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def group_tombstone(group_id: str) -> StateRecord:
    return encode_record(RecordKind.GROUP_METADATA, GroupMetadataKey(group=group_id), None)
