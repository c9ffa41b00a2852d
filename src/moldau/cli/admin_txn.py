"""Transactions over our own client, since librdkafka's admin client has no calls for them.

A *hanging* transaction is one that a partition still holds open while no coordinator knows of it: nobody will ever end
it, and readers of committed records stop before it. It is found as Kafka's own tool does: open for longer than any
transaction may be, and its producer has no transaction that lists the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.cli.admin import Place
from moldau.client.cluster import Cluster, CoordinatorKind, check
from moldau.types.ids import TopicPartition
from moldau.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from moldau.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from moldau.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ONGOING: Final = "Ongoing"
NOT_OPEN: Final = -1


@dataclass(frozen=True, slots=True)
class Listed:
    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class Described:
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int
    producer_id: int
    producer_epoch: int
    coordinator: int
    partitions: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What a partition knows of a producer whose transaction is open in it."""

    place: Place
    producer: ProducerState

    @property
    def start_offset(self) -> int:
        return self.producer.current_txn_start_offset


def list_transactions(
    cluster: Cluster, states: Sequence[str] = (), producer_ids: Sequence[int] = (), longer_than_ms: int = -1
) -> list[Listed]:
    """Every transactional id that any broker coordinates."""
    request = ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=longer_than_ms
    )
    found = []
    for broker in cluster.broker_ids():
        answer = cluster.to_broker(broker, request, ListTransactionsResponse)
        check(answer.error_code, f"transactions of broker {broker}")
        found += [
            Listed(each.transactional_id, each.producer_id, each.transaction_state, broker)
            for each in answer.transaction_states
        ]
    return sorted(found, key=lambda listed: listed.transactional_id)


def describe_transaction(cluster: Cluster, transactional_id: str) -> Described:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def ask() -> Described:
        coordinator = cluster.coordinator(CoordinatorKind.TRANSACTION, transactional_id)
        (found,) = cluster.to_broker(coordinator, request, DescribeTransactionsResponse).transaction_states
        check(found.error_code, f"transactional id {transactional_id!r}")
        return Described(
            transactional_id,
            found.transaction_state,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms,
            found.producer_id,
            found.producer_epoch,
            coordinator,
            tuple(sorted(Place(topic.topic, number) for topic in found.topics for number in topic.partitions)),
        )

    return cluster.retrying(ask)


def describe_producers(cluster: Cluster, place: Place, broker: int | None = None) -> list[ProducerState]:
    """The producers a partition remembers, as its leader (or the broker asked) sees them."""
    request = DescribeProducersRequest(topics=[TopicRequest(name=place.topic, partition_indexes=[place.partition])])

    def ask() -> list[ProducerState]:
        node = cluster.leader(TopicPartition(*place)) if broker is None else broker
        answer = cluster.to_broker(node, request, DescribeProducersResponse)
        (part,) = answer.topics[0].partitions
        check(part.error_code, f"producers of {place}", part.error_message)
        return list(part.active_producers)

    return cluster.retrying(ask)


def abort(cluster: Cluster, described: Described) -> None:
    """Fence the producer, which aborts what it has open; waits until the markers are written."""
    request = InitProducerIdRequest(
        transactional_id=described.transactional_id, transaction_timeout_ms=described.timeout_ms
    )

    def ask() -> None:
        kind, key = CoordinatorKind.TRANSACTION, described.transactional_id
        answer = cluster.to_coordinator(kind, key, request, InitProducerIdResponse)
        check(answer.error_code, f"cannot abort {described.transactional_id!r}")

    cluster.retrying(ask)


def write_abort_marker(cluster: Cluster, open_transaction: OpenTransaction) -> None:
    """End a transaction in one partition without its coordinator: only for hanging ones."""
    place, producer = open_transaction.place, open_transaction.producer
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
        coordinator_epoch=max(0, producer.coordinator_epoch),
    )
    request = WriteTxnMarkersRequest(markers=[marker])

    def ask() -> None:
        leader = cluster.leader(TopicPartition(*place))
        answer = cluster.to_broker(leader, request, WriteTxnMarkersResponse)
        for done in answer.markers:
            for topic in done.topics:
                for part in topic.partitions:
                    check(part.error_code, f"cannot abort the transaction in {place}")

    cluster.retrying(ask)


def open_in(cluster: Cluster, places: Iterable[Place], advance: Callable[[int], None]) -> list[OpenTransaction]:
    found = []
    for done, place in enumerate(places, start=1):
        found += [
            OpenTransaction(place, producer)
            for producer in describe_producers(cluster, place)
            if producer.current_txn_start_offset != NOT_OPEN
        ]
        advance(done)
    return found


def hanging(
    cluster: Cluster,
    places: Sequence[Place],
    older_than_ms: int,
    now_ms: int,
    advance: Callable[[int], None] = lambda done: None,
) -> list[OpenTransaction]:
    old = [
        found for found in open_in(cluster, places, advance) if now_ms - found.producer.last_timestamp >= older_than_ms
    ]
    if not old:
        return []
    producer_ids = sorted({found.producer.producer_id for found in old})
    listed = {each.producer_id: each for each in list_transactions(cluster, producer_ids=producer_ids)}
    known = {producer_id: describe_transaction(cluster, each.transactional_id) for producer_id, each in listed.items()}
    return [found for found in old if not _is_somebodys(found, known)]


def _is_somebodys(found: OpenTransaction, known: Mapping[int, Described]) -> bool:
    owner = known.get(found.producer.producer_id)
    return owner is not None and found.place in owner.partitions
