"""WriteTxnMarkers, versions 1 and 2: a coordinator asks for the markers that end a transaction in partitions of this
broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import Markers
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    allowed = broker.authorizer.allows(context, Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster")
    return WriteTxnMarkersResponse(markers=[await write(broker, marker, allowed) for marker in request.markers])


async def write(broker: Broker, marker: WritableTxnMarker, allowed: bool) -> WritableTxnMarkerResult:
    topics = []
    for topic in marker.topics:
        results = []
        for index in topic.partition_indexes:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if allowed:
                partition = TopicPartition(topic.name, index)
                markers = Markers(
                    "",
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.coordinator_epoch,
                    marker.transaction_result,
                    frozenset((partition,)),
                )
                code = await broker.transactions.write_marker(markers, partition)
            results.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics)


API = Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, WriteTxnMarkersRequest, handle)
