"""Fetches of many partitions, one request under way to each leader, the next one sent before an answer is worked on.

What is handed out are the parts of an answer as they came, with read_committed: records up to the last stable offset,
and which transactions among them were aborted.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from moldau.client.cluster import Cluster, check
from moldau.client.connection import Connection
from moldau.client.core import Pending
from moldau.client.errors import ClientError
from moldau.client.settings import Address
from moldau.client.states import COMMITTED
from moldau.kernels import skim_batches
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

if TYPE_CHECKING:
    from typing_extensions import Buffer

IDLE_WAIT_MS: Final = 500
BUSY_WAIT_MS: Final = 50
BUSY_LEAST_BYTES: Final = 64 << 10
"""While records flow, a broker gathers so much, or so long, before it answers: transactions cost more than records."""
PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Part:
    """What an answer says of one partition."""

    place: TopicPartition
    offset: int
    """From which it was asked for."""
    records: Buffer
    aborted: Sequence[tuple[int, int]]
    end: int
    """The last stable offset."""
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class Flight:
    connection: Connection
    pending: Pending[FetchResponse]
    offsets: dict[TopicPartition, int]
    deadline: float


@dataclass(slots=True)
class Fetcher:
    cluster: Cluster
    """For questions; fetches have connections of their own, since an answer may take its time."""
    fetch_bytes: int
    monotonic: Callable[[], float]
    wanted: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the next request of each partition begins."""
    ids: dict[str, UUID] = field(default_factory=dict)
    _flights: dict[int, Flight] = field(default_factory=dict)
    _connections: dict[Address, Connection] = field(default_factory=dict)
    _not_before: float = 0.0
    _busy: bool = False
    _turn: int = 0

    def seek(self, place: TopicPartition, topic_id: UUID, offset: int) -> None:
        self.ids[place.topic] = topic_id
        self.wanted[place] = offset

    def drop(self, place: TopicPartition) -> None:
        self.wanted.pop(place, None)

    def close(self) -> None:
        self._flights.clear()
        for connection in self._connections.values():
            connection.close()

    def poll(self, seconds: float) -> list[Part]:
        """The parts of one answer that say something; none where nothing came in time."""
        try:
            self._ask()
        except (ClientError, KafkaError, OSError):
            self._pause()
            raise
        for node in self._readable(seconds):
            return list(self._land(node))
        return []

    # -- asking ------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        if self.monotonic() < self._not_before:
            return
        by_node: dict[int, list[TopicPartition]] = {}
        unknown = {place.topic for place in self.wanted if not self.cluster.knows(place)}
        if unknown:
            self.cluster.metadata(unknown)
        for place in self.wanted:
            if self.cluster.knows(place):
                by_node.setdefault(self.cluster.leader(place), []).append(place)
            else:
                self._pause()
        for node, places in by_node.items():
            if node not in self._flights:
                self._send(node, places)

    def _send(self, node: int, places: list[TopicPartition]) -> None:
        self._turn += 1
        first = self._turn % len(places)
        topics: dict[str, list[FetchPartition]] = {}
        offsets = {}
        for place in places[first:] + places[:first]:
            offsets[place] = offset = self.wanted[place]
            topics.setdefault(place.topic, []).append(
                FetchPartition(partition=place.partition, fetch_offset=offset, partition_max_bytes=self.fetch_bytes)
            )
        request = FetchRequest(
            max_wait_ms=BUSY_WAIT_MS if self._busy else IDLE_WAIT_MS,
            min_bytes=BUSY_LEAST_BYTES if self._busy else 1,
            max_bytes=self.fetch_bytes,
            isolation_level=COMMITTED,
            topics=[
                FetchTopic(topic_id=self.ids[name], topic=name, partitions=parts) for name, parts in topics.items()
            ],
        )
        connection = self._connection(node)
        deadline = self.monotonic() + self.cluster.settings.request_seconds
        self._flights[node] = Flight(connection, connection.send(request, FetchResponse), offsets, deadline)

    def _connection(self, node: int) -> Connection:
        address = self.cluster.connection(node).address
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        self._connections[address] = opened = Connection(address, self.cluster.settings, self.monotonic)
        return opened

    def _pause(self) -> None:
        self._not_before = self.monotonic() + PAUSE_SECONDS

    # -- answers -----------------------------------------------------------------------------------------------------

    def _readable(self, seconds: float) -> list[int]:
        now = self.monotonic()
        for node, flight in list(self._flights.items()):
            if not flight.connection.is_open or now > flight.deadline:
                flight.connection.close()
                del self._flights[node]
        by_file = {flight.connection.fileno(): node for node, flight in self._flights.items()}
        if self._not_before > now:
            seconds = min(seconds, self._not_before - now)
        ready, _, _ = select.select(list(by_file), [], [], seconds)
        return [by_file[file] for file in ready]

    def _land(self, node: int) -> Iterator[Part]:
        flight = self._flights.pop(node)
        try:
            answer = flight.connection.receive(flight.pending)
            check(answer.error_code, f"fetches from broker {node}")
        except (ClientError, KafkaError):
            self._pause()
            raise
        names = {topic_id: name for name, topic_id in self.ids.items()}
        parts = []
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for each in topic.partitions:
                place = TopicPartition(name, each.partition_index)
                offset = flight.offsets.get(place, -1)
                if self.wanted.get(place) != offset:
                    continue  # it was sought elsewhere in the meantime
                if each.error_code:
                    self._refused(place, ErrorCode(each.error_code))
                    parts.append(Part(place, offset, b"", (), -1, ErrorCode(each.error_code)))
                    continue
                records = each.records or b""
                _, next_offset, count = skim_batches(records, 0, memoryview(records).nbytes)
                if count:
                    self.wanted[place] = max(next_offset, offset)
                aborted = [(one.producer_id, one.first_offset) for one in each.aborted_transactions or ()]
                parts.append(Part(place, offset, records if count else b"", aborted, each.last_stable_offset))
        self._busy = any(memoryview(part.records).nbytes for part in parts)
        with contextlib.suppress(ClientError, KafkaError, OSError):
            self._ask()  # what goes wrong here will go wrong again, when it can be told without losing these parts
        yield from parts

    def _refused(self, place: TopicPartition, code: ErrorCode) -> None:
        if code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self.cluster.forget_leader(place)
            self._pause()
