"""DescribeClientQuotas, versions 0 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.client_quotas import QuotaFilter, find_client_quotas
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    filters = [QuotaFilter(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        found = find_client_quotas(broker.image, filters, strict=request.strict)
    except KafkaError as error:
        return refused(error.code, error.message)
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=limit) for key, limit in limits.items()],
            )
            for entity, limits in found
        ],
    )


def refused(code: ErrorCode, message: str | None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


API = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, DescribeClientQuotasRequest, handle)
