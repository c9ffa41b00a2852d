"""OffsetCommit, versions 2 to 10: a group remembers how far it has read. Topics are told by id from version 10 on."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from moldau.coordinators.groups.offset_commits import OffsetCommit, WantedOffset, prepare
from moldau.metadata.image import TopicImage
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import respond
from moldau.server.coordination.offset_parts import OFFSETS_AT_ONCE, commit_in_parts
from moldau.server.quick_commit import QuickCommits
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicId
from moldau.wire.apis import ApiKey
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.work.slices import Work, at_once
from moldau.work.turns import run

if TYPE_CHECKING:
    from moldau.server.broker import Broker

TOPIC_IDS_FROM = 10

#: An offset that the coordinator shall judge, and which of the request's topics it stands under.
Wanted = tuple[int, WantedOffset]


class Answers:
    """The answer under construction: what is refused first, then what the coordinator says.

    As Apache Kafka has it: once something is refused a topic stands once, else as often as it was asked for.
    """

    def __init__(self, by_id: bool) -> None:
        self._by_id = by_id
        self._topics: dict[object, OffsetCommitResponseTopic] = {}

    def refuse(self, name: str, topic_id: TopicId, index: int, code: ErrorCode) -> None:
        self._add(self._key(name, topic_id), name, topic_id, index, code)

    def add(self, wanted: Sequence[Wanted], codes: Sequence[ErrorCode]) -> Work[None]:
        has_refusals = bool(self._topics)
        for start in range(0, len(wanted), OFFSETS_AT_ONCE):
            if start:
                yield
            end = start + OFFSETS_AT_ONCE
            for (position, (name, topic_id, index, *_)), code in zip(wanted[start:end], codes[start:end], strict=True):
                self._add(self._key(name, topic_id) if has_refusals else position, name, topic_id, index, code)

    def _key(self, name: str, topic_id: TopicId) -> object:
        return topic_id if self._by_id else name

    def _add(self, key: object, name: str, topic_id: TopicId, index: int, code: ErrorCode) -> None:
        topic = self._topics.get(key)
        if topic is None:
            topic = self._topics[key] = OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=[])
        assert isinstance(topic.partitions, list)
        topic.partitions.append(OffsetCommitResponsePartition(partition_index=index, error_code=code))

    def pack(self) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=list(self._topics.values()))


def handle(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    answers = Answers(context.api_version >= TOPIC_IDS_FROM)
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        for topic in request.topics:
            refuse_topic(answers, topic, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return answers.pack()
    if sum(len(topic.partitions) for topic in request.topics) > OFFSETS_AT_ONCE:
        return commit_many(broker, context, request, answers)
    wanted = at_once(wanted_offsets(broker, context, request, answers))
    if not wanted:
        return answers.pack()

    def pack(codes: Sequence[ErrorCode]) -> OffsetCommitResponse:
        at_once(answers.add(wanted, codes))
        return answers.pack()

    def refuse(error: KafkaError) -> OffsetCommitResponse:
        return pack([error.code] * len(wanted))

    commit = as_commit(context, request, [offset for _, offset in wanted])
    return respond(
        lambda: broker.groups.write(request.group_id, lambda machine, now: machine.offsets.commit(commit, now)),
        pack,
        refuse,
    )


def as_commit(context: RequestContext, request: OffsetCommitRequest, offsets: Sequence[WantedOffset]) -> OffsetCommit:
    return OffsetCommit(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.api_version,
        offsets,
        request.retention_time_ms,
    )


async def commit_many(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest, answers: Answers
) -> OffsetCommitResponse:
    wanted = await run(wanted_offsets(broker, context, request, answers))
    limit = broker.config.offset_metadata_max_bytes
    codes = await commit_in_parts(
        broker.groups,
        request.group_id,
        [offset for _, offset in wanted],
        lambda part: prepare(as_commit(context, request, part), broker.wall_ms(), limit),
        lambda machine, now, part, ready: machine.offsets.commit(as_commit(context, request, part), now, ready),
    )
    await run(answers.add(wanted, codes))
    return answers.pack()


def wanted_offsets(
    broker: Broker, context: RequestContext, request: OffsetCommitRequest, answers: Answers
) -> Work[list[Wanted]]:
    """What the coordinator shall judge; the rest is refused here."""
    wanted: list[Wanted] = []
    for position, topic in enumerate(request.topics):
        image, problem = find_topic(broker, context, topic)
        if image is None:
            refuse_topic(answers, topic, problem)
            continue
        name, topic_id, count = image.name, image.id, len(image.partitions)
        for start in range(0, len(topic.partitions), OFFSETS_AT_ONCE):
            for partition in topic.partitions[start : start + OFFSETS_AT_ONCE]:
                index = partition.partition_index
                if not 0 <= index < count:
                    answers.refuse(name, topic_id, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    continue
                offset = WantedOffset(
                    name,
                    topic_id,
                    index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                )
                wanted.append((position, offset))
            if start or len(topic.partitions) > OFFSETS_AT_ONCE or position % OFFSETS_AT_ONCE == OFFSETS_AT_ONCE - 1:
                yield
    return wanted


def find_topic(
    broker: Broker, context: RequestContext, topic: OffsetCommitRequestTopic
) -> tuple[TopicImage | None, ErrorCode]:
    if context.api_version >= TOPIC_IDS_FROM:
        image = broker.image.topics_by_id.get(topic.topic_id)
        if image is None:
            return None, ErrorCode.UNKNOWN_TOPIC_ID
    else:
        image = broker.image.topics.get(topic.name)
    name = topic.name if image is None else image.name
    if not broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, name):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return image, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def refuse_topic(answers: Answers, topic: OffsetCommitRequestTopic, code: ErrorCode) -> None:
    for partition in topic.partitions:
        answers.refuse(topic.name, topic.topic_id, partition.partition_index, code)


API = Api(ApiKey.OFFSET_COMMIT, 2, 10, OffsetCommitRequest, handle, shortcut=QuickCommits)
