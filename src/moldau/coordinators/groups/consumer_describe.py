"""ConsumerGroupDescribe: a consumer group as administrators see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.coordinators.groups.consumer_group import ConsumerGroup
from moldau.coordinators.groups.consumer_member import NO_TARGET, ConsumerMember
from moldau.metadata.image import ClusterImage
from moldau.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

SPEAKS_CLASSIC, SPEAKS_CONSUMER = 0, 1


def describe(group: ConsumerGroup, config: BrokerConfig, image: ClusterImage) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(group.members.values(), config.group_consumer_assignors[0]),
        members=[_member(group, member, image) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, image: ClusterImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(_held(member), image),
        target_assignment=_assignment(_in_order(group.targets.get(member.member_id, NO_TARGET)), image),
        member_type=SPEAKS_CONSUMER if member.classic is None else SPEAKS_CLASSIC,
    )


def _held(member: ConsumerMember) -> Mapping[UUID, list[int]]:
    """What it has to give back is its own until it has done so."""
    held = _in_order(member.assigned)
    for topic_id, indexes in _in_order(member.revoking).items():
        held.setdefault(topic_id, []).extend(indexes)
    return held


def _in_order(partitions: Mapping[UUID, Collection[int]]) -> dict[UUID, list[int]]:
    return {topic_id: sorted(indexes) for topic_id, indexes in partitions.items()}


def _assignment(partitions: Mapping[UUID, list[int]], image: ClusterImage) -> Assignment:
    """Topics that are gone have no name to show."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=image.topics_by_id[topic_id].name, partitions=indexes)
            for topic_id, indexes in partitions.items()
            if topic_id in image.topics_by_id
        ]
    )
