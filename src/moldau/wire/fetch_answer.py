"""Fetch answers packed by hand: heads as bytes, records as references that are read when the socket has room for them.

Layout, versions 4 to 18 (compact lengths and tagged fields from 12 on):
    throttle i32, [7+ error i16, session id i32], topics: (name | 13+ id), partitions:
        index i32, error i16, high watermark i64, last stable offset i64, [5+ log start i64],
        aborted transactions nullable: (producer id i64, first offset i64), [11+ preferred replica i32], records
    tags of a partition: 0 diverging epoch (12+), 1 current leader (12+); tag 0 of the answer: node endpoints (16+)
The codec could write it too, but would copy the records and build an object per field; a test holds both equal.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from moldau.wire.codec import pauses
from moldau.wire.primitives import compact_count, compact_string, count, string, uvarint

FLEXIBLE_FROM = 12
SESSIONS_FROM = 7
LOG_START_FROM = 5
PREFERRED_REPLICA_FROM = 11
TOPIC_IDS_FROM = 13
ENDPOINTS_FROM = 16

PARTITION_WITHOUT_START = Struct(">ihqq")
PARTITION = Struct(">ihqqq")
ABORTED = Struct(">qq")
INT32 = Struct(">i")
INT32_PAIR = Struct(">ii")
SIZE_CORRELATION_THROTTLE = Struct(">iii")
SIZE_CORRELATION_TAGS_THROTTLE = Struct(">iibi")
ERROR_AND_SESSION = Struct(">hi")
DIVERGING = Struct(">iq")


class Measured(Protocol):
    @property
    def length(self) -> int: ...


R = TypeVar("R", bound=Measured)


@dataclass(slots=True)
class FetchedPartition(Generic[R]):
    index: int
    error: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: Sequence[tuple[int, int]] | None = None
    preferred_replica: int = -1
    records: R | None = None
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) where the fetcher's history leaves ours."""
    current_leader: tuple[int, int] | None = None
    """(leader id, leader epoch), told with an error that means "ask another broker"."""


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None


def pack_fetch_answer(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[UUID | str, Sequence[FetchedPartition[R]]]],
    *,
    throttle_ms: int = 0,
    error: int = 0,
    session_id: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> Generator[None, None, list[bytes | R]]:
    """The whole answer with its size prefix, as pieces in order; with yields between partitions."""
    packer = Packer[R](version)
    packer.count(len(topics))
    paused = pauses()
    for topic, partitions in topics:
        packer.topic(topic)
        packer.count(len(partitions))
        for partition in partitions:
            packer.partition(partition)
            if next(paused):
                yield
        packer.no_tags()
    packer.endpoints(endpoints)
    return packer.finish(correlation_id, throttle_ms, error, session_id)


class Packer(Generic[R]):
    def __init__(self, version: int) -> None:
        self.version = version
        self.flexible = version >= FLEXIBLE_FROM
        self.pieces: list[bytes | R] = []
        self.head = bytearray()
        self.record_bytes = 0
        self.count_of = compact_count if self.flexible else count

    def count(self, number: int) -> None:
        self.head += self.count_of(number)

    def no_tags(self) -> None:
        if self.flexible:
            self.head.append(0)

    def topic(self, topic: UUID | str) -> None:
        if isinstance(topic, UUID):
            self.head += topic.bytes
        else:
            self.head += compact_string(topic) if self.flexible else string(topic)

    def partition(self, partition: FetchedPartition[R]) -> None:
        head = self.head
        if self.version >= LOG_START_FROM:
            head += PARTITION.pack(
                partition.index,
                partition.error,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
            )
        else:
            head += PARTITION_WITHOUT_START.pack(
                partition.index, partition.error, partition.high_watermark, partition.last_stable_offset
            )
        self.aborted(partition.aborted)
        if self.version >= PREFERRED_REPLICA_FROM:
            head += INT32.pack(partition.preferred_replica)
        self.records(partition.records)
        if self.flexible:
            self.partition_tags(partition)

    def aborted(self, transactions: Sequence[tuple[int, int]] | None) -> None:
        if transactions is None:
            self.head += self.count_of(-1)
            return
        self.head += self.count_of(len(transactions))
        for producer_id, first_offset in transactions:
            self.head += ABORTED.pack(producer_id, first_offset)
            self.no_tags()

    def records(self, records: R | None) -> None:
        length = 0 if records is None else records.length
        self.head += uvarint(length + 1) if self.flexible else INT32.pack(length)
        if records is not None and length:
            self.pieces.append(bytes(self.head))
            self.pieces.append(records)
            self.record_bytes += length + len(self.head)
            self.head = bytearray()

    def partition_tags(self, partition: FetchedPartition[R]) -> None:
        tags = []
        if partition.diverging is not None:
            tags.append(b"\x00\x0d" + DIVERGING.pack(*partition.diverging) + b"\x00")
        if partition.current_leader is not None:
            tags.append(b"\x01\x09" + INT32_PAIR.pack(*partition.current_leader) + b"\x00")
        self.head.append(len(tags))
        for tag in tags:
            self.head += tag

    def endpoints(self, endpoints: Sequence[NodeEndpoint]) -> None:
        if not self.flexible:
            return
        if not endpoints or self.version < ENDPOINTS_FROM:
            self.head.append(0)
            return
        raw = bytearray(compact_count(len(endpoints)))
        for node in endpoints:
            raw += (
                INT32.pack(node.node_id)
                + compact_string(node.host)
                + INT32.pack(node.port)
                + compact_string(node.rack)
                + b"\x00"
            )
        self.head += b"\x01\x00" + uvarint(len(raw)) + raw

    def finish(self, correlation_id: int, throttle_ms: int, error: int, session_id: int) -> list[bytes | R]:
        if self.head:
            self.pieces.append(bytes(self.head))
            self.record_bytes += len(self.head)
        session = ERROR_AND_SESSION.pack(error, session_id) if self.version >= SESSIONS_FROM else b""
        size = self.record_bytes + len(session)
        if self.flexible:
            start = SIZE_CORRELATION_TAGS_THROTTLE.pack(size + 9, correlation_id, 0, throttle_ms)
        else:
            start = SIZE_CORRELATION_THROTTLE.pack(size + 8, correlation_id, throttle_ms)
        first = self.pieces[0]
        assert isinstance(first, bytes)
        self.pieces[0] = start + session + first
        return self.pieces
