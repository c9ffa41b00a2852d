"""Record batches to the target: transactions of one transactional id, several requests under way to each leader.

Whatever goes wrong is told and ends the transaction; nothing is sent twice. The caller opens the next one, which locks
out whoever used the id before and settles what was left open, and begins again at the positions that are stored.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from moldau.client.cluster import Cluster, check
from moldau.client.connection import Connection
from moldau.client.core import Pending
from moldau.client.errors import ConnectionLost
from moldau.client.transactions import Transactions
from moldau.mirror.batches import Piece
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.batch import add_to_sequence
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from moldau.wire.records import Record, build_batch
from moldau.wire.schema import ZERO_UUID

BY_TOPIC_NAME: Final = 12
BY_TOPIC_ID: Final = 13
IN_FLIGHT: Final = 5
"""A broker remembers five batches per producer and partition."""
ACKS_ALL: Final = -1
TIMEOUT_MS: Final = 30_000


class Refused(Exception):
    """The target does not take a batch; `place` is the partition."""

    def __init__(self, place: TopicPartition, code: ErrorCode, message: str | None) -> None:
        super().__init__(f"{place}: {message or code.name}")
        self.place = place
        self.code = code


@dataclass(slots=True)
class Outgoing:
    place: TopicPartition
    piece: Piece
    topic_id: UUID = ZERO_UUID
    """Of the topic that is meant, so that another one of the same name gets nothing; where brokers are asked by it."""
    base_offset: int = -1
    """Where the target has put it, once it has answered."""


@dataclass(slots=True)
class Flight:
    connection: Connection
    pending: Pending[ProduceResponse]
    batches: dict[TopicPartition, Outgoing]


class Writer:
    def __init__(
        self, cluster: Cluster, transactional_id: str, timeout_ms: int, monotonic: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._transactions = Transactions(cluster, transactional_id, timeout_ms, monotonic)
        self._sequences: dict[TopicPartition, int] = {}

    def open(self) -> None:
        """From here on nobody else writes under this id, and nothing of it is open."""
        self._transactions.start()
        self._sequences.clear()

    def write(self, batches: Iterable[Outgoing]) -> None:
        """Returns when all are acknowledged, and their base offsets known."""
        flights: deque[Flight] = deque()
        try:
            # Leaders are asked for before anything is under way on a connection that the question would take.
            for leader, group in list(self._requests(batches)):
                connection = self._cluster.connection(leader)
                while sum(flight.connection is connection for flight in flights) >= IN_FLIGHT:
                    self._land(flights.popleft())
                flights.append(self._launch(connection, group))
            while flights:
                self._land(flights.popleft())
        except BaseException:
            for flight in flights:
                with contextlib.suppress(ConnectionLost, KafkaError):
                    flight.connection.receive(flight.pending)
            raise

    def commit(self) -> None:
        self._transactions.end(commit=True)
        if self._transactions.version_2:
            self._sequences.clear()  # each end raises the epoch, and a new epoch counts from 0

    def _requests(self, batches: Iterable[Outgoing]) -> Iterable[tuple[int, dict[TopicPartition, Outgoing]]]:
        """Groups of at most one batch for each partition, by leader, in order."""
        waiting: dict[TopicPartition, deque[Outgoing]] = {}
        for each in batches:
            waiting.setdefault(each.place, deque()).append(each)
        self._transactions.will_write(waiting)
        while waiting:
            groups: dict[int, dict[TopicPartition, Outgoing]] = {}
            for place in list(waiting):
                groups.setdefault(self._leader(place), {})[place] = waiting[place].popleft()
                if not waiting[place]:
                    del waiting[place]
            yield from groups.items()

    def _leader(self, place: TopicPartition) -> int:
        try:
            return self._cluster.leader(place)
        except KafkaError as error:
            raise Refused(place, error.code, str(error)) from error

    def _launch(self, connection: Connection, group: dict[TopicPartition, Outgoing]) -> Flight:
        transactions = self._transactions
        topics: dict[tuple[str, UUID], list[PartitionProduceData]] = {}
        for place, each in group.items():
            sequence = self._sequences.get(place, 0)
            self._sequences[place] = add_to_sequence(sequence, each.piece.count)
            each.piece.stamp(transactions.producer, sequence)
            topics.setdefault((place.topic, each.topic_id), []).append(
                PartitionProduceData(index=place.partition, records=each.piece.data)
            )
        request = ProduceRequest(
            transactional_id=transactions.transactional_id,
            acks=ACKS_ALL,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                TopicProduceData(topic_id=by_id, name=name, partition_data=parts)
                for (name, by_id), parts in topics.items()
            ],
        )
        identified = all(each.topic_id != ZERO_UUID for each in group.values())
        highest = transactions.produce_version or (BY_TOPIC_ID if identified else BY_TOPIC_NAME)
        return Flight(connection, connection.send(request, ProduceResponse, max_version=highest), group)

    def _land(self, flight: Flight) -> None:
        answer = flight.connection.receive(flight.pending)
        names = {each.topic_id: place.topic for place, each in flight.batches.items()}
        for topic in answer.responses:
            for part in topic.partition_responses:
                place = TopicPartition(topic.name or names[topic.topic_id], part.index)
                if part.error_code:
                    code = ErrorCode(part.error_code)
                    self._cluster.forget_leader(place)
                    raise self._explained(place, code, part.error_message)
                flight.batches[place].base_offset = part.base_offset

    def _explained(self, place: TopicPartition, code: ErrorCode, message: str | None) -> Exception:
        found = self._transactions.refused(KafkaError(code, f"{place}: {message or code.name}"))
        return Refused(place, code, message) if isinstance(found, KafkaError) else found


def records_piece(records: Sequence[Record]) -> Piece:
    """Records of our own as one batch."""
    return Piece(bytearray(build_batch(records)), len(records), 0, len(records) - 1)


def produce(cluster: Cluster, place: TopicPartition, records: Sequence[Record]) -> None:
    """Without a transaction, for records that may be there twice."""
    data = build_batch(records)

    def send() -> None:
        parts = [PartitionProduceData(index=place.partition, records=data)]
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=place.topic, partition_data=parts)],
        )
        answer = cluster.to_broker(cluster.leader(place), request, ProduceResponse, max_version=BY_TOPIC_NAME)
        for topic in answer.responses:
            for part in topic.partition_responses:
                check(part.error_code, str(place), part.error_message)

    cluster.retrying(send)
