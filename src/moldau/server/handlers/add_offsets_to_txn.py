"""AddOffsetsToTxn, versions 0 to 4: a transaction will also commit offsets of a group, in that group's offsets
partition. Clients ask this before they look for the group's coordinator, so that the topic may not be there yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.fencing import known_code
from moldau.server.coordination.internal_topics import ensure, offsets_topic
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    if not broker.authorizer.allows(context, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.authorizer.allows(context, Operation.READ, Resource.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not request.transactional_id:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        await ensure(broker, offsets_topic(broker.config))
        partition = TopicPartition(broker.groups.topic, broker.groups.shard_of(request.group_id))
        await broker.transactions.add_partitions(request.transactional_id, producer, (partition,), version=0)
    except KafkaError as error:
        return AddOffsetsToTxnResponse(error_code=known_code(error.code, context.api_version))
    return AddOffsetsToTxnResponse()


API = Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, AddOffsetsToTxnRequest, handle)
