"""DescribeTransactions, version 0: the state of transactional ids that this broker coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.coordinators.transactions.state import Transaction
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.markers import by_topic
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[await describe(broker, context, one) for one in request.transactional_ids]
    )


async def describe(broker: Broker, context: RequestContext, transactional_id: str) -> TransactionState:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id):
        return refused(transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not transactional_id:
        return refused(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        transaction = await broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return refused(transactional_id, error.code)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=state_name(transaction),
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=indexes)
            for topic, indexes in by_topic(transaction.partitions).items()
            if broker.authorizer.allows(context, Operation.DESCRIBE, Resource.TOPIC, topic)
        ],
    )


def refused(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(transactional_id=transactional_id, error_code=code)


def state_name(transaction: Transaction) -> str:
    return "".join(part.capitalize() for part in transaction.status.name.split("_"))


API = Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, DescribeTransactionsRequest, handle)
