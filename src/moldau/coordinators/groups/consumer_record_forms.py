"""From the values of a consumer group to its records, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from moldau.coordinators.groups.consumer_member import (
    ClassicSide,
    ConsumerMember,
    Held,
    MemberState,
    OfferedProtocol,
    Target,
)
from moldau.coordinators.groups.consumer_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupKey,
    ConsumerGroupMemberKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegexKey,
    CurrentMemberAssignmentValue,
    HeldPartitions,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TargetPartitions,
)
from moldau.coordinators.groups.records import RecordKind
from moldau.coordinators.machine import StateRecord
from moldau.coordinators.record_codec import encode_record


class ResolvedRegex(NamedTuple):
    topics: frozenset[str]
    #: The version of the cluster's image that was looked at, and when; milliseconds.
    version: int
    timestamp: int


def group_record(group_id: str, epoch: int, metadata_hash: int) -> StateRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return encode_record(RecordKind.CONSUMER_GROUP_METADATA, ConsumerGroupKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> StateRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if member.classic is None else _classic_metadata(member.classic),
    )
    key = ConsumerGroupMemberKey(group_id=group_id, member_id=member.member_id)
    return encode_record(RecordKind.CONSUMER_GROUP_MEMBER_METADATA, key, value)


def assignment_record(group_id: str, epoch: int, timestamp: int) -> StateRecord:
    value = TargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    key = ConsumerGroupKey(group_id=group_id)
    return encode_record(RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, key, value)


def target_record(group_id: str, member_id: str, target: Target) -> StateRecord:
    value = TargetAssignmentMemberValue(
        topic_partitions=[
            TargetPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
            if partitions
        ]
    )
    key = ConsumerGroupMemberKey(group_id=group_id, member_id=member_id)
    return encode_record(RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, value)


def progress_record(group_id: str, member: ConsumerMember) -> StateRecord:
    value = CurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_held_partitions(member.assigned),
        partitions_pending_revocation=_held_partitions(member.revoking),
    )
    key = ConsumerGroupMemberKey(group_id=group_id, member_id=member.member_id)
    return encode_record(RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> StateRecord:
    value = RegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp
    )
    key = ConsumerGroupRegexKey(group_id=group_id, regular_expression=regex)
    return encode_record(RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION, key, value)


def member_tombstones(group_id: str, member_id: str) -> list[StateRecord]:
    key = ConsumerGroupMemberKey(group_id=group_id, member_id=member_id)
    kinds = (
        RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordKind.CONSUMER_GROUP_MEMBER_METADATA,
    )
    return [encode_record(kind, key, None) for kind in kinds]


def regex_tombstone(group_id: str, regex: str) -> StateRecord:
    key = ConsumerGroupRegexKey(group_id=group_id, regular_expression=regex)
    return encode_record(RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION, key, None)


def group_tombstones(group_id: str, regexes: Iterable[str]) -> list[StateRecord]:
    key = ConsumerGroupKey(group_id=group_id)
    kinds = (
        RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
        RecordKind.CONSUMER_GROUP_PARTITION_METADATA,
        RecordKind.CONSUMER_GROUP_METADATA,
    )
    return [
        *(regex_tombstone(group_id, regex) for regex in regexes),
        *(encode_record(kind, key, None) for kind in kinds),
    ]


# --- back ---


def with_metadata(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    classic = value.classic_member_metadata
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None if classic is None else _classic_side(classic),
    )


def with_progress(member: ConsumerMember, value: CurrentMemberAssignmentValue) -> ConsumerMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_held(value.assigned_partitions, value.member_epoch),
        revoking=_held(value.partitions_pending_revocation, value.member_epoch),
    )


def target_of(value: TargetAssignmentMemberValue) -> Target:
    return {each.topic_id: frozenset(each.partitions) for each in value.topic_partitions}


def _held_partitions(held: Held) -> list[HeldPartitions]:
    found = []
    for topic_id, partitions in held.items():
        indexes = sorted(partitions)
        epochs = [partitions[index] for index in indexes]
        found.append(HeldPartitions(topic_id=topic_id, partitions=indexes, assignment_epochs=epochs))
    return found


def _held(partitions: Iterable[HeldPartitions], member_epoch: int) -> Mapping[UUID, Mapping[int, int]]:
    """Releases before 4.3 did not say when a partition was assigned: at the latest in the member's epoch."""
    return {
        each.topic_id: dict(
            zip(each.partitions, each.assignment_epochs or [member_epoch] * len(each.partitions), strict=True)
        )
        for each in partitions
    }


def _classic_metadata(classic: ClassicSide) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
    )


def _classic_side(classic: ClassicMemberMetadata) -> ClassicSide:
    protocols = tuple(OfferedProtocol(each.name, bytes(each.metadata)) for each in classic.supported_protocols)
    return ClassicSide(classic.session_timeout_ms, protocols)
