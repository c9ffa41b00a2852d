"""IncrementalAlterConfigs, versions 0 and 1: single settings of topics, this broker, all brokers by default, groups and
subscriptions to client metrics are set, deleted, appended to or subtracted from; levels of this broker's loggers are
set until it stops. Only validated if so asked.

Settings of brokers that are not registered are refused. Apache Kafka's brokers refuse each other's as well; here the
controller decides, whichever broker is asked.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from moldau.metadata.controller.config_changes import ResourceChanges, incremental_alter_configs
from moldau.metadata.controller.config_operations import SettingChange
from moldau.metadata.controller.config_resources import ResourceType
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.broker_loggers import BrokerLoggers
from moldau.server.config_access import may_access, try_out
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    wanted = [
        ResourceChanges(
            resource.resource_type,
            resource.resource_name,
            [SettingChange(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]
    loggers = BrokerLoggers(logging.getLogger())
    altered = await broker.controller.decide(
        lambda image: incremental_alter_configs(
            image,
            wanted,
            broker.config,
            validate_only=request.validate_only,
            may_alter=lambda kind, name: may_access(broker, context, Operation.ALTER_CONFIGS, kind, name),
            loggers=loggers.names(),
            try_out=lambda changed: try_out(broker, changed),
        )
    )
    for resource, answer in zip(wanted, altered, strict=True):
        is_logger = resource.resource_type == ResourceType.BROKER_LOGGER
        if is_logger and answer.code == ErrorCode.NONE and not request.validate_only:
            loggers.apply(resource.changes)
    return IncrementalAlterConfigsResponse(
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


API = Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, IncrementalAlterConfigsRequest, handle)
