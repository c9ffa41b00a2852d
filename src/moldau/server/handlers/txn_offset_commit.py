"""TxnOffsetCommit, versions 0 to 5: offsets of a group that count when the producer's transaction is committed.

Up to version 4 the producer has announced the group by AddOffsetsToTxn, which is verified; from 5 on (transaction
version 2) the group's offsets partition becomes part of the transaction here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from moldau.coordinators.groups.offset_commits import OffsetCommit, WantedOffset, prepare
from moldau.coordinators.machine import ProducerStamp
from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.futures import answer_of
from moldau.server.coordination.offset_parts import OFFSETS_AT_ONCE, commit_in_parts
from moldau.server.registry import Api
from moldau.server.verification import ask, question
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import run

if TYPE_CHECKING:
    from moldau.server.broker import Broker

ADDS_PARTITIONS_FROM = 5
ABORTABLE_IS_KNOWN_FROM = 4
#: Older producers break down when they hear that a coordinator is loading.
LOADING_IS_KNOWN_FROM = 2

Codes = Mapping[TopicPartition, ErrorCode]


async def handle(broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    refused = refusal(broker, context, request)
    if refused is not None:
        return await run(whole(request, refused))
    wanted, codes = await run(sort_out(broker, context, request.topics))
    if wanted:
        try:
            found: Sequence[ErrorCode] = await commit(broker, context, request, wanted)
        except KafkaError as error:
            found = [as_client_error(error.code, context.api_version)] * len(wanted)
        codes |= {TopicPartition(one.topic, one.partition): code for one, code in zip(wanted, found, strict=True)}
    return await run(respond(request, codes))


def refusal(broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest) -> ErrorCode | None:
    transactional_id = request.transactional_id
    if not broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return None


def sort_out(
    broker: Broker, context: RequestContext, topics: Sequence[TxnOffsetCommitRequestTopic]
) -> Work[tuple[list[WantedOffset], dict[TopicPartition, ErrorCode]]]:
    """What the coordinator shall judge, and what is refused here."""
    paused = pauses()
    wanted: list[WantedOffset] = []
    codes: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        image = broker.image.topics.get(topic.name)
        allowed = broker.authorizer.allows(context, Operation.READ, Resource.TOPIC, topic.name)
        for partition in topic.partitions:
            if next(paused):
                yield
            index = partition.partition_index
            if not allowed:
                codes[TopicPartition(topic.name, index)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image is None or not 0 <= index < len(image.partitions):
                codes[TopicPartition(topic.name, index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                wanted.append(
                    WantedOffset(
                        topic.name,
                        image.id,
                        index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                    )
                )
    return wanted, codes


async def commit(
    broker: Broker, context: RequestContext, request: TxnOffsetCommitRequest, wanted: Sequence[WantedOffset]
) -> Sequence[ErrorCode]:
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    adds_partitions = context.api_version >= ADDS_PARTITIONS_FROM
    partition = TopicPartition(broker.groups.topic, broker.groups.shard_of(request.group_id))
    asked = question(broker, partition, producer, adds_partitions)
    if asked is not None:
        refused = await ask(broker, request.transactional_id, [asked], adds_partitions)
        if refused:
            raise refused[partition]
    stamp = ProducerStamp(*producer)

    def as_commit(part: Sequence[WantedOffset]) -> OffsetCommit:
        return OffsetCommit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            context.api_version,
            part,
        )

    if len(wanted) <= OFFSETS_AT_ONCE:
        one = as_commit(wanted)
        return await answer_of(
            broker.groups.write(
                request.group_id, lambda machine, now: machine.offsets.commit_in_transaction(one, stamp, now)
            )
        )
    limit = broker.config.offset_metadata_max_bytes
    found = await commit_in_parts(
        broker.groups,
        request.group_id,
        wanted,
        lambda part: prepare(as_commit(part), broker.wall_ms(), limit),
        lambda machine, now, part, ready: machine.offsets.commit_in_transaction(as_commit(part), stamp, now, ready),
    )
    told = {code: as_client_error(code, context.api_version) for code in set(found)}
    return [told[code] for code in found]


def as_client_error(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_IS_KNOWN_FROM:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_PARTITIONS_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_IS_KNOWN_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def whole(request: TxnOffsetCommitRequest, code: ErrorCode) -> Work[TxnOffsetCommitResponse]:
    codes = {
        TopicPartition(topic.name, partition.partition_index): code
        for topic in request.topics
        for partition in topic.partitions
    }
    return respond(request, codes)


def respond(request: TxnOffsetCommitRequest, codes: Codes) -> Work[TxnOffsetCommitResponse]:
    paused = pauses()
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            code = codes[TopicPartition(topic.name, index)]
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=code))
            if next(paused):
                yield
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitResponse(topics=topics)


API = Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, TxnOffsetCommitRequest, handle)
