"""ConsumerGroupDescribe, versions 0 and 1: the state and the members of consumer groups."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource, authorized_operations
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import gather, respond
from moldau.server.coordination.groups import serves_consumer_groups
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    with_operations = request.include_authorized_operations
    parts = [describe(broker, context, group_id, with_operations) for group_id in request.group_ids]
    return gather(parts, lambda groups: ConsumerGroupDescribeResponse(groups=groups))


def describe(
    broker: Broker, context: RequestContext, group_id: str, with_operations: bool
) -> DescribedGroup | Awaitable[DescribedGroup]:
    def pack(group: DescribedGroup) -> DescribedGroup:
        if not sees_topics(broker, context, group):
            return refuse(
                KafkaError(
                    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                    "The group has described topic(s) that the client is not authorized to describe.",
                )
            )
        if with_operations:
            group.authorized_operations = authorized_operations(broker.authorizer, context, Resource.GROUP, group_id)
        return group

    def refuse(error: KafkaError) -> DescribedGroup:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)

    if not serves_consumer_groups(broker.image):
        return refuse(KafkaError(ErrorCode.UNSUPPORTED_VERSION))
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.GROUP, group_id):
        return refuse(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not group_id:
        return refuse(KafkaError(ErrorCode.INVALID_GROUP_ID))
    return respond(
        lambda: broker.groups.read(group_id, lambda machine, now: machine.consumer.describe(group_id)), pack, refuse
    )


def sees_topics(broker: Broker, context: RequestContext, group: DescribedGroup) -> bool:
    topics = {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment or Assignment(), member.target_assignment or Assignment())
        for topic in assignment.topic_partitions
    }
    return all(broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic) for topic in topics)


API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, ConsumerGroupDescribeRequest, handle)
