"""Pure-Python twin of `_columns.h`: record batches to columns in Arrow's layout.

A column of bytes is three buffers in the machine's byte order:

    offsets   int32 × (rows + 1), the first is 0
    data      the bytes of all rows, one after the other
    validity  one bit per row from the lowest up, 1 = not null; None if nothing is null

Offsets and timestamps (microseconds) are int64 × rows, timestamp types int32 × rows. Headers are a list: validity and
int32 offsets per row, then the keys (UTF-8) and values of all headers as two columns of bytes. A record without headers
has null for a list, as in Spark's own Kafka source.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from moldau.kernels.python import (
    _CODEC_MASK,
    _CONTROL,
    _CRC_STARTS_AT,
    _HEADER,
    _HEADER_SIZE,
    _bytes_of,
    _frame,
    _MalformedError,
    _ParsedRecord,
    _read_record,
    _window,
    _wrapped_64,
    crc32c,
    scan_batches,
)
from moldau.kernels.status import BatchStatus, Column, RunEnd

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels.signatures import BytesColumn, ColumnsTaken, HeadersColumn

_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_ARROW_LIMIT = 2**31 - 1
_LAST_INT64 = 2**63 - 1
_ALL = sum(Column)
_ROW_BYTES = {
    Column.KEY: 4,
    Column.VALUE: 4,
    Column.OFFSET: 8,
    Column.TIMESTAMP: 8,
    Column.TIMESTAMP_TYPE: 4,
    Column.HEADERS: 4,
}


class RecordColumns:
    def __init__(
        self, want: int, row_bytes: int = 0, low_timestamp: int = -(2**63), high_timestamp: int = _LAST_INT64, /
    ) -> None:
        if not 0 <= want <= _ALL or not 0 <= row_bytes <= _ARROW_LIMIT:
            raise ValueError("unknown columns, or a senseless size of a row")
        self._want = want
        self._row_bytes = row_bytes + sum(size for column, size in _ROW_BYTES.items() if want & column)
        self._timestamps = (low_timestamp, high_timestamp)
        self._start_anew()

    def _start_anew(self) -> None:
        self._rows = self._held = 0
        self._key, self._value = _BytesBuilder(), _BytesBuilder()
        self._offset, self._timestamp, self._timestamp_type = array("q"), array("q"), array("i")
        self._header_lists, self._header_offsets = _Bits(), array("i", [0])
        self._header_key, self._header_value = _BytesBuilder(), _BytesBuilder()

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def bytes(self) -> int:
        return self._held

    def append_run(
        self,
        data: Buffer,
        position: int,
        limit: int,
        start: int,
        stop: int,
        room: int,
        check_crc: bool,
        stop_at_transactional: bool,
        /,
    ) -> tuple[int, int, int]:
        view = _window(data, position, limit)
        while position < limit:
            status, size = _frame(view, position, limit)
            if status == BatchStatus.TRUNCATED or (status == BatchStatus.OK and size > limit - position):
                break
            if status != BatchStatus.OK:
                raise _refused(status, position)
            head = _Head(view[position : position + _HEADER_SIZE])
            if head.makes_no_sense():
                raise _refused(BatchStatus.BAD_COUNT, position)
            if head.base_offset >= stop:
                return position, start, int(RunEnd.PAST_END)
            if head.last_offset < start:
                position += size
                continue
            if head.attributes & (_CODEC_MASK | _CONTROL) or (
                stop_at_transactional and head.attributes & _TRANSACTIONAL
            ):
                return position, start, int(RunEnd.SPECIAL)
            if check_crc and crc32c(view[position + _CRC_STARTS_AT : position + size]) != head.crc:
                raise _refused(BatchStatus.BAD_CRC, position)
            try:
                start = self._append_records(head, view[position + _HEADER_SIZE : position + size], start, stop, room)
            except _MalformedError:
                raise _refused(BatchStatus.BAD_RECORD, position) from None
            if start <= head.last_offset:
                return position, start, int(RunEnd.FULL)
            position += size
            if start >= stop:
                return position, start, int(RunEnd.PAST_END)
        return position, start, int(RunEnd.DATA_ENDED)

    def append_batch(self, head: Buffer, payload: Buffer, start: int, stop: int, room: int, /) -> int:
        fields = _bytes_of(head)
        if len(fields) < _HEADER_SIZE:
            raise ValueError(f"a batch has a head of {_HEADER_SIZE} bytes")
        batch = _Head(fields)
        try:
            if batch.makes_no_sense():
                raise _MalformedError
            return self._append_records(batch, _bytes_of(payload), start, stop, room)
        except _MalformedError:
            raise ValueError(f"the records of the batch at offset {batch.base_offset} are malformed") from None

    def take(self) -> ColumnsTaken:
        want = self._want
        headers: HeadersColumn | None = None
        if want & Column.HEADERS:
            headers = (
                self._header_lists.taken(),
                self._header_offsets.tobytes(),
                self._header_lists.nulls,
                self._header_key.items,
                self._header_key.taken(),
                self._header_value.taken(),
            )
        taken: ColumnsTaken = (
            self._rows,
            self._key.taken() if want & Column.KEY else None,
            self._value.taken() if want & Column.VALUE else None,
            self._offset.tobytes() if want & Column.OFFSET else None,
            self._timestamp.tobytes() if want & Column.TIMESTAMP else None,
            self._timestamp_type.tobytes() if want & Column.TIMESTAMP_TYPE else None,
            headers,
        )
        self._start_anew()
        return taken

    def _append_records(self, head: _Head, view: memoryview, start: int, stop: int, room: int) -> int:
        """The offset of the first record that had no room, or the one behind the batch."""
        timestamp_type = 1 if head.attributes & _LOG_APPEND_TIME else 0
        low, high = self._timestamps
        room = min(max(room, 0), _ARROW_LIMIT)
        position, previous = 0, -1
        for _ in range(head.count):
            record = _read_record(view, position)
            position = record.end
            if not previous < record.offset_delta <= head.last_offset_delta:
                raise _MalformedError
            previous = record.offset_delta
            offset = head.base_offset + record.offset_delta
            if offset < start:
                continue
            if offset >= stop:
                return head.last_offset + 1
            timestamp = head.max_timestamp if timestamp_type else head.base_timestamp + record.timestamp_delta
            micros = _wrapped_64(_wrapped_64(timestamp) * 1000)
            if not low <= micros <= high:
                continue
            size = self._size_of(record)
            if self._rows > 0 and self._held + size > room:
                return offset
            self._push(view, record, offset, micros, timestamp_type)
            self._rows += 1
            self._held += size
        if position != len(view):
            raise _MalformedError
        return head.last_offset + 1

    def _size_of(self, record: _ParsedRecord) -> int:
        size = self._row_bytes
        if self._want & Column.KEY and record.key is not None:
            size += record.key[1] - record.key[0]
        if self._want & Column.VALUE and record.value is not None:
            size += record.value[1] - record.value[0]
        if self._want & Column.HEADERS:
            size += record.end - record.headers_start + 8 * len(record.headers)
        return size

    def _push(self, view: memoryview, record: _ParsedRecord, offset: int, micros: int, timestamp_type: int) -> None:
        want = self._want
        if want & Column.KEY:
            self._key.push(view, record.key)
        if want & Column.VALUE:
            self._value.push(view, record.value)
        if want & Column.OFFSET:
            self._offset.append(offset)
        if want & Column.TIMESTAMP:
            self._timestamp.append(micros)
        if want & Column.TIMESTAMP_TYPE:
            self._timestamp_type.append(timestamp_type)
        if want & Column.HEADERS:
            for (key_start, key_end), value in record.headers:
                text = str(view[key_start:key_end], "utf-8", "replace").encode()
                self._header_key.push(memoryview(text), (0, len(text)))
                self._header_value.push(view, value)
            self._header_lists.push(bool(record.headers))
            self._header_offsets.append(self._header_key.items)


def skim_batches(data: Buffer, position: int, limit: int, /) -> tuple[int, int, int]:
    places = scan_batches(data, position, limit)
    if not places:
        return position, -1, 0
    _base, last_offset, start, size, _timestamp, _epoch = places[-1]
    return start + size, _wrapped_64(last_offset + 1), len(places)


class _Head:
    """The fields of a batch's head that matter here."""

    base_offset: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    count: int

    def __init__(self, view: memoryview) -> None:
        (
            self.base_offset,
            _length,
            _epoch,
            _magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            _producer_id,
            _producer_epoch,
            _sequence,
            self.count,
        ) = _HEADER.unpack_from(view)
        self.last_offset: int = self.base_offset + self.last_offset_delta

    def makes_no_sense(self) -> bool:
        return (
            self.base_offset < 0 or self.last_offset_delta < 0 or self.count < 0 or self.last_offset > _LAST_INT64 - 1
        )


class _Bits:
    def __init__(self) -> None:
        self._bytes = bytearray()
        self.items = 0
        self.nulls = 0

    def push(self, valid: bool) -> None:
        if self.items & 7 == 0:
            self._bytes.append(0)
        if valid:
            self._bytes[-1] |= 1 << (self.items & 7)
        else:
            self.nulls += 1
        self.items += 1

    def taken(self) -> bytes | None:
        return bytes(self._bytes) if self.nulls else None


class _BytesBuilder:
    def __init__(self) -> None:
        self._validity = _Bits()
        self._offsets = array("i", [0])
        self._data = bytearray()

    @property
    def items(self) -> int:
        return self._validity.items

    def push(self, view: memoryview, span: tuple[int, int] | None) -> None:
        if span is not None:
            self._data += view[span[0] : span[1]]
        self._validity.push(span is not None)
        self._offsets.append(len(self._data))

    def taken(self) -> BytesColumn:
        return self._validity.taken(), self._offsets.tobytes(), bytes(self._data), self._validity.nulls


def _refused(status: BatchStatus, position: int) -> ValueError:
    return ValueError(f"{status.name} at position {position}")
