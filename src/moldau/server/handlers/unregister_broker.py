"""UnregisterBroker, version 0: forgets a broker that will not come back.

It leaves every in-sync set and every claim to lead, and stays among the replicas of what it held until that is
reassigned. Apache Kafka forgets a broker that runs, too, which then serves nothing and does not come back by itself;
here that is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    if not may_access(broker, context, Operation.ALTER, None, ""):
        return UnregisterBrokerResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=needs(context, Operation.ALTER)
        )
    try:
        await broker.controllership.unregister(request.broker_id)
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
    return UnregisterBrokerResponse(error_message=None)


API = Api(ApiKey.UNREGISTER_BROKER, 0, 0, UnregisterBrokerRequest, handle)
