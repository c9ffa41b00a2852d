"""WriteTxnMarkers, versions 1 and 2: a coordinator asks for the markers that end a transaction in partitions of this
broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING

from moldau.coordinators.transactions.machine import Markers
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import acts_for_cluster
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
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
    allowed = broker.authorizer.allows(
        context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME, audited=False
    ) or acts_for_cluster(broker, context)
    #: The answer has one entry for each producer, whatever was asked for it.
    codes: dict[int, dict[TopicPartition, ErrorCode]] = {}
    wanted = [
        (marker, TopicPartition(topic.name, index))
        for marker in request.markers
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    written: Iterable[ErrorCode] = repeat(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if allowed:
        # Each waits for its replicas, all at the same time.
        written = await asyncio.gather(*(write(broker, *each) for each in wanted))
    epochs: dict[tuple[int, TopicPartition], int] = {}
    for (marker, partition), code in zip(wanted, written, strict=False):
        # Asked twice in one request: what its present term has asked for counts, not what an earlier one has.
        known = epochs.get((marker.producer_id, partition), marker.coordinator_epoch)
        if marker.coordinator_epoch >= known:
            codes.setdefault(marker.producer_id, {})[partition] = code
            epochs[marker.producer_id, partition] = marker.coordinator_epoch
    return WriteTxnMarkersResponse(markers=[result(producer_id, found) for producer_id, found in codes.items()])


async def write(broker: Broker, marker: WritableTxnMarker, partition: TopicPartition) -> ErrorCode:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    markers = Markers(
        "",
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        frozenset((partition,)),
        marker.transaction_version,
    )
    return await broker.transactions.write_marker(markers, partition)


def result(producer_id: int, codes: Mapping[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[WritableTxnMarkerTopicResult(name=name, partitions=found) for name, found in topics.items()],
    )


API = Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, WriteTxnMarkersRequest, handle)
