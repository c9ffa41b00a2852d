"""CreateTopics, versions 2 to 7: with defaults, with a manual assignment, with configs, or only validated.

The timeout is not needed: an answer is sent when the metadata store has the topics and this broker knows
of them; no time is waited for their leaders.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.config.dynamic import created_topic_configs
from moldau.metadata.controller.topic_creation import CreatedTopic, NewTopic
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import is_another_broker
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.codec import encode_part
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import run

if TYPE_CHECKING:
    from moldau.server.broker import Broker

#: Each is told with all of its settings.
TOPICS_PER_TURN = 2
REFUSED_BEYOND_QUOTA_FROM = 6


async def handle(broker: Broker, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    authorizer = broker.authorizer
    # Another broker asks for internal topics, and for what it has let its client create.
    may_create_all = is_another_broker(broker, context) or authorizer.allows(
        context, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME, audited=False
    )

    def may_create(name: str) -> bool:
        return may_create_all or authorizer.allows(context, Operation.CREATE, Resource.TOPIC, name)

    wanted = [new_topic(topic) for topic in request.topics]
    mutations = broker.quotas.mutations(context, strict=context.api_version >= REFUSED_BEYOND_QUOTA_FROM)
    created = await broker.controller.create_topics(wanted, request.validate_only, may_create, mutations)
    answer = await run(respond(broker, context, created))
    answer.throttle_time_ms = mutations.done()
    return answer


def respond(broker: Broker, context: RequestContext, created: Iterable[CreatedTopic]) -> Work[CreateTopicsResponse]:
    paused = pauses(TOPICS_PER_TURN)
    answers = []
    for topic in created:
        answers.append(encode_part(CreateTopicsResponse, result(broker, context, topic), context.api_version))
        if next(paused):
            yield
    return CreateTopicsResponse(topics=answers)  # type: ignore[arg-type]  # the codec takes what is already encoded


def new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, tuple(assignment.broker_ids)) for assignment in topic.assignments],
        [(config.name, config.value) for config in topic.configs],
    )


def result(broker: Broker, context: RequestContext, created: CreatedTopic) -> CreatableTopicResult:
    if created.code != ErrorCode.NONE:
        return CreatableTopicResult(name=created.name, error_code=created.code, error_message=created.message)
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, created.name, audited=False):
        return CreatableTopicResult(
            name=created.name,
            topic_id=created.topic_id,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return CreatableTopicResult(
        name=created.name,
        topic_id=created.topic_id,
        error_message=None,
        num_partitions=created.num_partitions,
        replication_factor=created.replication_factor,
        configs=[
            CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)
            for entry in created_topic_configs(created.configs, broker.config)
        ],
    )


API = Api(ApiKey.CREATE_TOPICS, 2, 7, CreateTopicsRequest, handle)
