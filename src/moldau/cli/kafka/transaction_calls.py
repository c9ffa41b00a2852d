"""The calls about transactions that librdkafka's admin client lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moldau.client.cluster import CoordinatorKind
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from moldau.wire.messages.describe_producers import ProducerState as Producer
from moldau.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from moldau.wire.messages.list_transactions import TransactionState as ListedTransaction
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

Partition = tuple[str, int]
NO_PRODUCER = -1
TIMEOUT_MS = 60_000

__all__ = (
    "Partition", "Producer", "describe_producers", "describe_transaction", "list_transactions", "terminate",
    "write_abort_marker",
)  # fmt: skip


def refuse(code: int, message: str | None = None) -> None:
    if code:
        raise KafkaError(ErrorCode(code), message)


def list_transactions(
    cluster: Cluster, *, duration: int = -1, pattern: str | None = None, producer_ids: Iterable[int] = ()
) -> list[tuple[int, ListedTransaction]]:
    """With the broker that coordinates each."""
    request = ListTransactionsRequest(
        producer_id_filters=sorted(producer_ids), duration_filter=duration, transactional_id_pattern=pattern
    )
    found = []
    for broker in cluster.broker_ids():

        def ask(broker: int = broker) -> ListTransactionsResponse:
            answer = cluster.to_broker(broker, request, ListTransactionsResponse)
            refuse(answer.error_code)
            return answer

        found += [(broker, each) for each in cluster.retrying(ask).transaction_states]
    return found


def describe_transaction(cluster: Cluster, transactional_id: str) -> tuple[int, TransactionState]:
    def ask() -> tuple[int, TransactionState]:
        coordinator = cluster.coordinator(CoordinatorKind.TRANSACTION, transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (state,) = cluster.to_broker(coordinator, request, DescribeTransactionsResponse).transaction_states
        refuse(state.error_code)
        return coordinator, state

    return cluster.retrying(ask)


def describe_producers(
    cluster: Cluster, places: Sequence[Partition], broker_id: int | None
) -> dict[Partition, Sequence[Producer]]:
    """Asked of one broker, or of each partition's leader."""
    by_broker: dict[int, dict[str, list[int]]] = {}
    for topic, index in places:
        broker = cluster.leader(TopicPartition(topic, index)) if broker_id is None else broker_id
        by_broker.setdefault(broker, {}).setdefault(topic, []).append(index)
    found: dict[Partition, Sequence[Producer]] = {}
    for broker, topics in by_broker.items():
        wanted = [TopicRequest(name=topic, partition_indexes=indexes) for topic, indexes in topics.items()]
        answer = cluster.to_broker(broker, DescribeProducersRequest(topics=wanted), DescribeProducersResponse)
        for topic_answer in answer.topics:
            for each in topic_answer.partitions:
                refuse(each.error_code, each.error_message)
                found[topic_answer.name, each.partition_index] = each.active_producers
    return found


def write_abort_marker(
    cluster: Cluster, place: Partition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    topic, index = place
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=coordinator_epoch,
    )
    leader = cluster.leader(TopicPartition(topic, index))
    answer = cluster.to_broker(leader, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
    for result in answer.markers:
        for topic_result in result.topics:
            for each in topic_result.partitions:
                refuse(each.error_code)


def terminate(cluster: Cluster, transactional_id: str) -> None:
    """A new epoch for the id: the coordinator aborts what the old one left open."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=TIMEOUT_MS,
        producer_id=NO_PRODUCER,
        producer_epoch=NO_PRODUCER,
    )

    def ask() -> None:
        answer = cluster.to_coordinator(CoordinatorKind.TRANSACTION, transactional_id, request, InitProducerIdResponse)
        refuse(answer.error_code)

    cluster.retrying(ask)
