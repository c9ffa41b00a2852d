"""AlterConfigs, versions 0 to 2: all settings at once of a topic, this broker, all brokers by default, a group or a
subscription to client metrics; what is not named goes back to its default. Only validated if so asked.

Settings of brokers that are not registered are refused; Apache Kafka's brokers refuse each other's as well, here the
controller decides, whichever broker is asked. Apache Kafka never answers a request that names a
resource twice; we answer as to IncrementalAlterConfigs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.config_changes import ResourceSettings, alter_configs
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access, try_out
from moldau.server.registry import Api
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    wanted = [
        ResourceSettings(
            resource.resource_type,
            resource.resource_name,
            [(config.name, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    altered = await broker.controller.decide(
        lambda image: alter_configs(
            image,
            wanted,
            broker.config,
            validate_only=request.validate_only,
            may_alter=lambda kind, name: may_access(broker, context, Operation.ALTER_CONFIGS, kind, name),
            try_out=lambda changed: try_out(broker, changed),
        )
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=each.code,
                error_message=each.message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each in altered
        ]
    )


API = Api(ApiKey.ALTER_CONFIGS, 0, 2, AlterConfigsRequest, handle)
