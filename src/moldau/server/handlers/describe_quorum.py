"""DescribeQuorum, versions 0 to 2: who keeps the cluster's metadata.

There is no Raft here: the metadata store is told as a log that the controller leads and that every broker which could
be the controller follows, reached at its listeners. The end offset is the revision of a broker's image, which it is
asked for: a broker that is asked by another one tells only its own. The epoch is the controller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.metadata.image import BrokerImage
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access
from moldau.server.peers.peer import PeerLostError, Peers
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.types.internal_topics import METADATA_TOPIC
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    PartitionDataInResponse,
    ReplicaState,
    TopicData,
    TopicDataInResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

ONLY_EPOCH = 1
UNKNOWN = -1
#: One that does not say in this time how far it is gets UNKNOWN.
ASKING_SECONDS: Final = 2.0


async def handle(broker: Broker, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if context.client.broker_id is None and not may_access(broker, context, Operation.DESCRIBE, None, ""):
        return DescribeQuorumResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
        )
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    if asked != [(METADATA_TOPIC, 0)] or len(request.topics) != 1:
        return unknown_partitions(request)
    others: Mapping[int, int] = {}
    # Whoever says to be a broker is not passed on, believed or not: else two would ask each other without end.
    if context.client.introduction is None and broker.forwarding is not None:
        wanted = [each.id for each in voters(broker) if each.id != broker.node_id]
        others = await asked_for(broker.forwarding.peers, wanted)
    return DescribeQuorumResponse(
        topics=[TopicDataInResponse(topic_name=METADATA_TOPIC, partitions=[quorum(broker, others)])],
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


async def asked_for(peers: Peers, brokers: Sequence[int]) -> Mapping[int, int]:
    """How far each of these has read the metadata; who does not say is left out."""

    async def ask(broker_id: int) -> int:
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
        )
        answer = await peers.get(broker_id).call(request, DescribeQuorumResponse, timeout_seconds=ASKING_SECONDS)
        told = [voter for topic in answer.topics for each in topic.partitions for voter in each.current_voters]
        return next((voter.log_end_offset for voter in told if voter.replica_id == broker_id), UNKNOWN)

    found = await asyncio.gather(*map(ask, brokers), return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, PeerLostError):
            raise each
    return {number: end for number, end in zip(brokers, found, strict=True) if isinstance(end, int)}


def quorum(broker: Broker, others: Mapping[int, int]) -> PartitionDataInResponse:
    ends = {broker.node_id: broker.image.version, **others}
    present, leader = broker.image.controller, broker.controller_id
    # They were asked one after the other; nobody is ahead of who decides.
    end_offset = ends[leader] = max(ends.values())
    return PartitionDataInResponse(
        leader_id=leader,
        leader_epoch=ONLY_EPOCH if present is None else present.epoch,
        high_watermark=end_offset,
        current_voters=[
            state_of(each.id, ends.get(each.id, UNKNOWN), end_offset, broker.wall_ms()) for each in voters(broker)
        ],
    )


def state_of(voter: int, end: int, end_offset: int, now_ms: int) -> ReplicaState:
    """When one that is behind had caught up is not known."""
    return ReplicaState(
        replica_id=voter,
        log_end_offset=end,
        last_fetch_timestamp=UNKNOWN if end == UNKNOWN else now_ms,
        last_caught_up_timestamp=now_ms if end == end_offset else UNKNOWN,
    )


def as_node(voter: BrokerImage) -> Node:
    return Node(
        node_id=voter.id,
        listeners=[Listener(name=name, host=each.host, port=each.port) for name, each in voter.listeners.items()],
    )


API = Api(ApiKey.DESCRIBE_QUORUM, 0, 2, DescribeQuorumRequest, handle)
