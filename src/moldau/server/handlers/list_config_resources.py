"""ListConfigResources, versions 0 and 1: what there is that has settings.

Version 0 knows subscriptions to client metrics only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.metadata.controller.config_resources import ResourceType
from moldau.metadata.image import ClusterImage
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if not may_access(broker, context, Operation.DESCRIBE_CONFIGS, None, ""):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = set(request.resource_types)
    if context.api_version == 0:
        wanted = {int(ResourceType.CLIENT_METRICS)}
    if not wanted <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in ResourceType
            if not wanted or kind in wanted
            for name in names_of(broker.image, kind)
        ]
    )


def names_of(image: ClusterImage, kind: ResourceType) -> Iterable[str]:
    match kind:
        case ResourceType.TOPIC:
            return image.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(number) for number, registered in image.brokers.items() if not registered.fenced]
        case ResourceType.CLIENT_METRICS:
            return image.client_metrics_settings
        case ResourceType.GROUP:
            return image.group_settings


API = Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, ListConfigResourcesRequest, handle)
