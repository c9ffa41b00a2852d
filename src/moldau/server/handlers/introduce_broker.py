"""IntroduceBroker, version 0, ours alone: a broker that has opened a connection says who it is, and learns who answers.

From then on, as long as that broker is registered, the connection counts as its own: what it says of its own replicas
is believed, quotas do not hold for it, and it is not closed for being idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.context import Introduction, RequestContext
from moldau.server.cluster_access import acts_for_cluster
from moldau.server.introductions import recognise
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.introduce_broker import IntroduceBrokerRequest, IntroduceBrokerResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: IntroduceBrokerRequest) -> IntroduceBrokerResponse:
    if not acts_for_cluster(broker, context):
        return IntroduceBrokerResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, broker_id=-1)
    cluster_id = broker.image.cluster_id or ""
    if request.cluster_id != cluster_id:
        return IntroduceBrokerResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID, broker_id=-1)
    if request.broker_id == broker.node_id:
        return IntroduceBrokerResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, broker_id=-1)
    is_trusted = broker.authorizer.keeps_rules or context.client.listener == broker.config.inter_broker_listener_name
    context.client.introduction = Introduction(request.broker_id, request.incarnation, is_trusted)
    recognise(context.client, broker.image)
    return IntroduceBrokerResponse(
        cluster_id=cluster_id,
        broker_id=broker.node_id,
        incarnation=broker.image.brokers[broker.node_id].incarnation,
    )


API = Api(ApiKey.INTRODUCE_BROKER, 0, 0, IntroduceBrokerRequest, handle, between_brokers=True)
