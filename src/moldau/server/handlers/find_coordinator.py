"""FindCoordinator, versions 0 to 6: which broker coordinates a group or a transactional id.

It is the broker that leads the partition of the internal topic to which the key belongs; the first question creates the
topic. Share coordinators (key type 2) are
not served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.coordinators.sharding import partition_for
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.coordination.internal_topics import ensure, offsets_topic, transactions_topic
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from moldau.wire.apis import ApiKey
from moldau.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker, Node

BATCHED_FROM = 4
# What Apache Kafka says up to version 3, word for word.
SUCCESS = "NONE"
REFUSAL = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


NOT_PERMITTED: Mapping[int, str] = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
NOT_AVAILABLE = "The coordinator is not available."


async def handle(broker: Broker, context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    batched = context.api_version >= BATCHED_FROM
    keys = request.coordinator_keys if batched else (request.key,)
    permitted = {key: permission(broker, context, request.key_type, key) for key in keys}
    available = ErrorCode.NONE
    if any(not code for code in permitted.values()):
        available = await make_available(broker, request.key_type)
    found = [coordinator(broker, context, request.key_type, key, permitted[key] or available) for key in keys]
    if batched:
        return FindCoordinatorResponse(coordinators=found)
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message=SUCCESS
        if not one.error_code
        else one.error_message or NOT_PERMITTED.get(one.error_code, REFUSAL),
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


async def make_available(broker: Broker, key_type: int) -> ErrorCode:
    """Creates the internal topic at the first question, so that the answer can be acted on at once."""
    wanted = {GROUP: offsets_topic, TRANSACTION: transactions_topic}.get(key_type)
    if wanted is None:
        return ErrorCode.INVALID_REQUEST
    try:
        await ensure(broker, wanted(broker.config))
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def coordinator(broker: Broker, context: RequestContext, key_type: int, key: str, code: ErrorCode) -> Coordinator:
    """`code` is why there is none to tell."""
    if code:
        message = REFUSAL if code is ErrorCode.INVALID_REQUEST and key_type != SHARE else ""
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
    node = leader_of_shard(broker, context.client.listener, TOPICS[key_type], key)
    if node is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=NOT_AVAILABLE)
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message="")


def leader_of_shard(broker: Broker, listener: str, topic_name: str, key: str) -> Node | None:
    topic = broker.image.topics.get(topic_name)
    if topic is None:
        return None
    leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
    return next((node for node in broker.nodes(listener) if node.node_id == leader), None)


def permission(broker: Broker, context: RequestContext, key_type: int, key: str) -> ErrorCode:
    if key_type not in TOPICS:
        return ErrorCode.NONE
    resource = Resource.GROUP if key_type == GROUP else Resource.TRANSACTIONAL_ID
    if broker.authorizer.allows(context, Operation.DESCRIBE, resource, key):
        return ErrorCode.NONE
    is_group = key_type == GROUP
    return ErrorCode.GROUP_AUTHORIZATION_FAILED if is_group else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


API = Api(ApiKey.FIND_COORDINATOR, 0, 6, FindCoordinatorRequest, handle)
