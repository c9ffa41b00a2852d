"""Pure-Python twin of `_native.c`: the same functions with the same results, for where nothing could be compiled.

Record batch, format v2, big-endian:

     0 int64 base offset         17 uint32 CRC-32C of all that follows   43 int64 producer id
     8 int32 length of the rest  21 int16 attributes                     51 int16 producer epoch
    12 int32 leader epoch        23 int32 last offset delta              53 int32 base sequence
    16 int8 magic = 2            27 int64 base, 35 int64 max timestamp   57 int32 count, 61 records

Record, numbers as zig-zag varints of at most 5 bytes (the timestamp delta: 10):

    length of the rest, int8 attributes, timestamp delta, offset delta, key length (< 0: null), key,
    value length (< 0: null), value, count of headers, each: key length, key, value length (< 0: null), value
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from moldau.kernels.status import BatchStatus

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels.signatures import BatchFields, BatchPlace, RecordFields, RecordsFields, RecordSpan

_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_LENGTH_AT = 8
_LOG_OVERHEAD = 12
_MAGIC_AT = 16
_CRC_STARTS_AT = 21
_HEADER_SIZE = 61
_SMALLEST_LEGACY_LENGTH = 14
_MAGIC_V2 = 2
_CODEC_MASK = 7
_CONTROL = 0x20
_SMALL_BATCH = 4096
_HEADER_UNREAD = (-1,) * 10
_NOTHING_WALKED = (-1, -1, -1)


def crc32c(data: Buffer, value: int = 0, /) -> int:
    return _checksum()(_bytes_of(data), value & 0xFFFFFFFF)


def check_batch(data: Buffer, position: int, limit: int, with_records: bool = True, /) -> BatchFields:
    view = _window(data, position, limit)
    status, size = _frame(view, position, limit)
    if status == BatchStatus.OK and limit - position < size:
        status = BatchStatus.TRUNCATED
    if status != BatchStatus.OK:
        return (int(status), size, *_HEADER_UNREAD, *_NOTHING_WALKED)
    header = _HEADER.unpack_from(view, position)
    base_offset, _length, leader_epoch, _magic, crc, *rest = header
    attributes, last_offset_delta, base_timestamp, *_middle, count = rest
    end = position + size
    walked = _NOTHING_WALKED
    if crc32c(view[position + _CRC_STARTS_AT : end]) != crc:
        status = BatchStatus.BAD_CRC
    elif not with_records:
        status = BatchStatus.OK
    elif count <= 0 or count - 1 != last_offset_delta:
        status = BatchStatus.BAD_COUNT
    elif attributes & _CODEC_MASK:
        status = BatchStatus.COMPRESSED
    else:
        status, walked = _walk(view[position + _HEADER_SIZE : end], count, base_timestamp)
    return (int(status), size, base_offset, leader_epoch, *rest, *walked)


def check_records(payload: Buffer, count: int, base_timestamp: int, /) -> RecordsFields:
    if count <= 0:
        return (int(BatchStatus.BAD_COUNT), *_NOTHING_WALKED)
    status, walked = _walk(_bytes_of(payload), count, base_timestamp)
    return (int(status), *walked)


def scan_batches(data: Buffer, position: int, limit: int, /) -> list[BatchPlace]:
    view = _window(data, position, limit)
    places: list[BatchPlace] = []
    while True:
        status, size = _frame(view, position, limit)
        if status != BatchStatus.OK or size > limit - position:
            return places
        base_offset, _length, leader_epoch, *rest = _HEADER.unpack_from(view, position)
        last_offset, max_timestamp = _wrapped_64(base_offset + rest[3]), rest[5]
        places.append((base_offset, last_offset, position, size, max_timestamp, leader_epoch))
        position += size


def check_run(
    data: Buffer, position: int, limit: int, next_offset: int, leader_epoch: int, room: int, /
) -> tuple[int, int, int, int]:
    _window(data, position, limit)
    origin = position
    max_timestamp = offset_of_max = -1
    while position - origin <= room:
        status, size, base_offset, epoch, attributes, delta, _, timestamp, producer_id, *_ = check_batch(
            data, position, limit, False
        )
        last_offset = _wrapped_64(base_offset + delta)
        if (
            status != BatchStatus.OK
            or size > _SMALL_BATCH
            or producer_id >= 0
            or attributes & _CONTROL
            or epoch != leader_epoch
            or base_offset < next_offset
            or last_offset < base_offset
        ):
            break
        if timestamp > max_timestamp:
            max_timestamp, offset_of_max = timestamp, last_offset
        next_offset = _wrapped_64(last_offset + 1)
        position += size
    return position, next_offset, max_timestamp, offset_of_max


def locate_batch(data: Buffer, position: int, limit: int, target_offset: int, /) -> int:
    found, place = seek_batch(data, position, limit, target_offset)
    return place if found else -1


def seek_batch(data: Buffer, position: int, limit: int, target_offset: int, /) -> tuple[bool, int]:
    view = _window(data, position, limit)
    while position < limit:
        status, size = _frame(view, position, limit)
        if status != BatchStatus.OK:
            break
        header = _HEADER.unpack_from(view, position)
        if _wrapped_64(header[0] + header[6]) >= target_offset:
            return True, position
        position += size
    return False, position


def decode_records(payload: Buffer, count: int, /) -> list[RecordFields]:
    view = _bytes_of(payload)
    return [
        (
            record.offset_delta,
            record.timestamp_delta,
            record.attributes,
            _slice_or_none(view, record.key),
            _slice_or_none(view, record.value),
            tuple((_header_key(view, key), _slice_or_none(view, value)) for key, value in record.headers),
            record.start,
            record.end,
        )
        for record in _all_records(view, count)
    ]


def records_spans(payload: Buffer, count: int, /) -> list[RecordSpan]:
    view = _bytes_of(payload)
    return [
        (
            record.offset_delta,
            record.timestamp_delta,
            _slice_or_none(view, record.key),
            record.value is not None,
            record.start,
            record.end,
        )
        for record in _all_records(view, count)
    ]


def seek_timestamp(
    payload: Buffer, count: int, base_timestamp: int, target: int, least_offset_delta: int = 0, /
) -> tuple[int, int] | None:
    view = _bytes_of(payload)
    position = 0
    for _ in range(count):
        try:
            record = _read_record(view, position)
        except _MalformedError:
            raise ValueError("a record is malformed") from None
        timestamp = _wrapped_64(base_timestamp + record.timestamp_delta)
        if timestamp >= target and record.offset_delta >= least_offset_delta:
            return record.offset_delta, timestamp
        position = record.end
    return None


class _MalformedError(Exception):
    """A number or a length reaches beyond the bytes it belongs to."""


_Span = tuple[int, int]


class _ParsedRecord(NamedTuple):
    start: int
    end: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: _Span | None
    value: _Span | None
    headers: list[tuple[_Span, _Span | None]]
    headers_start: int


def _frame(view: memoryview, position: int, limit: int) -> tuple[BatchStatus, int]:
    """OK if a whole v2 header is in view, with the size of the batch, which may reach beyond the limit."""
    available = limit - position
    if available < _LOG_OVERHEAD:
        return BatchStatus.TRUNCATED, 0
    (length,) = _LENGTH.unpack_from(view, position + _LENGTH_AT)
    size = length + _LOG_OVERHEAD
    if length < _SMALLEST_LEGACY_LENGTH:
        return BatchStatus.BAD_LENGTH, 0
    if available <= _MAGIC_AT:
        return BatchStatus.TRUNCATED, size
    if view[position + _MAGIC_AT] != _MAGIC_V2:
        return BatchStatus.BAD_MAGIC, size
    if size < _HEADER_SIZE:
        return BatchStatus.BAD_LENGTH, 0
    return (BatchStatus.TRUNCATED if available < _HEADER_SIZE else BatchStatus.OK), size


def _walk(view: memoryview, count: int, base_timestamp: int) -> tuple[BatchStatus, tuple[int, int, int]]:
    max_timestamp, offset_of_max, first_null_key = _NOTHING_WALKED
    status = BatchStatus.OK
    position = 0
    for index in range(count):
        if position == len(view):
            return BatchStatus.BAD_COUNT, _NOTHING_WALKED
        try:
            record = _read_record(view, position)
        except _MalformedError:
            return BatchStatus.BAD_RECORD, _NOTHING_WALKED
        if record.offset_delta != index:
            status = BatchStatus.BAD_OFFSETS
        timestamp = _wrapped_64(base_timestamp + record.timestamp_delta)
        if timestamp > max_timestamp:
            max_timestamp, offset_of_max = timestamp, index
        if record.key is None and first_null_key < 0:
            first_null_key = index
        position = record.end
    if position != len(view):
        return BatchStatus.BAD_RECORD, _NOTHING_WALKED
    return status, (max_timestamp, offset_of_max, first_null_key)


def _all_records(view: memoryview, count: int) -> Iterator[_ParsedRecord]:
    position = 0
    for index in range(count):
        try:
            record = _read_record(view, position)
        except _MalformedError:
            raise ValueError(f"record {index} of {count} is malformed") from None
        yield record
        position = record.end
    if position != len(view):
        raise ValueError(f"{len(view) - position} bytes follow the last of {count} records")


def _read_record(view: memoryview, start: int) -> _ParsedRecord:
    length, position = _read_varint(view, start, len(view))
    if length < 1 or length > len(view) - position:
        raise _MalformedError
    end = position + length
    attributes = (view[position] ^ 0x80) - 0x80
    timestamp_delta, position = _read_varlong(view, position + 1, end)
    offset_delta, position = _read_varint(view, position, end)
    key, position = _read_nullable_span(view, position, end)
    value, position = _read_nullable_span(view, position, end)
    header_count, position = _read_varint(view, position, end)
    if header_count < 0:
        raise _MalformedError
    headers: list[tuple[_Span, _Span | None]] = []
    headers_start = position
    for _ in range(header_count):
        header_key, position = _read_nullable_span(view, position, end)
        if header_key is None:
            raise _MalformedError
        header_value, position = _read_nullable_span(view, position, end)
        headers.append((header_key, header_value))
    if position != end:
        raise _MalformedError
    return _ParsedRecord(start, end, attributes, timestamp_delta, offset_delta, key, value, headers, headers_start)


def _read_nullable_span(view: memoryview, position: int, end: int) -> tuple[_Span | None, int]:
    """A length and as many bytes; any negative length means null, as in Java."""
    length, position = _read_varint(view, position, end)
    if length < 0:
        return None, position
    if length > end - position:
        raise _MalformedError
    return (position, position + length), position + length


def _read_varint(view: memoryview, position: int, end: int) -> tuple[int, int]:
    raw, position = _read_unsigned(view, position, end, longest=5)
    raw &= 0xFFFFFFFF  # as in Java, bits that do not fit are dropped
    return (raw >> 1) ^ -(raw & 1), position


def _read_varlong(view: memoryview, position: int, end: int) -> tuple[int, int]:
    raw, position = _read_unsigned(view, position, end, longest=10)
    raw &= 0xFFFFFFFFFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), position


def _read_unsigned(view: memoryview, position: int, end: int, longest: int) -> tuple[int, int]:
    raw = 0
    for place in range(longest):
        if position >= end:
            raise _MalformedError
        byte = view[position]
        position += 1
        raw |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return raw, position
    raise _MalformedError


def _slice_or_none(view: memoryview, span: _Span | None) -> bytes | None:
    return None if span is None else bytes(view[span[0] : span[1]])


def _header_key(view: memoryview, span: _Span) -> str:
    return str(view[span[0] : span[1]], "utf-8", "surrogateescape")


def _wrapped_64(value: int) -> int:
    """As Java's long: overflow wraps around."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _bytes_of(data: Buffer) -> memoryview:
    view = memoryview(data)
    if not view.c_contiguous:
        raise BufferError("memoryview: underlying buffer is not C-contiguous")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


def _window(data: Buffer, position: int, limit: int) -> memoryview:
    view = _bytes_of(data)
    if not 0 <= position <= limit <= len(view):
        raise ValueError(f"window {position}..{limit} lies outside the buffer of {len(view)} bytes")
    return view


@cache
def _checksum() -> Callable[[memoryview, int], int]:
    """Looked for at first use: importing the package costs 30 ms."""
    try:
        from crc32c import crc32c as fast
    except ImportError:
        return _crc32c_by_table
    return fast


def _crc32c_by_table(data: memoryview, value: int) -> int:
    table = _crc_table()
    state = value ^ 0xFFFFFFFF
    for byte in data:
        state = (state >> 8) ^ table[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


@cache
def _crc_table() -> list[int]:
    table = []
    for state in range(256):
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
        table.append(state)
    return table
