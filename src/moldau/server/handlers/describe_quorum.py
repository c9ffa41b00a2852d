"""DescribeQuorum, versions 0 to 2: who keeps the cluster's metadata.

There is no Raft here: this broker's own metadata store is told as a quorum of one, which leads, has committed all that
it holds, and is reached at the broker's listeners. Its end offset is the store's revision, its epoch never changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataInResponse,
    ReplicaState,
    TopicDataInResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

METADATA_TOPIC = "__cluster_metadata"
ONLY_EPOCH = 1


def handle(broker: Broker, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if not may_access(broker, context, Operation.DESCRIBE, None, ""):
        return DescribeQuorumResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
        )
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)] or len(request.topics) != 1:
        return unknown_partitions(request)
    return DescribeQuorumResponse(
        topics=[TopicDataInResponse(topic_name=METADATA_TOPIC, partitions=[quorum_of_one(broker)])],
        nodes=[this_node(broker)],
    )


def unknown_partitions(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            TopicDataInResponse(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionDataInResponse(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def quorum_of_one(broker: Broker) -> PartitionDataInResponse:
    now_ms, end_offset = broker.wall_ms(), broker.image.version
    voter = ReplicaState(
        replica_id=broker.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return PartitionDataInResponse(
        leader_id=broker.node_id, leader_epoch=ONLY_EPOCH, high_watermark=end_offset, current_voters=[voter]
    )


def this_node(broker: Broker) -> Node:
    listeners = broker.image.brokers[broker.node_id].listeners
    return Node(
        node_id=broker.node_id,
        listeners=[Listener(name=name, host=each.host, port=each.port) for name, each in listeners.items()],
    )


API = Api(ApiKey.DESCRIBE_QUORUM, 0, 2, DescribeQuorumRequest, handle)
