"""Sends record batches to their leaders, several requests under way, each batch once and in order.

Sequence numbers make a repetition harmless: after a lost connection, a new leader or any passing error, all that was
not acknowledged goes out again, unchanged and in order, until it is acknowledged or its time is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from moldau.client.cluster import longer, passes
from moldau.client.connection import Connection
from moldau.client.core import Pending
from moldau.client.errors import ConnectionLost
from moldau.client.transactions import ProducerId, Transactions
from moldau.spark.writing.encoder import SealedBatch
from moldau.spark.writing.errors import RowRefused, SinkError
from moldau.spark.writing.links import Links
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition
from moldau.wire.batch import add_to_sequence
from moldau.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

BY_TOPIC_NAME: Final = 12
"""The last Produce version with names of topics."""
IN_FLIGHT: Final = 4
"""Requests under way to one broker; a broker remembers five batches per producer and partition."""
ACKS_ALL: Final = -1
NO_PRODUCER: Final = ProducerId(NO_PRODUCER_ID, NO_EPOCH)
ACKNOWLEDGED: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
AFTER_A_GAP: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    acks: int = ACKS_ALL
    timeout_ms: int = 30_000
    patience_seconds: float = 120.0
    """How long nothing may be acknowledged."""
    request_bytes: int = 1 << 20
    """So much makes it worth sending."""
    largest_request: int | None = None
    """Only a batch that is larger by itself exceeds it."""


@dataclass(slots=True)
class Outgoing:
    batch: SealedBatch
    sequence: int
    number: int
    """Counts the batches; sequences start again at 0 some day."""


@dataclass(slots=True)
class Flight:
    """A request under way and the batches in it."""

    connection: Connection
    pending: Pending[ProduceResponse]
    batches: dict[TopicPartition, Outgoing]


class Producer:
    """Writes with one producer id. With `transactions` the batches belong to its open transaction."""

    def __init__(
        self,
        links: Links,
        settings: ProduceSettings,
        producer: ProducerId,
        transactions: Transactions | None,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._links = links
        self._cluster = links.cluster
        self._settings = settings
        self._producer = producer
        self._transactions = transactions
        self._monotonic = monotonic
        self._sleep = sleep
        self._sequences: dict[TopicPartition, int] = {}
        self._ready: deque[Outgoing] = deque()
        self._ready_bytes = 0
        self._flights: deque[Flight] = deque()
        self._count = 0
        self._acknowledged = 0
        self.sent_bytes = 0

    def send(self, batch: SealedBatch) -> None:
        """Takes the batch over; it may go out now or with later ones."""
        sequence = NO_SEQUENCE
        if self._producer.id != NO_PRODUCER_ID:
            sequence = self._sequences.get(batch.target, 0)
            self._sequences[batch.target] = add_to_sequence(sequence, batch.count)
        self._ready.append(Outgoing(batch, sequence, self._count))
        self._count += 1
        self._ready_bytes += batch.size
        if self._ready_bytes >= self._settings.request_bytes:
            self._deliver(everything=False)

    def flush(self) -> None:
        """Returns when all batches are acknowledged."""
        self._deliver(everything=True)

    def settle(self) -> None:
        """Waits for the answers that are still to come, whatever they say; nothing is sent again."""
        self._recall()
        self._ready.clear()

    # -- sending ---------------------------------------------------------------------------------------------------

    def _deliver(self, everything: bool) -> None:
        since, acknowledged = self._monotonic(), self._acknowledged
        pause = self._cluster.settings.backoff_seconds
        while True:
            try:
                while self._ready:
                    self._dispatch()
                while everything and self._flights:
                    self._land(self._flights.popleft())
                return
            except (ConnectionLost, KafkaError) as error:
                self._recall()
                if self._acknowledged > acknowledged:
                    since, acknowledged = self._monotonic(), self._acknowledged
                    pause = self._cluster.settings.backoff_seconds
                if not passes(error) or self._monotonic() + pause > since + self._settings.patience_seconds:
                    raise self._explained(error) from error
            self._sleep(pause)
            pause = longer(pause)

    def _dispatch(self) -> None:
        """Sends what is ready as one request per leader with at most one batch per partition."""
        if self._transactions is not None:
            self._transactions.will_write({outgoing.batch.target for outgoing in self._ready})
        by_leader: dict[int, dict[TopicPartition, Outgoing]] = {}
        rest: deque[Outgoing] = deque()
        full: set[TopicPartition] = set()
        for outgoing in self._ready:
            target = outgoing.batch.target
            if target in full:
                rest.append(outgoing)
                continue
            full.add(target)
            batches = by_leader.setdefault(self._cluster.leader(target), {})
            if self._has_room(batches, outgoing):
                batches[target] = outgoing
            else:
                rest.append(outgoing)
        self._ready, self._ready_bytes = rest, sum(outgoing.batch.size for outgoing in rest)
        waiting = deque(by_leader.items())
        try:
            while waiting:
                self._launch(*waiting[0])
                waiting.popleft()
        finally:
            for _, batches in waiting:  # not sent: as if they had been recalled
                self._ready.extend(batches.values())

    def _has_room(self, batches: dict[TopicPartition, Outgoing], another: Outgoing) -> bool:
        limit = self._settings.largest_request
        if limit is None or not batches:
            return True
        return sum(each.batch.size for each in (*batches.values(), another)) <= limit

    def _launch(self, leader: int, batches: dict[TopicPartition, Outgoing]) -> None:
        connection = self._links.data_connection(leader)
        mine = [flight for flight in self._flights if flight.connection is connection]
        while len(mine) >= IN_FLIGHT:
            flight = mine.pop(0)
            self._flights.remove(flight)
            self._land(flight)
        by_topic: dict[str, list[PartitionProduceData]] = {}
        for target, outgoing in batches.items():
            data = outgoing.batch.to_bytes(self._producer, outgoing.sequence, self._transactions is not None)
            self.sent_bytes += len(data)
            by_topic.setdefault(target.topic, []).append(PartitionProduceData(index=target.partition, records=data))
        transactions = self._transactions
        request = ProduceRequest(
            transactional_id=None if transactions is None else transactions.transactional_id,
            acks=self._settings.acks,
            timeout_ms=self._settings.timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=parts) for name, parts in by_topic.items()],
        )
        highest = BY_TOPIC_NAME if transactions is None else transactions.produce_version or BY_TOPIC_NAME
        if self._settings.acks == 0:
            connection.send_only(request, max_version=highest)
            return
        self._flights.append(
            Flight(connection, connection.send(request, ProduceResponse, max_version=highest), batches)
        )

    # -- answers ---------------------------------------------------------------------------------------------------

    def _land(self, flight: Flight) -> None:
        """Reads an answer. What was not acknowledged is ready again, and the first reason is raised."""
        try:
            answer = received(flight)
        except ConnectionLost:
            self._ready.extendleft(reversed(flight.batches.values()))
            raise
        problem: KafkaError | None = None
        for topic in answer.responses:
            for result in topic.partition_responses:
                target = TopicPartition(topic.name, result.index)
                if result.error_code in ACKNOWLEDGED:
                    flight.batches.pop(target, None)
                    self._acknowledged += 1
                elif problem is None or problem.code == AFTER_A_GAP:
                    problem = self._problem(target, result)
        self._ready.extendleft(reversed(flight.batches.values()))
        if problem is not None:
            raise problem

    def _problem(self, target: TopicPartition, result: PartitionProduceResponse) -> KafkaError:
        code = ErrorCode(result.error_code)
        return KafkaError(code, f"{target}: {result.error_message or code.name}")

    def _recall(self) -> None:
        """After an error: reads the answers that are still to come, and puts all that is not acknowledged back, in
        the order of its sequence numbers."""
        for flight in self._flights:
            try:
                answer = received(flight)
            except ConnectionLost:
                self._ready.extend(flight.batches.values())
                continue
            accepted = {
                TopicPartition(topic.name, result.index)
                for topic in answer.responses
                for result in topic.partition_responses
                if result.error_code in ACKNOWLEDGED
            }
            self._acknowledged += len(accepted)
            self._ready.extend(outgoing for target, outgoing in flight.batches.items() if target not in accepted)
        self._flights.clear()
        self._ready = deque(in_order(self._ready))
        self._ready_bytes = sum(outgoing.batch.size for outgoing in self._ready)
        for outgoing in self._ready:
            self._cluster.forget_leader(outgoing.batch.target)

    def _explained(self, error: ConnectionLost | KafkaError) -> Exception:
        if isinstance(error, KafkaError):
            if error.code in TOO_LARGE:
                return RowRefused(
                    f"{error}: a row, or a batch of kafka.batch.size, is larger than the topic's max.message.bytes"
                )
            if error.code == ErrorCode.INVALID_TIMESTAMP:
                return RowRefused(
                    f"column 'timestamp': {error}; the topic's message.timestamp.before.max.ms and "
                    "message.timestamp.after.max.ms say how far from the broker's clock a row's time may be (a row "
                    "without one has the time of writing)"
                )
            if self._transactions is not None:
                return self._transactions.refused(error)
        said = f"{error}; {len(self._ready)} batches are not acknowledged"
        return SinkError(said) if isinstance(error, KafkaError) else self._links.nobody_answers(ConnectionLost(said))


def received(flight: Flight) -> ProduceResponse:
    if not flight.connection.is_open:
        raise ConnectionLost(f"{flight.connection.address}: the connection was lost with requests under way")
    return flight.connection.receive(flight.pending)


def in_order(outgoing: Iterable[Outgoing]) -> list[Outgoing]:
    return sorted(outgoing, key=lambda one: one.number)
