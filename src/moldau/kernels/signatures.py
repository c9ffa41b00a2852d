"""Types of what the kernels return: plain tuples, since anything richer would cost more than the work itself."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Buffer
else:
    Buffer = Any

BatchFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of `moldau.kernels.status.BatchCheck`, in its order."""

RecordsFields = tuple[int, int, int, int]
"""status, walk_max_timestamp, walk_offset_of_max_timestamp, first_null_key_index"""

BatchPlace = tuple[int, int, int, int, int, int]
"""base_offset, last_offset, position, size, max_timestamp, leader_epoch"""

RecordFields = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int, int]
"""offset_delta, timestamp_delta, attributes, key, value, headers, start, end (of the record with its length, in the
payload). Header keys are UTF-8; bytes that are not stay as surrogate escapes, so that nothing is lost."""

RecordSpan = tuple[int, int, bytes | None, bool, int, int]
"""offset_delta, timestamp_delta, key, has_value, start, end"""

BytesColumn = tuple[Buffer | None, Buffer, Buffer, int]
"""validity, offsets, data, count of nulls"""

HeadersColumn = tuple[Buffer | None, Buffer, int, int, BytesColumn, BytesColumn]
"""validity of the lists, their offsets, count of null lists, count of headers, keys, values"""

ColumnsTaken = tuple[
    int, BytesColumn | None, BytesColumn | None, Buffer | None, Buffer | None, Buffer | None, HeadersColumn | None
]
"""rows, key, value, offset, timestamp, timestamp type, headers; None for what was not wanted"""

BytesSource = tuple[Buffer | None, Buffer, Buffer, int, bool]
"""validity bits, offsets (int64 if wide, else int32), data, where row 0 stands, wide; for encoding"""

NumbersSource = tuple[Buffer | None, Buffer, int]
"""validity bits, values (int64, partitions int32), where row 0 stands"""

HeadersSource = tuple[Buffer | None, Buffer, int, bool, BytesSource, BytesSource]
"""validity bits, offsets of the lists, where row 0 stands, wide, keys, values"""

RowSources = tuple[BytesSource | None, BytesSource | None, HeadersSource | None, NumbersSource | None]
"""key, value, headers, timestamps in microseconds"""

CommitTopic = tuple[str, bytes, int]
"""name, id, count of partitions"""

PackedCommit = tuple[str, int, str, str | None, bytearray, bytes, dict[str, dict[int, bytes]], int]
"""group, generation or member epoch, member, instance, batch, answer, values by topic and partition, their count"""
