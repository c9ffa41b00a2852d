"""CreatePartitions, versions 0 to 3: more partitions for topics that exist, placed by us or as asked, or only
validated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.partitions import GrownTopic, MorePartitions, create_partitions
from moldau.metadata.image import ClusterImage
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from moldau.work.slices import Work

if TYPE_CHECKING:
    from moldau.server.broker import Broker

REFUSED_BEYOND_QUOTA_FROM = 3


async def handle(broker: Broker, context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    wanted = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [tuple(chosen.broker_ids) for chosen in topic.assignments],
        )
        for topic in request.topics
    ]
    mutations = broker.quotas.mutations(context, strict=context.api_version >= REFUSED_BEYOND_QUOTA_FROM)

    def rule(image: ClusterImage) -> Work[Decision[list[GrownTopic]]]:
        mutations.restart()
        return create_partitions(
            image,
            wanted,
            broker.controller.rng,
            validate_only=request.validate_only,
            may_alter=lambda name: broker.authorizer.allows(context, Operation.ALTER, Resource.TOPIC, name),
            charge=mutations.take,
        )

    grown = await broker.controller.decide(rule)
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.done(),
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=topic.code, error_message=topic.message)
            for topic in grown
        ],
    )


API = Api(ApiKey.CREATE_PARTITIONS, 0, 3, CreatePartitionsRequest, handle)
