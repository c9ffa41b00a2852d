"""Metadata, versions 0 to 13: brokers, topics, partitions and their leaders; creates unknown topics if that is
allowed.

A topic that is created by this request is in the answer at once (Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION and
lets the client ask again). Topics are written to bytes once per image and version: every client asks for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from moldau.metadata.image import TopicImage
from moldau.security.authorizer import OPERATIONS_NOT_ASKED, Operation, Resource, authorized_operations
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import ZERO_TOPIC_ID
from moldau.wire.apis import ApiKey
from moldau.wire.codec import Encoded, encode_part
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

TOPIC_IDS_FROM = 12
AUTO_CREATION_IS_ASKED_FROM = 4
CLUSTER = "kafka-cluster"


def handle(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    version = context.api_version
    if request.topics is None or (version == 0 and not request.topics):
        allowed = [
            topic
            for topic in broker.image.topics.values()
            if broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic.name)
        ]
        return respond(broker, context, request, [describe(broker, context, request, topic) for topic in allowed])
    missing = missing_topics(broker, context, request)
    if missing:
        return create_then_respond(broker, context, request, missing)
    return answer_wanted(broker, context, request, {})


def missing_topics(broker: Broker, context: RequestContext, request: MetadataRequest) -> list[str]:
    """Names to create: asked for by name, unknown, creation wanted by the client and allowed by the broker."""
    wants = context.api_version < AUTO_CREATION_IS_ASKED_FROM or request.allow_auto_topic_creation
    if not wants or not broker.config.auto_create_topics_enable:
        return []
    names = {
        wanted.name for wanted in request.topics or () if wanted.name is not None and wanted.topic_id == ZERO_TOPIC_ID
    }
    return sorted(
        name
        for name in names
        if name not in broker.image.topics and broker.authorizer.allows(context, Operation.CREATE, Resource.TOPIC, name)
    )


async def create_then_respond(
    broker: Broker, context: RequestContext, request: MetadataRequest, missing: Sequence[str]
) -> MetadataResponse:
    failures: dict[str, ErrorCode] = {}
    for name in missing:
        try:
            await broker.controller.auto_create_topic(name)
        except KafkaError as error:
            failures[name] = error.code
    return answer_wanted(broker, context, request, failures)


def answer_wanted(
    broker: Broker, context: RequestContext, request: MetadataRequest, failures: dict[str, ErrorCode]
) -> MetadataResponse:
    seen: set[str | None] = set()
    answers = []
    for wanted in request.topics or ():
        if wanted.name in seen and wanted.topic_id == ZERO_TOPIC_ID:
            continue
        seen.add(wanted.name)
        answers.append(answer_one(broker, context, request, wanted, failures))
    return respond(broker, context, request, answers)


def answer_one(
    broker: Broker,
    context: RequestContext,
    request: MetadataRequest,
    wanted: MetadataRequestTopic,
    failures: dict[str, ErrorCode],
) -> MetadataResponseTopic | Encoded:
    if wanted.topic_id != ZERO_TOPIC_ID and context.api_version >= TOPIC_IDS_FROM:
        by_id = broker.image.topics_by_id.get(wanted.topic_id)
        if by_id is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, topic_id=wanted.topic_id, name=None)
        return describe(broker, context, request, by_id)
    name = wanted.name or ""
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name):
        return MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    topic = broker.image.topics.get(name)
    if topic is None:
        code = failures.get(name) or unknown_code(broker, name)
        return MetadataResponseTopic(error_code=code, name=name)
    return describe(broker, context, request, topic)


def unknown_code(broker: Broker, name: str) -> ErrorCode:
    return (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if broker.controller.is_valid_name(name)
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )


def describe(
    broker: Broker, context: RequestContext, request: MetadataRequest, topic: TopicImage
) -> MetadataResponseTopic | Encoded:
    if request.include_topic_authorized_operations:
        operations = authorized_operations(broker.authorizer, context, Resource.TOPIC, topic.name)
        return describe_topic(broker, topic, operations)
    key = (topic.name, context.api_version)
    cached = broker.metadata_cache.get(key)
    if cached is None or cached[0] is not topic or broker.has_failed_directories:
        part = encode_part(MetadataResponse, describe_topic(broker, topic, OPERATIONS_NOT_ASKED), context.api_version)
        cached = broker.metadata_cache[key] = (topic, part)
    return cached[1]


def describe_topic(broker: Broker, topic: TopicImage, operations: int) -> MetadataResponseTopic:
    partitions = []
    for index, partition in enumerate(topic.partitions):
        offline = broker.offline_replicas(topic.name, index, partition.replicas)
        partitions.append(
            MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader < 0 else ErrorCode.NONE,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                offline_replicas=offline,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def respond(
    broker: Broker, context: RequestContext, request: MetadataRequest, topics: Sequence[MetadataResponseTopic | Encoded]
) -> MetadataResponse:
    cluster_operations = OPERATIONS_NOT_ASKED
    if request.include_cluster_authorized_operations:
        cluster_operations = authorized_operations(broker.authorizer, context, Resource.CLUSTER, CLUSTER)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in broker.nodes(context.client.listener)
        ],
        cluster_id=broker.image.cluster_id,
        controller_id=broker.node_id,
        topics=topics,  # type: ignore[arg-type]  # the codec takes what is already encoded
        cluster_authorized_operations=cluster_operations,
    )


API = Api(ApiKey.METADATA, 0, 13, MetadataRequest, handle)
