"""OffsetFetch, versions 1 to 10: the offsets that groups have committed.

OffsetCommit is not served yet, so no group exists and nothing is committed: every partition, known or not, answers
offset -1 without an error, which tells a consumer to follow its reset policy. It is served before groups are because
librdkafka asks it for any partition assigned without an offset, and its process dies when the broker lacks the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.types.ids import NO_OFFSET
from moldau.wire.apis import ApiKey
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

BATCHED_FROM = 8
TOPIC_IDS_FROM = 10


def handle(broker: Broker, context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if context.api_version >= BATCHED_FROM:
        return OffsetFetchResponse(groups=[offsets_of(broker, context, group) for group in request.groups])
    wanted = [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in request.topics or ()
    ]
    group = offsets_of(broker, context, OffsetFetchRequestGroup(group_id=request.group_id, topics=wanted))
    return OffsetFetchResponse(topics=[unbatched(topic) for topic in group.topics], error_code=group.error_code)


def offsets_of(broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.GROUP, group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    found: list[OffsetFetchResponseTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in group.topics or ():
        error = problem(broker, context, topic)
        (refused if error else found).append(
            OffsetFetchResponseTopics(
                topic_id=topic.topic_id, name=topic.name, partitions=uncommitted(topic.partition_indexes, error)
            )
        )
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=found + refused)


def problem(broker: Broker, context: RequestContext, topic: OffsetFetchRequestTopics) -> ErrorCode:
    name = topic.name
    if context.api_version >= TOPIC_IDS_FROM:
        image = broker.image.topics_by_id.get(topic.topic_id)
        if image is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = image.name
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def uncommitted(indexes: Iterable[int], error: ErrorCode) -> list[OffsetFetchResponsePartitions]:
    return [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=error)
        for index in indexes
    ]


def unbatched(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )


API = Api(ApiKey.OFFSET_FETCH, 1, 10, OffsetFetchRequest, handle)
