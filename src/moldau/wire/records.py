"""Records and whole record batches as values: build them, take them apart. For tests, control records, coordinators,
compaction and dumps; batches on their way from producers to consumers stay bytes.

    record = length, int8 attributes, timestamp delta, offset delta, key length, key, value length, value,
             count of headers, each header: key length, key, value length, value

    All numbers but the attributes are zig-zag varints; a length of -1 means null; the first length counts what follows
    it. The deltas are relative to the base timestamp and base offset of the batch (layout: `moldau.wire.batch`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, cast

from moldau.kernels import check_batch, crc32c, decode_records, encode_records
from moldau.kernels.encode import append_nullable, append_varint
from moldau.kernels.status import BatchStatus
from moldau.types.ids import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from moldau.wire.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    UINT32,
    BatchHeader,
    CorruptBatchError,
    parse_header,
)
from moldau.wire.compression import Codec, compress, decompress

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels.signatures import BytesSource

LARGEST_BATCH: Final = 0x7FFFFFFF

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes | None = None
    key: bytes | None = None
    timestamp: int = NO_TIMESTAMP
    headers: Headers = ()
    offset: int = 0
    """Absolute when read; ignored by `build_batch` unless it is told the offsets."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch in its bytes."""

    header: BatchHeader
    data: memoryview

    def payload(self, limit: int = LARGEST_BATCH) -> Buffer:
        """The records section, decompressed."""
        section = self.data[HEADER_SIZE:]
        return section if self.header.codec == Codec.NONE else decompress(self.header.codec, section, limit)


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    offsets: Sequence[int] | None = None,
    last_offset: int | None = None,
    leader_epoch: int = NO_EPOCH,
    codec: int = Codec.NONE,
    level: int | None = None,
    timestamp_type: int = CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    log_append_time: int | None = None,
    delete_horizon: int | None = None,
) -> bytes:
    """Encodes a batch whose records have the offsets base_offset, base_offset + 1, … or, if given, exactly `offsets`,
    which may have gaps. `last_offset` keeps the end of a batch that lost its last records. A `log_append_time` implies
    the timestamp type; a `delete_horizon` takes the place of the base timestamp, as in compacted logs."""
    chosen = list(records)
    places = list(range(base_offset, base_offset + len(chosen))) if offsets is None else list(offsets)
    if len(places) != len(chosen):
        raise ValueError(f"{len(places)} offsets for {len(chosen)} records")
    if last_offset is None and not places:
        raise ValueError("a batch without records needs its last offset")
    if log_append_time is not None:
        timestamp_type = LOG_APPEND_TIME
    base_timestamp = chosen[0].timestamp if chosen else NO_TIMESTAMP
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    max_timestamp = max((record.timestamp for record in chosen), default=NO_TIMESTAMP)
    payload = bytearray()
    for offset, record in zip(places, chosen, strict=True):
        append_record(payload, record, offset - base_offset, record.timestamp - base_timestamp)
    return assemble_batch(
        compress(codec, payload, level) if codec else payload,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=batch_attributes(codec, timestamp_type, transactional, control, delete_horizon is not None),
        last_offset_delta=(places[-1] if last_offset is None else last_offset) - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if log_append_time is None else log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(chosen),
    )


def build_keyed_batch(
    keys: Sequence[bytes],
    values: Sequence[bytes | None],
    timestamp: int,
    *,
    codec: int = Codec.NONE,
    transactional: bool = False,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
) -> bytes:
    """A batch of records without headers, all of one time, encoded by the kernel: for writers of many small ones."""
    count = len(keys)
    order = array("i", range(count))
    columns = (_as_column(keys), _as_column(values), None, None)
    payload, _, _, _ = encode_records(columns, count, order, 0, count, timestamp, timestamp, 0, LARGEST_BATCH)
    return assemble_batch(
        compress(codec, payload) if codec else payload,
        base_offset=0,
        leader_epoch=NO_EPOCH,
        attributes=batch_attributes(codec, CREATE_TIME, transactional, control=False),
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        count=count,
    )


def compressed_batch(batch: Buffer, codec: int) -> bytes:
    """The same batch with its records, which are not compressed yet, compressed."""
    header = parse_header(batch)
    return assemble_batch(
        compress(codec, memoryview(batch)[HEADER_SIZE:]),
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        attributes=header.attributes | codec,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=header.count,
    )


def _as_column(items: Sequence[bytes | None]) -> BytesSource:
    """In Arrow's layout: where each item ends, all of them joined, and a bit for each that is not null."""
    validity = None
    if None in items:
        validity = bytearray((len(items) + 7) // 8)
        for index, item in enumerate(items):
            if item is not None:
                validity[index >> 3] |= 1 << (index & 7)
        items = [item or b"" for item in items]
    present = cast("Sequence[bytes]", items)
    return validity, array("i", accumulate(map(len, present), initial=0)), b"".join(present), 0, False


def assemble_batch(
    payload: Buffer,
    *,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    count: int,
) -> bytes:
    """Header and CRC around a records section that is encoded, and compressed as the attributes say, already."""
    body = bytes(payload)
    head = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(body),
            leader_epoch,
            MAGIC_V2,
            0,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        )
    )
    UINT32.pack_into(head, CRC_AT, crc32c(body, crc32c(head[ATTRIBUTES_AT:])))
    return bytes(head) + body


def batch_attributes(
    codec: int, timestamp_type: int, transactional: bool, control: bool, has_delete_horizon: bool = False
) -> int:
    return (
        (codec & CODEC_MASK)
        | (LOG_APPEND_TIME_BIT if timestamp_type == LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if has_delete_horizon else 0)
    )


def append_record(output: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)  # record attributes: none are defined
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    append_nullable(body, record.key)
    append_nullable(body, record.value)
    append_varint(body, len(record.headers))
    for key, value in record.headers:
        append_nullable(body, key.encode("utf-8", "surrogateescape"))
        append_nullable(body, value)
    append_varint(output, len(body))
    output += body


def iter_batches(buffer: Buffer, *, verify: bool = True) -> Iterator[Batch]:
    """The whole batches from the start of the bytes; a cut-off batch at the end, as fetches have it, is left out.
    Anything else that is no batch, or with `verify` has a wrong CRC, raises CorruptBatchError."""
    view = memoryview(buffer).cast("B")
    position = 0
    while position < len(view):
        status, size, *_ = check_batch(view, position, len(view), False)
        if status == BatchStatus.TRUNCATED:
            return
        if status == BatchStatus.BAD_CRC and not verify:
            status = BatchStatus.OK
        if status != BatchStatus.OK:
            raise CorruptBatchError(f"{BatchStatus(status).name} at position {position}")
        yield Batch(parse_header(view, position), view[position : position + size])
        position += size


def iter_records(batch: Batch | Buffer, *, limit: int = LARGEST_BATCH) -> Iterator[Record]:
    """The records of one batch with their absolute offsets and the timestamps a consumer sees. `limit` bounds what is
    decompressed."""
    one = batch if isinstance(batch, Batch) else _only_batch(batch)
    header = one.header
    try:
        fields = decode_records(one.payload(limit), header.count)
    except ValueError as cause:
        raise CorruptBatchError(f"the batch at offset {header.base_offset} cannot be read: {cause}") from cause
    append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
    for offset_delta, timestamp_delta, _attributes, key, value, headers, _start, _end in fields:
        timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
        yield Record(value, key, timestamp, headers, header.base_offset + offset_delta)


def _only_batch(buffer: Buffer) -> Batch:
    for batch in iter_batches(buffer):
        return batch
    raise CorruptBatchError("no whole record batch")
