"""EndTxn, versions 0 to 5: commits or aborts a transaction.

Answered when the decision is committed; markers follow. From version 5 on the client is of transaction version 2: the
answer holds the epoch of its next transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.fencing import known_code
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_PRODUCER_ID
from moldau.wire.apis import ApiKey
from moldau.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

EPOCH_PER_TRANSACTION_FROM = 5


async def handle(broker: Broker, context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    if not broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    version = 2 if context.api_version >= EPOCH_PER_TRANSACTION_FROM else 0
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        following = await broker.transactions.end(request.transactional_id, producer, request.committed, version)
    except KafkaError as error:
        return refused(known_code(error.code, context.api_version))
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.producer_epoch)


def refused(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


API = Api(ApiKey.END_TXN, 0, 5, EndTxnRequest, handle)
