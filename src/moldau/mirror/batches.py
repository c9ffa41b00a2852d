"""From the bytes of a fetch answer to record batches for the target. Pure.

Large batches travel as they are: only base offset, producer, attributes and CRC are written anew, in place. Small ones
are joined, since a produce request takes one batch per partition. Taken apart and built anew are also those that a
producer may not send as they lie in the log: with holes that compaction left, with the log's time, or with a delete
horizon, and the one that begins before the position. Aborted transactions and control batches are left out.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.client.transactions import ProducerId
from moldau.kernels import BatchCheck, BatchStatus, Column, RecordColumns, check_batch, encode_records
from moldau.types.ids import NO_EPOCH, NO_SEQUENCE
from moldau.wire.aborted import AbortedTransactions, is_abort_marker
from moldau.wire.batch import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    INT16,
    INT32,
    INT64,
    LOG_APPEND_TIME_BIT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    TRANSACTIONAL_BIT,
    CorruptBatchError,
    rewrite_crc,
    set_base_offset,
    set_leader_epoch,
)
from moldau.wire.compression import compress, decompress
from moldau.wire.records import assemble_batch

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels.signatures import BytesColumn, BytesSource

RAW_BYTES: Final = 32 << 10
"""From this size on a batch is worth a request of its own."""
LARGEST_PAYLOAD: Final = 0x7FFFFFFF
NO_END: Final = 0x7FFFFFFFFFFFFFFF
WANTED: Final = int(Column.KEY | Column.VALUE | Column.OFFSET | Column.TIMESTAMP | Column.HEADERS)


@dataclass(slots=True)
class Piece:
    """One record batch for the target, not yet stamped with its producer."""

    data: bytearray | memoryview
    count: int
    first: int
    """Offset of its first record in the source."""
    last: int

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def runs(self) -> bool:
        """Whether its records have consecutive offsets in the source, as they will have in the target."""
        return self.last - self.first + 1 == self.count

    def stamp(self, producer: ProducerId, sequence: int) -> None:
        data = self.data
        set_base_offset(data, 0, 0)
        set_leader_epoch(data, 0, NO_EPOCH)
        (attributes,) = INT16.unpack_from(data, ATTRIBUTES_AT)
        INT16.pack_into(data, ATTRIBUTES_AT, attributes | TRANSACTIONAL_BIT)
        INT64.pack_into(data, PRODUCER_ID_AT, producer.id)
        INT16.pack_into(data, PRODUCER_EPOCH_AT, producer.epoch)
        INT32.pack_into(data, BASE_SEQUENCE_AT, sequence)
        rewrite_crc(data)


@dataclass(frozen=True, slots=True)
class Cut:
    """What one partition's part of an answer holds for the target."""

    pieces: tuple[Piece, ...]
    next_offset: int


def cut(records: Buffer, aborted: Iterable[tuple[int, int]], position: int, room: int) -> Cut:
    """The records from `position` on; `room` is the largest batch that is built (a single record may be larger).

    Raises CorruptBatchError with the offset where the bytes are none that a log can hold.
    """
    cutter = _Cutter(AbortedTransactions(aborted), position, room)
    view = memoryview(records)
    place = 0
    while place < len(view):
        batch = BatchCheck(*check_batch(view, place, len(view), False))
        if batch.status == BatchStatus.TRUNCATED:
            break
        if batch.status != BatchStatus.OK:
            raise CorruptBatchError(f"{BatchStatus(batch.status).name} in the source near offset {cutter.position}")
        cutter.take(view[place : place + batch.size], batch)
        place += batch.size
    cutter.close()
    return Cut(tuple(cutter.pieces), cutter.position)


class _Cutter:
    def __init__(self, transactions: AbortedTransactions, position: int, room: int) -> None:
        self.position = position
        self.pieces: list[Piece] = []
        self._transactions = transactions
        self._room = room
        self._columns = RecordColumns(WANTED)
        self._codec = 0

    def take(self, data: memoryview, batch: BatchCheck) -> None:
        last = batch.base_offset + batch.last_offset_delta
        if last < self.position:
            return
        self._transactions.reach(last)
        if batch.attributes & CONTROL_BIT:
            if is_abort_marker(data[HEADER_SIZE:], batch):
                self._transactions.end(batch.producer_id)
        elif not (batch.attributes & TRANSACTIONAL_BIT and self._transactions.aborted(batch.producer_id)):
            if self._may_travel(batch):
                self.close()
                self.pieces.append(Piece(data, batch.record_count, batch.base_offset, last))
            else:
                self._join(data, batch)
        self.position = last + 1

    def _may_travel(self, batch: BatchCheck) -> bool:
        return (
            RAW_BYTES <= batch.size <= self._room
            and batch.base_offset >= self.position
            and batch.record_count == batch.last_offset_delta + 1
            and not batch.attributes & (LOG_APPEND_TIME_BIT | DELETE_HORIZON_BIT)
        )

    def _join(self, data: memoryview, batch: BatchCheck) -> None:
        codec = batch.attributes & CODEC_MASK
        if codec != self._codec:
            self.close()
            self._codec = codec
        start, last = self.position, batch.base_offset + batch.last_offset_delta
        try:
            payload = decompress(codec, data[HEADER_SIZE:], LARGEST_PAYLOAD) if codec else data[HEADER_SIZE:]
            while start <= last:
                start = self._columns.append_batch(data, payload, start, NO_END, self._room)
                if start <= last or self._columns.bytes >= self._room:
                    self.close()
        except ValueError as error:
            raise CorruptBatchError(f"the batch at offset {batch.base_offset} cannot be read: {error}") from error

    def close(self) -> None:
        if self._columns.rows:
            self.pieces.extend(built(self._columns, self._codec, self._room))


def built(columns: RecordColumns, codec: int, room: int) -> Iterator[Piece]:
    """The rows that were gathered, as batches."""
    rows, key, value, offsets, times, _, headers = columns.take()
    assert key is not None
    assert value is not None
    assert offsets is not None
    assert headers is not None
    places = memoryview(offsets).cast("B").cast("q")
    lists, ends, _, _, names, contents = headers
    sources = (
        source(key),
        source(value),
        (lists, ends, 0, False, source(names), source(contents)),
        None if times is None else (None, times, 0),
    )
    order = array("i", range(rows))
    start = 0
    while start < rows:
        payload, taken, base_timestamp, max_timestamp = encode_records(
            sources, rows, order, start, rows, 0, None, 0, room
        )
        body = compress(codec, payload) if codec else payload
        data = assemble_batch(
            body,
            base_offset=0,
            leader_epoch=NO_EPOCH,
            attributes=codec,
            last_offset_delta=taken - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=-1,
            producer_epoch=NO_EPOCH,
            base_sequence=NO_SEQUENCE,
            count=taken,
        )
        yield Piece(bytearray(data), taken, places[start], places[start + taken - 1])
        start += taken


def source(column: BytesColumn) -> BytesSource:
    validity, ends, data, _ = column
    return validity, ends, data, 0, False
