"""InitProducerId, versions 0 to 5: an id and epoch for an idempotent or transactional producer.

Without a transactional id every call gives a new id, from blocks that the metadata store never issues twice. With
one, the next epoch of its producer: whoever had the one before is fenced, and what it left open is aborted. Left out:
version 6 (two-phase commit, KIP-939), which Apache Kafka 4.3 does not announce either.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.fencing import known_code
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_PRODUCER_ID
from moldau.wire.apis import ApiKey
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

FENCED_IS_KNOWN_FROM = 4


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    refusal = refusal_of(broker, context, request.transactional_id)
    if refusal is not None:
        return refused(refusal)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if request.transactional_id == "" or has_id != has_epoch:
        return refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return new_id(broker)
    expected = ProducerIdentity(request.producer_id, request.producer_epoch) if has_id else None
    return of_transactional_id(broker, context, request, expected)


def refusal_of(broker: Broker, context: RequestContext, transactional_id: str | None) -> ErrorCode | None:
    if transactional_id is None:
        return None if may_write_somewhere(broker, context) else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
        return None
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def may_write_somewhere(broker: Broker, context: RequestContext) -> bool:
    authorizer = broker.authorizer
    return authorizer.allows(
        context, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME, audited=False
    ) or authorizer.allows_somewhere(context, Operation.WRITE, Resource.TOPIC)


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


async def new_id(broker: Broker) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


async def of_transactional_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest, expected: ProducerIdentity | None
) -> InitProducerIdResponse:
    assert request.transactional_id is not None
    try:
        producer = await broker.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, expected
        )
    except KafkaError as error:
        return refused(known_code(error.code, context.api_version, FENCED_IS_KNOWN_FROM))
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)


API = Api(ApiKey.INIT_PRODUCER_ID, 0, 5, InitProducerIdRequest, handle)
