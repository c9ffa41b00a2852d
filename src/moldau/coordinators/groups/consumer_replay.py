"""Applies the records of consumer groups. Compaction may have removed any record that a later one replaces, so each
is taken as it comes: whatever it is about is made if it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.consumer_member import LEAVING_EPOCH, ConsumerMember, MemberState
from moldau.coordinators.groups.consumer_record_forms import ResolvedRegex, target_of, with_metadata, with_progress
from moldau.coordinators.groups.consumer_records import (
    ConsumerGroupKey,
    ConsumerGroupMemberKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegexKey,
    CurrentMemberAssignmentValue,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
)
from moldau.coordinators.groups.records import RecordKind
from moldau.coordinators.groups.tables import GroupTables
from moldau.coordinators.machine import StateRecord
from moldau.coordinators.record_codec import decode_key, decode_value


def replay_record(tables: GroupTables, kind: int, record: StateRecord) -> None:
    apply = _BY_KIND.get(kind)
    if apply is not None:
        apply(tables, record)


def _find(tables: GroupTables, group_id: str, is_tombstone: bool) -> ConsumerGroup | None:
    """The group; made if a record that is no tombstone speaks of it, also in place of a classic one: the group has
    changed its protocol, or there were only offsets in its name."""
    group = tables.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if is_tombstone:
        return None
    found = tables.groups[group_id] = ConsumerGroup(group_id)
    return found


def _group(tables: GroupTables, record: StateRecord) -> None:
    group_id = decode_key(ConsumerGroupKey, record.key).group_id
    value = decode_value(ConsumerGroupMetadataValue, record.value)
    group = _find(tables, group_id, value is None)
    if group is None:
        return
    if value is None:
        del tables.groups[group_id]
    else:
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash


def _member(tables: GroupTables, record: StateRecord) -> None:
    key = decode_key(ConsumerGroupMemberKey, record.key)
    value = decode_value(ConsumerGroupMemberMetadataValue, record.value)
    group = _find(tables, key.group_id, value is None)
    if group is None:
        return
    if value is None:
        group.remove_member(key.member_id)
    else:
        group.put_member(with_metadata(_known(group, key.member_id), value))


def _assignment(tables: GroupTables, record: StateRecord) -> None:
    group_id = decode_key(ConsumerGroupKey, record.key).group_id
    value = decode_value(TargetAssignmentMetadataValue, record.value)
    group = _find(tables, group_id, value is None)
    if group is not None and value is not None:
        group.assignment_epoch = value.assignment_epoch
        group.assignment_timestamp = value.assignment_timestamp


def _target(tables: GroupTables, record: StateRecord) -> None:
    key = decode_key(ConsumerGroupMemberKey, record.key)
    value = decode_value(TargetAssignmentMemberValue, record.value)
    group = _find(tables, key.group_id, value is None)
    if group is None:
        return
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = target_of(value)


def _progress(tables: GroupTables, record: StateRecord) -> None:
    key = decode_key(ConsumerGroupMemberKey, record.key)
    value = decode_value(CurrentMemberAssignmentValue, record.value)
    group = _find(tables, key.group_id, value is None)
    if group is None:
        return
    if value is not None:
        group.put_progress(with_progress(_known(group, key.member_id), value))
    elif key.member_id in group.members:
        empty = replace(
            group.members[key.member_id],
            epoch=LEAVING_EPOCH,
            previous_epoch=LEAVING_EPOCH,
            state=MemberState.STABLE,
            assigned={},
            revoking={},
        )
        group.put_progress(empty)


def _regex(tables: GroupTables, record: StateRecord) -> None:
    key = decode_key(ConsumerGroupRegexKey, record.key)
    value = decode_value(RegularExpressionValue, record.value)
    group = _find(tables, key.group_id, value is None)
    if group is None:
        return
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


def _known(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    return group.members.get(member_id) or ConsumerMember(member_id)


_BY_KIND: Mapping[int, Callable[[GroupTables, StateRecord], None]] = {
    RecordKind.CONSUMER_GROUP_METADATA: _group,
    RecordKind.CONSUMER_GROUP_MEMBER_METADATA: _member,
    RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _assignment,
    RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _target,
    RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _progress,
    RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION: _regex,
}
