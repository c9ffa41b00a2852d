"""Rows of Arrow batches become record batches, one growing batch per partition, sealed when it is large enough."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from moldau.client.transactions import ProducerId
from moldau.kernels import crc32c, digest_rows, encode_records, order_rows, route_rows
from moldau.kernels.encode import STICKY_ROWS
from moldau.spark.writing.errors import RowRefused
from moldau.spark.writing.rows import Rows
from moldau.types.ids import NO_EPOCH, TopicPartition
from moldau.wire.batch import ATTRIBUTES_AT, CRC_AT, HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, TRANSACTIONAL_BIT
from moldau.wire.compression import Codec, compress

DIGEST_MODULUS: Final = 1 << 64
UINT32: Final = Struct(">I")


@dataclass(frozen=True, slots=True)
class Compression:
    codec: Codec = Codec.NONE
    level: int | None = None


@dataclass(frozen=True, slots=True)
class SealedBatch:
    """A record batch that lacks only what is known when it is sent."""

    target: TopicPartition
    payload: bytes
    count: int
    base_timestamp: int
    max_timestamp: int
    codec: int

    @property
    def size(self) -> int:
        return HEADER_SIZE + len(self.payload)

    def to_bytes(self, producer: ProducerId, sequence: int, transactional: bool) -> bytes:
        head = bytearray(
            HEADER.pack(
                0,
                HEADER_SIZE - LOG_OVERHEAD + len(self.payload),
                NO_EPOCH,
                MAGIC_V2,
                0,
                self.codec | (TRANSACTIONAL_BIT if transactional else 0),
                self.count - 1,
                self.base_timestamp,
                self.max_timestamp,
                producer.id,
                producer.epoch,
                sequence,
                self.count,
            )
        )
        UINT32.pack_into(head, CRC_AT, crc32c(self.payload, crc32c(memoryview(head)[ATTRIBUTES_AT:])))
        return bytes(head) + self.payload


@dataclass(slots=True)
class GrowingBatch:
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    count: int = 0
    base_timestamp: int | None = None
    max_timestamp: int = 0

    def add(self, piece: bytes, taken: int, base_timestamp: int, max_timestamp: int) -> None:
        self.max_timestamp = max_timestamp if self.count == 0 else max(self.max_timestamp, max_timestamp)
        self.base_timestamp = base_timestamp
        self.pieces.append(piece)
        self.size += len(piece)
        self.count += taken


class Topics:
    """The topics that rows go to, in the order in which they appeared, and their partitions counted through."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.counts = array("i")
        self.salts = array("Q")
        self.seen = array("q")
        """Rows without a key so far; where they begin differs from task to task."""
        self._index: dict[str, int] = {}

    def index(self, name: str) -> int | None:
        return self._index.get(name)

    def add(self, name: str, partitions: int, first_partition: int) -> int:
        self._index[name] = index = len(self.names)
        self.names.append(name)
        self.counts.append(partitions)
        self.salts.append(salt_of(name))
        self.seen.append(first_partition * STICKY_ROWS)
        return index

    def target(self, route: int) -> TopicPartition:
        for name, count in zip(self.names, self.counts, strict=True):
            if route < count:
                return TopicPartition(name, route)
            route -= count
        raise IndexError(route)


def salt_of(topic: str) -> int:
    """Lets the same row in two topics have two digests."""
    name = topic.encode()
    return crc32c(name) << 32 | crc32c(name, 1)


class RowEncoder:
    def __init__(
        self, topics: Topics, batch_bytes: int, compression: Compression, largest_request: int | None = None
    ) -> None:
        self._topics = topics
        self._compression = compression
        self._limit = largest_request
        # What is larger than a batch stands alone in one, where it can be told how large it is.
        self._batch_bytes = (
            batch_bytes if largest_request is None else min(batch_bytes, max(1, largest_request - HEADER_SIZE))
        )
        self._growing: dict[TopicPartition, GrowingBatch] = {}
        self.rows = 0
        self.digest = 0

    def note(self, rows: Rows) -> None:
        """Counts and digests without encoding."""
        self.rows += rows.length
        salts = self._topics.salts
        self.digest = (
            self.digest + digest_rows(rows.columns, rows.length, rows.topics, salts, rows.partitions)
        ) % DIGEST_MODULUS

    def encode(self, rows: Rows, now_ms: int) -> Iterator[SealedBatch]:
        """Gives the batches that have become full."""
        topics = self._topics
        routes = route_rows(rows.length, rows.columns[0], rows.topics, topics.counts, rows.partitions, topics.seen)
        order, ends = order_rows(routes, sum(topics.counts))
        start = 0
        for route, end in enumerate(ends):
            if end > start:
                yield from self._append(topics.target(route), rows, order, start, end, now_ms)
            start = end

    def _append(
        self, target: TopicPartition, rows: Rows, order: bytes, start: int, end: int, now_ms: int
    ) -> Iterator[SealedBatch]:
        while start < end:
            growing = self._growing.setdefault(target, GrowingBatch())
            piece, taken, base, latest = encode_records(
                rows.columns,
                rows.length,
                order,
                start,
                end,
                now_ms,
                growing.base_timestamp,
                growing.count,
                self._batch_bytes - growing.size,
            )
            if taken:
                growing.add(piece, taken, base, latest)
            start += taken
            if start < end or growing.size >= self._batch_bytes:
                yield self._seal(target)

    def finish(self) -> Iterator[SealedBatch]:
        """The batches that are still growing."""
        for target in list(self._growing):
            yield self._seal(target)

    def _check_size(self, target: TopicPartition, size: int) -> None:
        """Before compression, as Java's producer counts."""
        if self._limit is not None and size > self._limit:
            raise RowRefused(
                f"a row for {target.topic}-{target.partition} takes {size} bytes as a record, more than "
                f"kafka.max.request.size, {self._limit}"
            )

    def _seal(self, target: TopicPartition) -> SealedBatch:
        growing = self._growing.pop(target)
        if growing.count == 1:
            self._check_size(target, HEADER_SIZE + growing.size)
        payload = growing.pieces[0] if len(growing.pieces) == 1 else b"".join(growing.pieces)
        codec = self._compression.codec
        if codec != Codec.NONE:
            payload = compress(codec, payload, self._compression.level)
        return SealedBatch(
            target, payload, growing.count, growing.base_timestamp or 0, growing.max_timestamp, int(codec)
        )
