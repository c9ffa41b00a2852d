"""ConsumerGroupHeartbeat, versions 0 and 1: members of consumer groups join, stay, and leave (KIP-848).

Version 0 lets the broker choose the member id; from version 1 on the client does, and may subscribe by an expression.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING
from uuid import UUID

from moldau.coordinators.groups.classic_joins import Client
from moldau.coordinators.groups.consumer_member import JOINING_EPOCH, LEAVING_EPOCH, LEAVING_FOR_A_WHILE_EPOCH
from moldau.security.authorizer import Operation, Resource, TopicSight
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import respond
from moldau.server.coordination.groups import serves_consumer_groups
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.uuid_text import encode_uuid
from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

MEMBER_ID_IS_THE_CLIENTS_FROM = 1
NOT_GIVEN = -1


def handle(
    broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    try:
        check_permission(broker, context, request)
        check(broker, context, request)
    except KafkaError as error:
        return refuse(error)
    if not request.member_id:
        request.member_id = member_id_of(broker.controller.new_uuid())
    client = Client(context.client_id, f"/{context.client.address}")
    sight = TopicSight(broker.authorizer, context)
    return respond(
        lambda: broker.groups.write(
            request.group_id, lambda machine, now: machine.consumer.heartbeat(request, client, now, sight)
        ),
        lambda answer: answer,
        refuse,
    )


def refuse(error: KafkaError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def member_id_of(made: UUID) -> str:
    return encode_uuid(made)


def check_permission(broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    if not serves_consumer_groups(broker.image):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    for topic in request.subscribed_topic_names or ():
        if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def check(broker: Broker, context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    require(bool(request.group_id.strip()), "GroupId can't be empty.")
    has_id = bool(request.member_id.strip())
    require(has_id or context.api_version < MEMBER_ID_IS_THE_CLIENTS_FROM, "MemberId can't be empty.")
    require(request.instance_id is None or bool(request.instance_id.strip()), "InstanceId can't be empty.")
    require(request.rack_id is None or bool(request.rack_id.strip()), "RackId can't be empty.")
    match request.member_epoch:
        case epoch if epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
            require(has_id, "MemberId can't be empty.")
        case epoch if epoch == JOINING_EPOCH:
            check_joining(request)
        case epoch if epoch == LEAVING_FOR_A_WHILE_EPOCH:
            require(has_id, "MemberId can't be empty.")
            require(request.instance_id is not None, "InstanceId can't be null.")
        case _:
            require(False, "MemberEpoch is invalid.")
    assignors = broker.config.group_consumer_assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def check_joining(request: ConsumerGroupHeartbeatRequest) -> None:
    has_timeout = request.rebalance_timeout_ms != NOT_GIVEN
    require(has_timeout, "RebalanceTimeoutMs must be provided in first request.")
    owns_nothing = request.topic_partitions is not None and not request.topic_partitions
    require(owns_nothing, "TopicPartitions must be empty when (re-)joining.")
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    require(has_subscription, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def require(holds: bool, message: str) -> None:
    if not holds:
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)


API = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, ConsumerGroupHeartbeatRequest, handle)
