"""OffsetDelete, version 0: an administrator removes committed offsets of topics that the group does not read."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import respond
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

Codes = list[tuple[TopicPartition, ErrorCode]]


def handle(
    broker: Broker, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    def refuse(error: KafkaError) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=error.code)

    if not broker.authorizer.allows(context, Operation.DELETE, Resource.GROUP, request.group_id):
        return refuse(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    if not request.group_id:
        return refuse(KafkaError(ErrorCode.INVALID_GROUP_ID))
    refused: Codes = []
    wanted: list[TopicPartition] = []
    for topic in request.topics:
        for partition in topic.partitions:
            wanted_one = TopicPartition(topic.name, partition.partition_index)
            problem = problem_of(broker, context, wanted_one)
            if problem:
                refused.append((wanted_one, problem))
            else:
                wanted.append(wanted_one)

    def pack(codes: Sequence[ErrorCode]) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(topics=by_topic([*refused, *zip(wanted, codes, strict=True)]))

    return respond(
        lambda: broker.groups.write(
            request.group_id, lambda machine, now: machine.removal.delete_offsets(request.group_id, wanted)
        ),
        pack,
        refuse,
    )


def problem_of(broker: Broker, context: RequestContext, wanted: TopicPartition) -> ErrorCode:
    if not broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, wanted.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if broker.image.partition(*wanted) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def by_topic(codes: Codes) -> list[OffsetDeleteResponseTopic]:
    topics: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for (topic, index), code in codes:
        answer = OffsetDeleteResponsePartition(partition_index=index, error_code=code)
        topics.setdefault(topic, []).append(answer)
    return [OffsetDeleteResponseTopic(name=topic, partitions=answers) for topic, answers in topics.items()]


API = Api(ApiKey.OFFSET_DELETE, 0, 0, OffsetDeleteRequest, handle)
