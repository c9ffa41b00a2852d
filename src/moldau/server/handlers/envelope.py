"""Envelope, version 0: another broker hands on a client's request that only the controller decides.

The principal and the address are the client's, as the other broker saw them; whoever may act for the cluster is
believed, on the listener of the brokers: as in Apache Kafka, that right alone lets nobody be somebody else. What is
inside is served here or not at all: it is never handed on again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.cluster_access import acts_for_cluster, is_where_brokers_are
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.wire.primitives import DecodeError

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    if not is_where_brokers_are(broker, context) or not acts_for_cluster(broker, context):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if broker.forwarding is None:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    try:
        return EnvelopeResponse(response_data=await broker.forwarding.unwrap(context, request))
    except KafkaError as error:
        return EnvelopeResponse(error_code=error.code)
    except DecodeError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)


API = Api(ApiKey.ENVELOPE, 0, 0, EnvelopeRequest, handle, between_brokers=True)
