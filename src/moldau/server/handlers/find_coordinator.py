"""FindCoordinator, versions 0 to 6: which broker coordinates a group or a transactional id.

On one node it is always this one. Groups and transactions themselves are not served yet; the API is announced because
librdkafka infers from its version 0 that the broker takes lz4 batches. Share coordinators (key type 2) are not
served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

BATCHED_FROM = 4
KNOWN_KEY_TYPES = (0, 1)
SHARE = 2
# What Apache Kafka says up to version 3, word for word.
SUCCESS = "NONE"
REFUSAL = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def handle(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if context.api_version >= BATCHED_FROM:
        found = [coordinator(broker, context, request.key_type, key) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=found)
    one = coordinator(broker, context, request.key_type, request.key)
    message = REFUSAL if one.error_code else SUCCESS
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=message, node_id=one.node_id, host=one.host, port=one.port
    )


def coordinator(broker: Broker, context: RequestContext, key_type: int, key: str) -> Coordinator:
    if key_type not in KNOWN_KEY_TYPES:
        message = "" if key_type == SHARE else REFUSAL
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=ErrorCode.INVALID_REQUEST, error_message=message
        )
    node = broker.this_node(context.client.listener)
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message="")


API = Api(ApiKey.FIND_COORDINATOR, 0, 6, FindCoordinatorRequest, handle)
