"""BrokerHeartbeat, versions 0 to 2: a broker tells the controller how far it has read the metadata, which of its log
folders have failed, and that it wants to stop.

It is not how a broker is known to live (its presence in the store is): it comes only while there is something to say.
Not here: `want_fence` and cordoned folders, which no broker of ours sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.cluster_access import acts_for_cluster
from moldau.server.controllership import Report
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
    if not acts_for_cluster(broker, context):
        return BrokerHeartbeatResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    report = Report(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        request.want_shut_down,
        tuple(request.offline_log_dirs),
    )
    try:
        answer = await broker.controllership.report(report)
    except KafkaError as error:
        return BrokerHeartbeatResponse(error_code=error.code)
    return BrokerHeartbeatResponse(
        is_caught_up=answer.is_caught_up, is_fenced=answer.is_fenced, should_shut_down=answer.may_stop
    )


API = Api(ApiKey.BROKER_HEARTBEAT, 0, 2, BrokerHeartbeatRequest, handle, between_brokers=True)
