"""DescribeQuorum, versions 0 to 2: who keeps the cluster's metadata.

There is no Raft here: the metadata store is told as a log that the controller leads and that every broker which could
be the controller follows, reached at its listeners. The end offset is the revision of this broker's image; that of
other brokers is not known here. The epoch is the controller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.image import BrokerImage
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
UNKNOWN = -1


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
        topics=[TopicDataInResponse(topic_name=METADATA_TOPIC, partitions=[quorum(broker)])],
        nodes=[as_node(each) for each in voters(broker)],
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


def voters(broker: Broker) -> list[BrokerImage]:
    """Every broker that could be the controller: each follows the same log of changes."""
    return [each for each in broker.image.brokers.values() if each.id == broker.node_id or not each.fenced]


def quorum(broker: Broker) -> PartitionDataInResponse:
    end_offset, present = broker.image.version, broker.image.controller
    return PartitionDataInResponse(
        leader_id=broker.controller_id,
        leader_epoch=ONLY_EPOCH if present is None else present.epoch,
        high_watermark=end_offset,
        current_voters=[state_of(broker, each, end_offset) for each in voters(broker)],
    )


def state_of(broker: Broker, voter: BrokerImage, end_offset: int) -> ReplicaState:
    """How far the others are only they know."""
    if voter.id != broker.node_id:
        return ReplicaState(
            replica_id=voter.id, log_end_offset=UNKNOWN, last_fetch_timestamp=UNKNOWN, last_caught_up_timestamp=UNKNOWN
        )
    now_ms = broker.wall_ms()
    return ReplicaState(
        replica_id=voter.id,
        log_end_offset=end_offset,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )


def as_node(voter: BrokerImage) -> Node:
    return Node(
        node_id=voter.id,
        listeners=[Listener(name=name, host=each.host, port=each.port) for name, each in voter.listeners.items()],
    )


API = Api(ApiKey.DESCRIBE_QUORUM, 0, 2, DescribeQuorumRequest, handle)
