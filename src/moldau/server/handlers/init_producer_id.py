"""InitProducerId, versions 0 to 5: an id and epoch for an idempotent producer.

Without a transactional id every call gives a new id; ids come from blocks that the metadata store never issues twice.
Not here yet: transactional ids (there is no transaction coordinator; such a request is answered with
COORDINATOR_NOT_AVAILABLE).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.types.ids import NO_EPOCH, NO_PRODUCER_ID
from moldau.wire.apis import ApiKey
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if request.transactional_id == "" or has_id != has_epoch:
        return refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return new_id(broker)


def refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)


async def new_id(broker: Broker) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)


API = Api(ApiKey.INIT_PRODUCER_ID, 0, 5, InitProducerIdRequest, handle)
