"""What the leader of a partition answers to coordinators that ask for markers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.coordinators.transactions.machine import Markers
from moldau.security.authorizer import AllowAll
from moldau.security.context import ClientIdentity, RequestContext
from moldau.server.handlers.write_txn_markers import handle
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.loops import on_loop

CONTEXT = RequestContext(ClientIdentity("User:b", "PLAINTEXT", "127.0.0.1"), "", 27, 2, 1)
PRESENT = 5


async def written(markers: Markers, _partition: TopicPartition) -> ErrorCode:
    return ErrorCode.NONE if markers.coordinator_epoch == PRESENT else ErrorCode.TRANSACTION_COORDINATOR_FENCED


def asked_in(coordinator_epoch: int) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=7,
        producer_epoch=3,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=2,
    )


@pytest.mark.parametrize("epochs", [(PRESENT, 4), (4, PRESENT)])
@on_loop
async def test_of_two_terms_that_ask_for_the_same_marker_the_present_one_is_answered(epochs: tuple[int, int]) -> None:
    broker = SimpleNamespace(authorizer=AllowAll(), transactions=SimpleNamespace(write_marker=written))
    request = WriteTxnMarkersRequest(markers=[asked_in(epoch) for epoch in epochs])
    answer = await handle(cast(Any, broker), CONTEXT, request)
    codes = [
        (marker.producer_id, topic.name, each.partition_index, each.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for each in topic.partitions
    ]
    assert codes == [(7, "t", 0, ErrorCode.NONE)]
