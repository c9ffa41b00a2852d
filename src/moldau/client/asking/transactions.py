"""Transactions over our own client, since librdkafka's admin client has no calls for them.

A *hanging* transaction is one that a partition still holds open while no coordinator knows of it: nobody will ever end
it, and readers of committed records stop before it. It is found as Kafka's own tool does: open for longer than any
transaction may be, and its producer has no transaction that lists the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.client.asking.answers import Wired, by_topic, refuse
from moldau.client.cluster import Cluster, CoordinatorKind
from moldau.types.errors import ErrorCode, KafkaError
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
FENCING_TIMEOUT_MS: Final = 60_000
"""A producer that only fences another one opens no transaction: its time-out is never used."""


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
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Marker:
    """Which transaction of a partition an abort marker ends."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What a partition knows of a producer whose transaction is open in it."""

    place: TopicPartition
    producer: ProducerState

    @property
    def start_offset(self) -> int:
        return self.producer.current_txn_start_offset

    @property
    def marker(self) -> Marker:
        found = self.producer
        return Marker(found.producer_id, found.producer_epoch, max(0, found.coordinator_epoch))


def list_transactions(
    asks: Wired,
    states: Sequence[str] = (),
    producer_ids: Iterable[int] = (),
    longer_than_ms: int = -1,
    pattern: str | None = None,
) -> list[Listed]:
    """Every transactional id that any broker coordinates, broker by broker."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=sorted(producer_ids),
        duration_filter=longer_than_ms,
        transactional_id_pattern=pattern,
    )
    wire = asks.wire()
    found = []
    for broker in wire.broker_ids():

        def ask(broker: int = broker) -> ListTransactionsResponse:
            answer = wire.to_broker(broker, request, ListTransactionsResponse)
            refuse(answer.error_code)
            return answer

        found += [
            Listed(each.transactional_id, each.producer_id, each.transaction_state, broker)
            for each in wire.retrying(ask).transaction_states
        ]
    return found


def describe(asks: Wired, transactional_id: str) -> Described:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    wire = asks.wire()

    def ask() -> Described:
        coordinator = wire.coordinator(CoordinatorKind.TRANSACTION, transactional_id)
        (found,) = wire.to_broker(coordinator, request, DescribeTransactionsResponse).transaction_states
        refuse(found.error_code)
        return Described(
            transactional_id,
            found.transaction_state,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms,
            found.producer_id,
            found.producer_epoch,
            coordinator,
            tuple(TopicPartition(topic.topic, number) for topic in found.topics for number in topic.partitions),
        )

    return wire.retrying(ask)


def describe_producers(
    asks: Wired, places: Iterable[TopicPartition], broker: int | None = None
) -> dict[TopicPartition, list[ProducerState]]:
    """The producers that partitions remember, as their leaders (or the broker asked) see them."""
    wanted = list(places)
    wire = asks.wire()
    return wire.retrying(lambda: _ask_producers(wire, wanted, broker))


def _ask_producers(
    wire: Cluster, places: Sequence[TopicPartition], broker: int | None
) -> dict[TopicPartition, list[ProducerState]]:
    by_broker: dict[int, list[TopicPartition]] = {}
    for place in places:
        by_broker.setdefault(wire.leader(place) if broker is None else broker, []).append(place)
    found = {}
    for node, asked in by_broker.items():
        topics = [TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic(asked).items()]
        answer = wire.to_broker(node, DescribeProducersRequest(topics=topics), DescribeProducersResponse)
        for topic in answer.topics:
            for part in topic.partitions:
                refuse(part.error_code, part.error_message)
                found[TopicPartition(topic.name, part.partition_index)] = list(part.active_producers)
    return found


def fence(asks: Wired, transactional_id: str, timeout_ms: int = FENCING_TIMEOUT_MS) -> None:
    """A new epoch for the id: what the old one has open is aborted; waits until the markers are written."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    wire = asks.wire()

    def ask() -> None:
        answer = wire.to_coordinator(CoordinatorKind.TRANSACTION, transactional_id, request, InitProducerIdResponse)
        refuse(answer.error_code)

    wire.retrying(ask)


def write_abort_marker(asks: Wired, place: TopicPartition, marker: Marker) -> None:
    """End a transaction in one partition without its coordinator: only for hanging ones."""
    ended = WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])],
        coordinator_epoch=marker.coordinator_epoch,
    )
    request = WriteTxnMarkersRequest(markers=[ended])
    wire = asks.wire()

    def ask() -> None:
        answer = wire.to_broker(wire.leader(place), request, WriteTxnMarkersResponse)
        for done in answer.markers:
            for topic in done.topics:
                for part in topic.partitions:
                    refuse(part.error_code)

    wire.retrying(ask)


def open_in(asks: Wired, places: Iterable[TopicPartition], broker: int | None = None) -> list[OpenTransaction]:
    return [
        OpenTransaction(place, producer)
        for place, producers in describe_producers(asks, places, broker).items()
        for producer in producers
        if producer.current_txn_start_offset != NOT_OPEN
    ]


def hanging(asks: Wired, old: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """Those of the open ones whose coordinator knows nothing of them any more: no marker will come."""
    if not old:
        return []
    listed = list_transactions(asks, producer_ids={found.producer.producer_id for found in old})
    under_way = {each.producer_id: _partitions_under_way(asks, each.transactional_id) for each in listed}
    return [found for found in old if not _is_somebodys(found, under_way)]


def _partitions_under_way(asks: Wired, transactional_id: str) -> frozenset[TopicPartition]:
    try:
        return frozenset(describe(asks, transactional_id).partitions)
    except KafkaError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return frozenset()
        raise


def _is_somebodys(found: OpenTransaction, under_way: Mapping[int, frozenset[TopicPartition]]) -> bool:
    return found.place in under_way.get(found.producer.producer_id, frozenset())
