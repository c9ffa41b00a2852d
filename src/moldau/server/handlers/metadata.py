"""Metadata, versions 0 to 13: brokers, topics, partitions and their leaders; creates unknown topics if that is
allowed.

A topic that is created by this request is in the answer at once (Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION and
lets the client ask again). Topics are written to bytes once per image and version: every client asks for them.
Partitions of a topic are mostly alike but for their number, which is put into the bytes of the first one.

Differences to Apache Kafka that let clients find a new leader sooner: a broker that has gone is listed for 30 s more;
while a leader is suspected to be dead the answer is held until the next image, for half a second at most; and who names
topics that other brokers lead waits for a moment, so that a death that he knows of is suspected here too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from moldau.metadata.image import PartitionImage, TopicImage
from moldau.security.authorizer import (
    OPERATIONS_NOT_ASKED,
    Operation,
    Resource,
    TopicSight,
    authorized_operations,
)
from moldau.security.context import RequestContext
from moldau.server.cluster_access import cluster_operations
from moldau.server.registry import Api
from moldau.server.suspicion import MOMENT_SECONDS, concerns_suspects, led_elsewhere, until_settled
from moldau.server.topic_making import auto_create_topic
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import ZERO_TOPIC_ID, TopicId
from moldau.wire.apis import ApiKey
from moldau.wire.codec import Encoded, encode_part, encode_part_in_turns
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.primitives import INT16, INT32
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin, run

if TYPE_CHECKING:
    from moldau.server.broker import Broker

TOPIC_IDS_FROM = 12
AUTO_CREATION_IS_ASKED_FROM = 4
TOPICS_PER_TURN = 32

TopicWork: TypeAlias = Work[MetadataResponseTopic | Encoded]


def handle(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if broker.suspects and concerns_suspects(broker.image, broker.suspects, asked_topics(broker, context, request)):
        return hold_then_respond(broker, context, request)
    if request.topics and led_elsewhere(broker.image, broker.node_id, asked_topics(broker, context, request)):
        return look_then_respond(broker, context, request)
    return respond_now(broker, context, request)


def asked_topics(broker: Broker, context: RequestContext, request: MetadataRequest) -> Collection[str]:
    """Those that the client may describe: how long it waits must not tell of others."""
    if not request.topics:
        return broker.image.topics
    by_id = broker.image.topics_by_id
    named = [wanted.name for wanted in request.topics if wanted.name is not None]
    named += [by_id[wanted.topic_id].name for wanted in request.topics if wanted.topic_id in by_id]
    sees = TopicSight(broker.authorizer, context).sees
    return [name for name in named if sees(name)]


async def look_then_respond(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """A client that has lost a leader asks in the very moment in which we lose it, and may be faster than our link."""
    await asyncio.sleep(MOMENT_SECONDS)
    return await hold_then_respond(broker, context, request)


async def hold_then_respond(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    await until_settled(broker, asked_topics(broker, context, request))
    answer = respond_now(broker, context, request)
    return answer if isinstance(answer, MetadataResponse) else await answer


def respond_now(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    version = context.api_version
    if request.topics is None or (version == 0 and not request.topics):
        return begin(respond(broker, context, request, all_topics(broker, context, request)))
    ids = dict.fromkeys(wanted.topic_id for wanted in request.topics if wanted.topic_id != ZERO_TOPIC_ID)
    if ids and version < TOPIC_IDS_FROM:
        return refused(request.topics, ErrorCode.INVALID_REQUEST)
    if ids:  # then names count for nothing
        return begin(respond(broker, context, request, (answer_id(broker, context, request, each) for each in ids)))
    names = dict.fromkeys(wanted.name for wanted in request.topics if wanted.name is not None)
    if any(wanted.name is None for wanted in request.topics):
        return refused(request.topics, ErrorCode.UNKNOWN_SERVER_ERROR)
    missing = missing_topics(broker, context, request, names)
    if missing:
        return create_then_respond(broker, context, request, names, missing)
    named = (answer_name(broker, context, request, name, {}) for name in names)
    return begin(respond(broker, context, request, named))


def all_topics(broker: Broker, context: RequestContext, request: MetadataRequest) -> Iterator[TopicWork]:
    for topic in broker.image.topics.values():
        if broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.name, audited=False):
            yield describe(broker, context, request, topic)


def refused(topics: Iterable[MetadataRequestTopic], code: ErrorCode) -> MetadataResponse:
    """A request that cannot be meant so: nothing is told but the error, for each topic and as a whole."""
    answers = [
        MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id) for topic in topics
    ]
    return MetadataResponse(topics=answers, error_code=code)


def missing_topics(
    broker: Broker, context: RequestContext, request: MetadataRequest, names: Iterable[str]
) -> list[str]:
    """Names to create: unknown, creation wanted by the client and allowed by the broker. Whether the client may is
    another question."""
    wants = context.api_version < AUTO_CREATION_IS_ASKED_FROM or request.allow_auto_topic_creation
    if not wants or not broker.config.auto_create_topics_enable:
        return []
    return sorted(
        name
        for name in names
        if name not in broker.image.topics
        and broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name, audited=False)
    )


async def create_then_respond(
    broker: Broker, context: RequestContext, request: MetadataRequest, names: Iterable[str], missing: Sequence[str]
) -> MetadataResponse:
    failures: dict[str, ErrorCode] = {}
    mutations = broker.quotas.mutations(context, strict=True)
    for name in missing:
        if not may_create(broker, context, name):
            failures[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            continue
        try:
            mutations.take(broker.config.num_partitions)
            await auto_create_topic(broker, name)
        except KafkaError as error:
            is_too_much = error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
            # No client knows the other one here; this one it asks about again.
            failures[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_too_much else error.code
    named = (answer_name(broker, context, request, name, failures) for name in names)
    answer = await run(respond(broker, context, request, named))
    answer.throttle_time_ms = mutations.done()
    return answer


def may_create(broker: Broker, context: RequestContext, name: str) -> bool:
    allows = broker.authorizer.allows
    return allows(context, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, audited=False) or allows(
        context, Operation.CREATE, Resource.TOPIC, name
    )


def answer_id(broker: Broker, context: RequestContext, request: MetadataRequest, topic_id: TopicId) -> TopicWork:
    topic = broker.image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=topic_id, name=None)
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id=topic_id, name=None)
    return (yield from describe(broker, context, request, topic))


def answer_name(
    broker: Broker, context: RequestContext, request: MetadataRequest, name: str, failures: Mapping[str, ErrorCode]
) -> TopicWork:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = broker.image.topics.get(name)
    if topic is not None:
        return (yield from describe(broker, context, request, topic))
    answer = MetadataResponseTopic(error_code=failures.get(name) or unknown_code(broker, name), name=name)
    if request.include_topic_authorized_operations and failures.get(name) != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        answer.topic_authorized_operations = authorized_operations(broker.authorizer, context, Resource.TOPIC, name)
    return answer


def unknown_code(broker: Broker, name: str) -> ErrorCode:
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.controller.is_valid_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )


def describe(broker: Broker, context: RequestContext, request: MetadataRequest, topic: TopicImage) -> TopicWork:
    version = context.api_version
    if request.include_topic_authorized_operations:
        operations = authorized_operations(broker.authorizer, context, Resource.TOPIC, topic.name)
        return (yield from describe_topic(broker, topic, version, operations))
    key = (topic.name, version)
    cached = broker.metadata_cache.get(key)
    brokers = broker.image.brokers
    if cached is None or cached[0] is not topic or cached[1] is not brokers or broker.has_failed_directories:
        described = yield from describe_topic(broker, topic, version, OPERATIONS_NOT_ASKED)
        part = yield from encode_part_in_turns(MetadataResponse, described, version)
        cached = broker.metadata_cache[key] = (topic, brokers, part)
    return cached[2]


def describe_topic(broker: Broker, topic: TopicImage, version: int, operations: int) -> Work[MetadataResponseTopic]:
    paused = pauses()
    partitions: list[Encoded] = []
    alike: dict[tuple[object, ...], tuple[bytes, bytes]] = {}
    for index, partition in enumerate(topic.partitions):
        offline = tuple(broker.offline_replicas(topic.name, index, partition))
        kind = (partition.leader, partition.leader_epoch, partition.replicas, partition.isr, offline)
        around = alike.get(kind)
        if around is None:
            around = alike[kind] = around_index(partition, offline, version)
        partitions.append(Encoded(around[0] + INT32.pack(index) + around[1]))
        if next(paused):
            yield
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,  # type: ignore[arg-type]  # the codec takes what is already encoded
        topic_authorized_operations=operations,
    )


def around_index(partition: PartitionImage, offline: Sequence[int], version: int) -> tuple[bytes, bytes]:
    """A partition's bytes before and behind its number, which follows the error code at every version. The first one
    has no place for replicas that are down: it tells those that are not, and that some are missing."""
    code, replicas, in_sync = ErrorCode.NONE, partition.replicas, partition.isr
    if version == 0 and offline:
        code = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas, in_sync = without(replicas, offline), without(in_sync, offline)
    if partition.leader < 0:
        code = ErrorCode.LEADER_NOT_AVAILABLE
    written = encode_part(
        MetadataResponse,
        MetadataResponsePartition(
            error_code=code,
            leader_id=partition.leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=in_sync,
            offline_replicas=offline,
        ),
        version,
    )
    return written[: INT16.size], written[INT16.size + INT32.size :]


def without(replicas: Sequence[int], offline: Sequence[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in offline)


def respond(
    broker: Broker, context: RequestContext, request: MetadataRequest, topics: Iterable[TopicWork]
) -> Work[MetadataResponse]:
    paused = pauses(TOPICS_PER_TURN)
    answers: list[MetadataResponseTopic | Encoded] = []
    for topic in topics:
        answers.append((yield from topic))
        if next(paused):
            yield
    operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(broker, context)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.listed_nodes(context.client.listener)
        ],
        cluster_id=broker.image.cluster_id,
        controller_id=broker.controller_id,
        topics=answers,  # type: ignore[arg-type]  # the codec takes what is already encoded
        cluster_authorized_operations=operations,
    )


API = Api(ApiKey.METADATA, 0, 13, MetadataRequest, handle)
