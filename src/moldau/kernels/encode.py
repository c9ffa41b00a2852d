"""Pure-Python twin of `_encode.h`: rows in Arrow's columns to the records of a batch.

Columns are tuples of buffers in Arrow's layout; `first` is where row 0 stands in them:

    bytes:    (validity bits or None, offsets int32 or int64 (wide), data, first, wide)
    numbers:  (validity bits or None, values int64 or int32, first)
    headers:  (validity bits or None, offsets int32 or int64 (wide), first, wide, bytes column of keys, of values)

A record, numbers as zig-zag varints: length of the rest, int8 attributes, timestamp delta, offset delta, key length
(-1: null), key, value length (-1: null), value, count of headers, each: key length, key, value length, value.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels.signatures import BytesSource, HeadersSource, NumbersSource, RowSources

STICKY_ROWS: Final = 128
_INT32 = Struct("=i")
_INT64 = Struct("=q")
_UINT64 = Struct("=Q")
_ALL_32 = 0xFFFFFFFF
_ALL_64 = 0xFFFFFFFFFFFFFFFF
_LARGEST_INT32 = 0x7FFFFFFF
_NO_TIMESTAMP_GIVEN = -(1 << 63)
_DIGEST_NULL = 0x9E3779B97F4A7C15
_SHORT_COLUMN = "a column is shorter than the rows"


def murmur2(data: Buffer, /) -> int:
    """As org.apache.kafka.common.utils.Utils.murmur2, signed."""
    view = memoryview(data).cast("B")
    length, m = len(view), 0x5BD1E995
    h = 0x9747B28C ^ (length & _ALL_32)
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(view[i : i + 4], "little") * m & _ALL_32
        k = (k ^ k >> 24) * m & _ALL_32
        h = (h * m & _ALL_32) ^ k
    if whole < length:
        h = (h ^ int.from_bytes(view[whole:], "little")) * m & _ALL_32
    h = (h ^ h >> 13) * m & _ALL_32
    h ^= h >> 15
    return h - (1 << 32) if h >> 31 else h


def route_rows(
    length: int,
    key: BytesSource | None,
    topics: Buffer | None,
    counts: Buffer,
    partitions: NumbersSource | None,
    seen: Buffer,
    /,
) -> bytes:
    keys = None if key is None else _Bytes(key)
    chosen = None if partitions is None else _Numbers(partitions, 4)
    count_of = memoryview(counts).cast("B").cast("i")
    counters = memoryview(seen).cast("B").cast("q")
    if len(counters) < len(count_of) or not len(count_of):
        raise ValueError("the topics have no partition counts, or the counters are too few")
    topic_of = None if topics is None else memoryview(topics).cast("B").cast("i")
    columns = [column.room for column in (keys, chosen) if column is not None]
    if length < 0 or (topic_of is not None and len(topic_of) < length) or any(room < length for room in columns):
        raise ValueError(_SHORT_COLUMN)
    bases, base = [], 0
    for count in count_of:
        bases.append(base)
        if not 1 <= count <= _LARGEST_INT32 - base:
            raise ValueError("a topic has no partitions")
        base += count
    routes = bytearray()
    for row in range(length):
        topic = 0 if topic_of is None else topic_of[row]
        if not 0 <= topic < len(count_of):
            raise ValueError(f"row {row} is out of range")
        count = count_of[topic]
        partition = None if chosen is None else chosen.at(row)
        if partition is None:
            content = None if keys is None else keys.at(row, row)
            if content is None:
                partition = (counters[topic] & _ALL_64) // STICKY_ROWS % count
                counters[topic] = counters[topic] + 1
            else:
                partition = (murmur2(content) & 0x7FFFFFFF) % count
        elif not 0 <= partition < count:
            raise ValueError(f"row {row} names a partition that the topic does not have")
        routes += _INT32.pack(bases[topic] + partition)
    return bytes(routes)


def order_rows(routes: Buffer, route_count: int, /) -> tuple[bytes, list[int]]:
    if route_count < 0:
        raise ValueError("a count of routes is not negative")
    view = memoryview(routes).cast("B").cast("i")
    groups: list[list[int]] = [[] for _ in range(route_count)]
    for row, route in enumerate(view):
        if not 0 <= route < route_count:
            raise ValueError(f"row {row} is out of range")
        groups[route].append(row)
    order, ends = bytearray(), []
    for group in groups:
        for row in group:
            order += _INT32.pack(row)
        ends.append(len(order) // 4)
    return bytes(order), ends


def encode_records(
    rows: RowSources,
    length: int,
    order: Buffer,
    start: int,
    stop: int,
    default_timestamp: int,
    base_timestamp: int | None,
    first_delta: int,
    room: int,
    /,
) -> tuple[bytes, int, int, int]:
    columns = _Rows(rows, length)
    wanted = memoryview(order).cast("B").cast("i")
    if not 0 <= start <= stop <= len(wanted) or not 0 <= first_delta <= _LARGEST_INT32 - (stop - start):
        raise ValueError("the wanted rows lie outside the order")
    payload = bytearray()
    taken, max_timestamp = 0, -(1 << 63)
    for row in wanted[start:stop]:
        if not 0 <= row < length:
            raise ValueError(f"row {row} is out of range")
        key, value, headers, given = columns.at(row)
        timestamp = default_timestamp if given is None else given
        if base_timestamp is None:
            base_timestamp = timestamp
        body = bytearray(1)
        append_varint(body, _signed_64(timestamp - base_timestamp))
        append_varint(body, first_delta + taken)
        append_nullable(body, key)
        append_nullable(body, value)
        append_varint(body, len(headers))
        for name, content in headers:
            if name is None:
                raise ValueError(f"row {row} has a header without a key")
            append_nullable(body, name)
            append_nullable(body, content)
        if len(body) > _LARGEST_INT32:
            raise ValueError(f"row {row} is too large for a record")
        record = bytearray()
        append_varint(record, len(body))
        record += body
        if len(payload) + len(record) > room and first_delta + taken > 0:
            break
        payload += record
        taken += 1
        max_timestamp = max(max_timestamp, timestamp)
    return bytes(payload), taken, base_timestamp or 0, max_timestamp


def digest_rows(
    rows: RowSources, length: int, topics: Buffer | None, salts: Buffer, partitions: NumbersSource | None, /
) -> int:
    columns = _Rows(rows, length)
    chosen = None if partitions is None else _Numbers(partitions, 4)
    salt_of = memoryview(salts).cast("B").cast("Q")
    topic_of = None if topics is None else memoryview(topics).cast("B").cast("i")
    if (topic_of is not None and len(topic_of) < length) or (chosen is not None and chosen.room < length):
        raise ValueError(_SHORT_COLUMN)
    total = 0
    for row in range(length):
        topic = 0 if topic_of is None else topic_of[row]
        if not 0 <= topic < len(salt_of):
            raise ValueError(f"row {row} is out of range")
        key, value, headers, timestamp = columns.at(row)
        partition = None if chosen is None else chosen.at(row)
        h = _mix(salt_of[topic] + (-1 if partition is None else partition))
        h = _mix(h + (_NO_TIMESTAMP_GIVEN if timestamp is None else timestamp))
        h = _fold(_fold(h, key), value)
        for name, content in headers:
            h = _fold(_fold(h, name), content)
        total += _mix(h + len(headers))
    return total & _ALL_64


class _Bytes:
    """A column of byte strings."""

    def __init__(self, column: BytesSource) -> None:
        validity, offsets, data, self._first, wide = _shaped(column, 5, 3)
        bits, self._validity = _bits(validity)
        self._offsets = _whole_items(offsets, wide)
        self._data = memoryview(data).cast("B")
        self.room = min(bits, len(self._offsets) - 1) - self._first

    def at(self, index: int, row: int) -> bytes | None:
        place = self._first + index
        if not _is_set(self._validity, place):
            return None
        start, end = self._offsets[place], self._offsets[place + 1]
        if not 0 <= start <= end <= len(self._data) or end - start > _LARGEST_INT32:
            raise ValueError(f"row {row} has offsets outside its column")
        return bytes(self._data[start:end])


class _Numbers:
    def __init__(self, column: NumbersSource, width: int) -> None:
        validity, values, self._first = _shaped(column, 3, 2)
        bits, self._validity = _bits(validity)
        self._values = _whole_items(values, width == _INT64.size)
        self.room = min(bits, len(self._values)) - self._first

    def at(self, row: int) -> int | None:
        place = self._first + row
        return self._values[place] if _is_set(self._validity, place) else None


_Header = tuple[bytes | None, bytes | None]


class _Headers:
    def __init__(self, column: HeadersSource) -> None:
        validity, offsets, self._first, wide, keys, values = _shaped(column, 6, 2)
        bits, self._validity = _bits(validity)
        self._offsets = _whole_items(offsets, wide)
        self._keys, self._values = _Bytes(keys), _Bytes(values)
        self.room = min(bits, len(self._offsets) - 1) - self._first

    def at(self, row: int) -> list[_Header]:
        place = self._first + row
        if not _is_set(self._validity, place):
            return []
        start, end = self._offsets[place], self._offsets[place + 1]
        if not 0 <= start <= end <= min(self._keys.room, self._values.room) or end - start > _LARGEST_INT32:
            raise ValueError(f"row {row} has offsets outside its column")
        return [(self._keys.at(index, row), self._values.at(index, row)) for index in range(start, end)]


class _Rows:
    def __init__(self, rows: RowSources, length: int) -> None:
        if not isinstance(rows, tuple) or len(rows) != 4:
            raise TypeError("rows are a tuple of the columns key, value, headers, timestamps")
        key, value, headers, timestamps = rows
        self._key = None if key is None else _Bytes(key)
        self._value = None if value is None else _Bytes(value)
        self._headers = None if headers is None else _Headers(headers)
        self._timestamps = None if timestamps is None else _Numbers(timestamps, _INT64.size)
        present = (self._key, self._value, self._headers, self._timestamps)
        if length < 0 or any(column is not None and column.room < length for column in present):
            raise ValueError(_SHORT_COLUMN)

    def at(self, row: int) -> tuple[bytes | None, bytes | None, list[_Header], int | None]:
        """Key, value, headers and, in milliseconds, the timestamp."""
        key = None if self._key is None else self._key.at(row, row)
        value = None if self._value is None else self._value.at(row, row)
        headers = [] if self._headers is None else self._headers.at(row)
        microseconds = None if self._timestamps is None else self._timestamps.at(row)
        return key, value, headers, None if microseconds is None else microseconds // 1000


def _shaped(column: tuple, size: int, first_at: int) -> tuple:  # type: ignore[type-arg]
    if not isinstance(column, tuple) or len(column) != size:
        raise TypeError(f"a column is a tuple of {size}")
    if column[first_at] < 0:
        raise ValueError("a column starts before its buffers")
    return column


def _bits(validity: Buffer | None) -> tuple[int, memoryview | None]:
    if validity is None:
        return (1 << 63) - 1, None
    view = memoryview(validity).cast("B")
    return len(view) * 8, view


def _whole_items(data: Buffer, wide: bool) -> memoryview[int]:
    view = memoryview(data).cast("B")
    width = _INT64.size if wide else _INT32.size
    whole = view[: len(view) // width * width]
    return whole.cast("q") if wide else whole.cast("i")


def _is_set(validity: memoryview | None, index: int) -> bool:
    return validity is None or bool(validity[index >> 3] >> (index & 7) & 1)


def append_varint(output: bytearray, value: int) -> None:
    """Zig-zag: small numbers of either sign become short. Right for both 32 and 64 bit numbers."""
    rest = value << 1 if value >= 0 else (~value << 1) | 1
    while rest > 0x7F:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)


def append_nullable(output: bytearray, value: bytes | None) -> None:
    if value is None:
        output.append(1)
    else:
        append_varint(output, len(value))
        output += value


def _signed_64(value: int) -> int:
    """As Java's long: overflow wraps around."""
    return ((value + (1 << 63)) & _ALL_64) - (1 << 63)


def _mix(h: int) -> int:
    """The finaliser of splitmix64."""
    h &= _ALL_64
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & _ALL_64
    h = (h ^ h >> 27) * 0x94D049BB133111EB & _ALL_64
    return h ^ h >> 31


def _fold(h: int, content: bytes | None) -> int:
    """MurmurHash64A over the content, seeded with what came before."""
    if content is None:
        return _mix(h ^ _DIGEST_NULL)
    m, length = 0xC6A4A7935BD1E995, len(content)
    h ^= length * m & _ALL_64
    whole = length & ~7
    for (word,) in _UINT64.iter_unpack(content[:whole]):
        k = word * m & _ALL_64
        k = (k ^ k >> 47) * m & _ALL_64
        h = (h ^ k) * m & _ALL_64
    if whole < length:
        h = (h ^ int.from_bytes(content[whole:], "little")) * m & _ALL_64
    h = (h ^ h >> 47) * m & _ALL_64
    return h ^ h >> 47
