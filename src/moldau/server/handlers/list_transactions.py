"""ListTransactions, versions 0 to 2: transactional ids that this broker coordinates, filtered by state, producer,
age, name.

The pattern (2+) is RE2's: no pattern takes longer than the names it is held against.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import re2

from moldau.coordinators.groups.subscriptions import compile_regex
from moldau.coordinators.transactions.state import Transaction, TransactionStatus
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

#: Some milliseconds of work with a pattern.
LOOKED_AT_PER_TURN = 400
STATES = {"".join(part.capitalize() for part in status.name.split("_")): status for status in TransactionStatus}
NAMES = {status: name for name, status in STATES.items()}


async def handle(broker: Broker, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    if broker.transactions.service.runtime.is_loading():
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = compile_regex(request.transactional_id_pattern or "")
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    now_ms = broker.wall_ms()
    found = []
    for count, transaction in enumerate(broker.transactions.all_transactions(), 1):
        if count % LOOKED_AT_PER_TURN == 0:
            await asyncio.sleep(0)
        allowed = broker.authorizer.allows(
            context, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transaction.transactional_id
        )
        if allowed and is_wanted(transaction, request, pattern, now_ms):
            found.append(
                TransactionState(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=NAMES[transaction.status],
                )
            )
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATES]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def is_wanted(transaction: Transaction, request: ListTransactionsRequest, pattern: re2._Regexp, now_ms: int) -> bool:
    if request.state_filters and NAMES[transaction.status] not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    # An id without a transaction counts as one that began before all times, as with Apache Kafka.
    if request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter:
        return False
    return not request.transactional_id_pattern or pattern.fullmatch(transaction.transactional_id) is not None


API = Api(ApiKey.LIST_TRANSACTIONS, 0, 2, ListTransactionsRequest, handle)
