"""AlterClientQuotas, versions 0 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.client_quotas import QuotaAlteration, alter_client_quotas
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.controller_requests import no_quotas_altered
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataInResponse,
    EntryDataInResponse,
)
from moldau.wire.messages.alter_client_quotas import EntryData as WantedEntry

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    if not broker.authorizer.allows(context, Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return no_quotas_altered(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    wanted = [
        QuotaAlteration(
            [(each.entity_type, each.entity_name) for each in entry.entity],
            [(each.key, None if each.remove else each.value) for each in entry.ops],
        )
        for entry in request.entries
    ]
    results = await broker.controller.decide(
        lambda image: alter_client_quotas(image, wanted, validate_only=request.validate_only)
    )
    return AlterClientQuotasResponse(
        entries=[answered(entry, problem) for entry, problem in zip(request.entries, results, strict=True)]
    )


def answered(entry: WantedEntry, problem: KafkaError | None) -> EntryDataInResponse:
    return EntryDataInResponse(
        error_code=ErrorCode.NONE if problem is None else problem.code,
        error_message=None if problem is None else problem.message,
        entity=[
            EntityDataInResponse(entity_type=each.entity_type, entity_name=each.entity_name) for each in entry.entity
        ],
    )


API = Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, AlterClientQuotasRequest, handle)
