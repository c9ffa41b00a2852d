"""OffsetFetch, versions 1 to 10: the offsets that groups have committed.

A group that does not exist has committed nothing: every partition answers offset -1 without an error, which tells a
consumer to follow its reset policy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING

from moldau.coordinators.groups.offset_commits import FetchedOffset, FetchedTopic, OffsetFetch, WantedTopic
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import gather, respond
from moldau.server.coordination.offset_parts import OFFSETS_PER_FETCH, fetch_in_parts
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_OFFSET, ZERO_TOPIC_ID, TopicId
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
from moldau.work.slices import Work, at_once, pauses
from moldau.work.turns import run

if TYPE_CHECKING:
    from moldau.server.broker import Broker

BATCHED_FROM = 8
TOPIC_IDS_FROM = 10
GROUP_ERROR_FROM = 2


def handle(
    broker: Broker, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    stable = request.require_stable
    if context.api_version >= BATCHED_FROM:
        parts = [offsets_of(broker, context, group, stable) for group in request.groups]
        return gather(parts, lambda groups: OffsetFetchResponse(groups=groups))
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    part = offsets_of(broker, context, group, stable)
    if isinstance(part, OffsetFetchResponseGroup):
        return at_once(unbatched(context, group, part))
    return unbatched_later(context, group, part)


async def unbatched_later(
    context: RequestContext, asked: OffsetFetchRequestGroup, part: Awaitable[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    return await run(unbatched(context, asked, await part))


def offsets_of(
    broker: Broker, context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup | Awaitable[OffsetFetchResponseGroup]:
    def refuse(error: KafkaError) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)

    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.GROUP, group.group_id):
        return refuse(KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    refused: list[OffsetFetchResponseTopics] = []
    wanted = None
    if group.topics is not None:
        wanted = wanted_topics(broker, context, group.topics, refused)
    fetch = OffsetFetch(group.group_id, wanted, require_stable, group.member_id, group.member_epoch)

    def pack(topics: Sequence[FetchedTopic]) -> Work[OffsetFetchResponseGroup]:
        found = yield from fetched_topics(broker, context, topics, is_all=wanted is None)
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=[*found, *refused])

    async def fetch_many() -> OffsetFetchResponseGroup:
        try:
            return await run(pack(await fetch_in_parts(broker.groups, fetch)))
        except KafkaError as error:
            return refuse(error)

    if wanted is None or sum(len(topic.partitions) for topic in wanted) > OFFSETS_PER_FETCH:
        return fetch_many()
    return respond(
        lambda: broker.groups.read(group.group_id, lambda machine, now: machine.offsets.fetch(fetch)),
        lambda topics: at_once(pack(topics)),
        refuse,
    )


def wanted_topics(
    broker: Broker,
    context: RequestContext,
    topics: Iterable[OffsetFetchRequestTopics],
    refused: list[OffsetFetchResponseTopics],
) -> list[WantedTopic]:
    wanted = []
    for topic in topics:
        name, topic_id = topic.name, ZERO_TOPIC_ID
        error = ErrorCode.NONE
        if context.api_version >= TOPIC_IDS_FROM:
            image = broker.image.topics_by_id.get(topic.topic_id)
            name, topic_id = ("" if image is None else image.name), topic.topic_id
            error = ErrorCode.UNKNOWN_TOPIC_ID if image is None else error
        if not error and not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if error:
            partitions = [uncommitted(index, error) for index in topic.partition_indexes]
            refused.append(OffsetFetchResponseTopics(topic_id=topic_id, name=name, partitions=partitions))
        else:
            wanted.append(WantedTopic(name, topic_id, topic.partition_indexes))
    return wanted


def fetched_topics(
    broker: Broker, context: RequestContext, topics: Iterable[FetchedTopic], is_all: bool
) -> Work[list[OffsetFetchResponseTopics]]:
    paused = pauses()
    found = []
    for topic in topics:
        topic_id: TopicId = ZERO_TOPIC_ID
        if context.api_version >= TOPIC_IDS_FROM:
            image = broker.image.topics.get(topic.topic)
            if image is None:
                continue
            topic_id = image.id
        if is_all and not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.topic):
            continue
        partitions = []
        for partition in topic.partitions:
            partitions.append(committed(partition))
            if next(paused):
                yield
        found.append(OffsetFetchResponseTopics(topic_id=topic_id, name=topic.topic, partitions=partitions))
    return found


def committed(fetched: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=fetched.partition,
        committed_offset=fetched.offset,
        committed_leader_epoch=fetched.leader_epoch,
        metadata=fetched.metadata,
        error_code=fetched.error,
    )


def uncommitted(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=error)


def unbatched(
    context: RequestContext, asked: OffsetFetchRequestGroup, group: OffsetFetchResponseGroup
) -> Work[OffsetFetchResponse]:
    """The answer before version 8. In version 1 the group's error stands at each partition."""
    topics = list(group.topics)
    if group.error_code and context.api_version < GROUP_ERROR_FROM:
        error = ErrorCode(group.error_code)
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name, partitions=[uncommitted(index, error) for index in topic.partition_indexes]
            )
            for topic in asked.topics or ()
        ]
    paused = pauses()
    answers = []
    for topic in topics:
        partitions = []
        for partition in topic.partitions:
            partitions.append(unbatched_partition(partition))
            if next(paused):
                yield
        answers.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(topics=answers, error_code=group.error_code)


def unbatched_partition(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


API = Api(ApiKey.OFFSET_FETCH, 1, 10, OffsetFetchRequest, handle)
