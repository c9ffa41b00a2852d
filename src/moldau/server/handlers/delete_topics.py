"""DeleteTopics, versions 1 to 6: by name, or by id (6+). The data leaves the disk after `file.delete.delay.ms`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.topic_deletion import DeletedTopic, TopicReference, delete_topics
from moldau.metadata.image import ClusterImage
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from moldau.work.slices import Work

if TYPE_CHECKING:
    from moldau.server.broker import Broker

TOPIC_IDS_FROM = 6
DISABLED_IS_SAID_FROM = 3
REFUSED_BEYOND_QUOTA_FROM = 5


async def handle(broker: Broker, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    if context.api_version >= TOPIC_IDS_FROM:
        wanted = [TopicReference(topic.name, topic.topic_id) for topic in request.topics]
    else:
        wanted = [TopicReference(name) for name in request.topic_names]
    if not broker.config.delete_topic_enable:
        said = context.api_version >= DISABLED_IS_SAID_FROM
        code = ErrorCode.TOPIC_DELETION_DISABLED if said else ErrorCode.INVALID_REQUEST
        return DeleteTopicsResponse(
            responses=[
                DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=DISABLED)
                for topic in wanted
            ]
        )
    mutations = broker.quotas.mutations(context, strict=context.api_version >= REFUSED_BEYOND_QUOTA_FROM)

    def rule(image: ClusterImage) -> Work[Decision[list[DeletedTopic]]]:
        mutations.restart()
        return delete_topics(
            image,
            wanted,
            may_describe=lambda name: broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, name),
            may_delete=lambda name: broker.authorizer.allows(context, Operation.DELETE, Resource.TOPIC, name),
            charge=mutations.take,
        )

    deleted = await broker.controller.decide(rule)
    return DeleteTopicsResponse(
        throttle_time_ms=mutations.done(),
        responses=[
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=topic.code, error_message=topic.message
            )
            for topic in deleted
        ],
    )


DISABLED = "Topic deletion is disabled."

API = Api(ApiKey.DELETE_TOPICS, 1, 6, DeleteTopicsRequest, handle)
