"""AddOffsetsToTxn, versions 0 to 4: a transaction will also commit offsets of a group, in that group's offsets
partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

FENCED_IS_KNOWN_FROM = 2


async def handle(broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    if not broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        partition = TopicPartition(broker.groups.topic, broker.groups.shard_of(request.group_id))
        await broker.transactions.add_partitions(request.transactional_id, producer, (partition,), version=0)
    except KafkaError as error:
        is_old = context.api_version < FENCED_IS_KNOWN_FROM
        fenced = ErrorCode.INVALID_PRODUCER_EPOCH if is_old else ErrorCode.PRODUCER_FENCED
        return AddOffsetsToTxnResponse(error_code=fenced if error.code is ErrorCode.PRODUCER_FENCED else error.code)
    return AddOffsetsToTxnResponse()


API = Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, AddOffsetsToTxnRequest, handle)
