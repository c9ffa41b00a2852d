"""ListTransactions, versions 0 to 2: transactional ids that this broker coordinates, filtered by state, producer,
age, name.

The pattern (2+) is matched by Python's `re` in place of RE2/J: Apache Kafka's syntax for all but exotic patterns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from moldau.coordinators.transactions.state import Transaction, TransactionStatus
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.types.ids import NO_TIMESTAMP
from moldau.wire.apis import ApiKey
from moldau.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

STATES = {"".join(part.capitalize() for part in status.name.split("_")): status for status in TransactionStatus}
NAMES = {status: name for name, status in STATES.items()}


def handle(broker: Broker, context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    if broker.transactions.service.runtime.is_loading():
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = re.compile(request.transactional_id_pattern or "")
    except re.error:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = broker.wall_ms()
    found = []
    for transaction in broker.transactions.all_transactions():
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


def is_wanted(
    transaction: Transaction, request: ListTransactionsRequest, pattern: re.Pattern[str], now_ms: int
) -> bool:
    if request.state_filters and NAMES[transaction.status] not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter >= 0:
        is_open = transaction.start_ms != NO_TIMESTAMP and not transaction.status.is_at_rest
        if not is_open or now_ms - transaction.start_ms <= request.duration_filter:
            return False
    return not request.transactional_id_pattern or pattern.fullmatch(transaction.transactional_id) is not None


API = Api(ApiKey.LIST_TRANSACTIONS, 0, 2, ListTransactionsRequest, handle)
