"""CreatePartitions, versions 0 to 3: more partitions for topics that exist, placed by us or as asked, or only
validated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.partitions import MorePartitions, create_partitions
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    wanted = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [tuple(chosen.broker_ids) for chosen in topic.assignments],
        )
        for topic in request.topics
    ]
    grown = await broker.controller.decide(
        lambda image: create_partitions(
            image,
            wanted,
            broker.controller.rng,
            validate_only=request.validate_only,
            may_alter=lambda name: broker.authorizer.allows(context, Operation.ALTER, Resource.TOPIC, name),
        )
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=topic.code, error_message=topic.message)
            for topic in grown
        ]
    )


API = Api(ApiKey.CREATE_PARTITIONS, 0, 3, CreatePartitionsRequest, handle)
