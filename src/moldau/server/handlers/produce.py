"""Produce, announced from version 0, served from 3 to 13.

acks 0, 1 and all, time-outs, errors per partition and per record, topic ids (13). Requests of one connection are
pipelined: their batches are staged in order and written together at the end of the loop's turn. Transactional batches
that may be written are verified with the transaction coordinator first; the connection is parked meanwhile, and also
while a request with batches for hundreds of partitions is taken apart in turns; and where a quota may make the client
wait.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import UUID

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server import quick_produce
from moldau.server.busy import Timed, timed
from moldau.server.producing import ALL, NOTHING, TOPIC_IDS_FROM, PartitionResult, Produce
from moldau.server.registry import LARGE_REQUEST_BYTES, Api
from moldau.server.verification import ADDS_PARTITIONS_FROM, Claim, Question, as_produce_error, ask, questions_of
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC_AT, MAGIC_V2, TRANSACTIONAL_BIT
from moldau.wire.codec import DecodeError, decode, decode_in_turns, encode_in_turns
from moldau.wire.framing import frame_response
from moldau.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.wire.schema import Buffer
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin, run

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.server.connection import Frame, Slot

log = logging.getLogger("moldau.server.produce")

ENDPOINTS_FROM = 10
#: Each is validated, and written at the end of the turn.
BATCHES_PER_TURN = 16

index_of: Callable[[PartitionProduceData], int] = attrgetter("index")
VALID_ACKS = (ALL, NOTHING, 1)


def handle(broker: Broker, context: RequestContext, frame: Frame, body: int, slot: Slot) -> None:
    work = take_apart(broker, context, frame, body, slot)
    if broker.quotas.active:
        work = timed(slot, work)
        if broker.quotas.limits(context):
            slot.connection.park()  # what came behind it waits as well, if this request is beyond the limit
    begun = begin(work)
    if begun is not None:
        slot.connection.park()
        broker.start(go_on(begun, broker, context, frame, slot))


async def go_on(begun: Awaitable[None], broker: Broker, context: RequestContext, frame: Frame, slot: Slot) -> None:
    try:
        await begun
    except DecodeError as error:
        log.warning("%s: closing: a request cannot be read: %s", context.client.address, error)
        frame.release()
        slot.disconnect()
    except Exception:
        log.exception("%s: closing: a write failed", context.client.address)
        broker.appends.flush()  # what is staged lies in the frame
        frame.release()
        slot.disconnect()


def take_apart(broker: Broker, context: RequestContext, frame: Frame, body: int, slot: Slot) -> Work[None]:
    started = perf_counter()
    if frame.size < LARGE_REQUEST_BYTES:
        request, _ = decode(ProduceRequest, context.api_version, frame.view, body)
    else:
        request, _ = yield from decode_in_turns(ProduceRequest, context.api_version, frame.view, body)
    drop_repeated(request)
    produce = Produce(broker, context, frame, slot, request.acks, request.timeout_ms, respond, started)
    claims = yield from transactional_claims(broker, context, request)
    refusal = refused_as_a_whole(broker, context, request, bool(claims))
    if claims and refusal is None and request.transactional_id is not None:
        questions = yield from questions_of(broker, permitted(broker, context, claims), context.api_version)
        if questions:
            slot.connection.park()
            verified = append_verified(produce, request, request.transactional_id, questions)
            broker.start(measured(slot, verified) if broker.quotas.active else verified)
            return
    yield from append_all(produce, request, refusal, {})
    quick_produce.remember(broker, slot.connection, frame, context, request, respond)
    produce.staged()


def drop_repeated(request: ProduceRequest) -> None:
    """Of a partition that is named twice the last batch counts, as in Apache Kafka."""
    topics = request.topic_data
    are_named_once = all(len(set(map(index_of, each.partition_data))) == len(each.partition_data) for each in topics)
    if are_named_once and len({(topic.topic_id, topic.name) for topic in topics}) == len(topics):
        return
    last = {
        (topic.topic_id, topic.name, wanted.index): wanted
        for topic in request.topic_data
        for wanted in topic.partition_data
    }
    for topic in request.topic_data:
        topic.partition_data = [
            wanted for wanted in topic.partition_data if last[topic.topic_id, topic.name, wanted.index] is wanted
        ]


def append_all(
    produce: Produce,
    request: ProduceRequest,
    refusal: ErrorCode | None,
    unverified: Mapping[TopicPartition, KafkaError],
) -> Work[None]:
    paused = pauses(BATCHES_PER_TURN)
    for topic in request.topic_data:
        key: UUID | str = topic.topic_id if produce.context.api_version >= TOPIC_IDS_FROM else topic.name
        name = topic_name(produce.broker, produce.context, topic)
        for wanted in topic.partition_data:
            late = unverified.get(TopicPartition(name, wanted.index))
            if refusal is not None:
                produce.refuse(key, wanted.index, refusal)
            elif late is not None:
                told = as_produce_error(late, produce.context.api_version)
                produce.refuse(key, wanted.index, told.code, told.message)
            else:
                produce.append(key, wanted.index, wanted.records)
            if next(paused):
                yield


async def append_verified(
    produce: Produce,
    request: ProduceRequest,
    transactional_id: str,
    questions: Sequence[Question],
) -> None:
    adds_partitions = produce.context.api_version >= ADDS_PARTITIONS_FROM
    try:
        unverified = await ask(produce.broker, transactional_id, questions, adds_partitions)
        await run(append_all(produce, request, None, unverified))
        produce.staged()
    except Exception:
        log.exception("%s: closing: a transactional write failed", produce.context.client.address)
        produce.broker.appends.flush()  # what is staged lies in the frame
        produce.frame.release()
        produce.slot.disconnect()


async def measured(slot: Slot, work: Awaitable[None]) -> None:
    await Timed(slot, work)


def transactional_claims(broker: Broker, context: RequestContext, request: ProduceRequest) -> Work[list[Claim]]:
    paused = pauses()
    claims: list[Claim] = []
    for topic in request.topic_data:
        for wanted in topic.partition_data:
            if wanted.records is not None and is_transactional(wanted.records):
                claims.append((TopicPartition(topic_name(broker, context, topic), wanted.index), wanted.records))
            if next(paused):
                yield
    return claims


def topic_name(broker: Broker, context: RequestContext, topic: TopicProduceData) -> str:
    if context.api_version < TOPIC_IDS_FROM:
        return topic.name
    found = broker.image.topics_by_id.get(topic.topic_id)
    return "" if found is None else found.name


def permitted(broker: Broker, context: RequestContext, claims: Sequence[Claim]) -> Iterator[Claim]:
    """What may be written at all: of anything else the coordinator must not hear, nor the client how it answers."""
    writable: dict[str, bool] = {}
    for claim in claims:
        topic = claim[0].topic
        if topic not in writable:
            writable[topic] = broker.authorizer.allows(
                context, Operation.WRITE, Resource.TOPIC, topic, audited=False
            )  # its batches are refused, and that is audited, where the others are appended
        if writable[topic]:
            yield claim


def refused_as_a_whole(
    broker: Broker, context: RequestContext, request: ProduceRequest, has_transactional_batches: bool
) -> ErrorCode | None:
    if has_transactional_batches and not may_write_in(broker, context, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None if request.acks in VALID_ACKS else ErrorCode.INVALID_REQUIRED_ACKS


def may_write_in(broker: Broker, context: RequestContext, transactional_id: str | None) -> bool:
    return transactional_id is not None and broker.authorizer.allows(
        context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id
    )


def is_transactional(records: Buffer) -> bool:
    """Whether the first batch calls itself so; what is not a batch is refused later for what it is."""
    if len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC_V2:
        return False
    return bool(records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_BIT)


def respond(produce: Produce) -> None:
    """Every partition's fate is known."""
    context, slot = produce.context, produce.slot
    if produce.acks == NOTHING:
        if any(result.error for result in produce.results):
            # The only way to tell a client that does not listen: it will fetch metadata anew.
            slot.disconnect()
        else:
            slot.answer(())
        return
    is_measured = produce.broker.quotas.active
    begun = begin(timed(slot, answer(produce)) if is_measured else answer(produce))
    if begun is not None:
        produce.broker.start(go_on(begun, produce.broker, context, produce.frame, slot))


def answer(produce: Produce) -> Work[None]:
    context, slot = produce.context, produce.slot
    paused = pauses()
    topics: dict[UUID | str, list[PartitionProduceResponse]] = {}
    for result in produce.results:
        topics.setdefault(result.key, []).append(partition_response(result))
        if next(paused):
            yield
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(topic_id=key, partition_responses=partitions)
            if isinstance(key, UUID)
            else TopicProduceResponse(name=key, partition_responses=partitions)
            for key, partitions in topics.items()
        ],
        throttle_time_ms=slot.mute_ms,
        node_endpoints=endpoints(produce),
    )
    body = yield from encode_in_turns(response, context.api_version)
    flexible = context.api_version >= ProduceRequest.FLEXIBLE_FROM
    if produce.broker.quotas.active:
        produce.broker.quotas.spent(context, slot.take_busy_seconds())
    slot.answer([frame_response(context.correlation_id, flexible, body)])


def endpoints(produce: Produce) -> list[NodeEndpoint]:
    """Where the leaders are that are told beside an error."""
    leaders = {result.current_leader[0] for result in produce.results if result.current_leader is not None}
    if not leaders or produce.context.api_version < ENDPOINTS_FROM:
        return []
    return [
        NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in produce.broker.nodes(produce.context.client.listener)
        if node.node_id in leaders
    ]


def partition_response(result: PartitionResult) -> PartitionProduceResponse:
    leader = result.current_leader
    return PartitionProduceResponse(
        index=result.index,
        error_code=result.error,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in result.record_errors
        ],
        error_message=result.message,
        current_leader=None if leader is None else LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
    )


API = Api(ApiKey.PRODUCE, 0, 13, ProduceRequest, raw=handle, pipelined=True, refused_below=3)
