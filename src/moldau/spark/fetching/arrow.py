"""From the kernel's buffers to Arrow record batches with the schema of Spark's own Kafka source.

Nothing is copied: the arrays stand on the buffers that `RecordColumns.take` hands over. Columns that are the same in
every row (topic, partition) are built once and cut to length.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from moldau.kernels import Column

if TYPE_CHECKING:
    from moldau.kernels.signatures import BytesColumn, ColumnsTaken, HeadersColumn

HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER)),
}
BUILT: Final = {
    "key": Column.KEY,
    "value": Column.VALUE,
    "offset": Column.OFFSET,
    "timestamp": Column.TIMESTAMP,
    "timestampType": Column.TIMESTAMP_TYPE,
    "headers": Column.HEADERS,
}
PARTITION_BYTES: Final = 4


class Assembler:
    """Makes the batches of one partition with these columns, in this order."""

    def __init__(self, columns: Sequence[str], topic: str, partition: int) -> None:
        self.schema = pa.schema([pa.field(name, TYPES[name]) for name in columns])
        self.want = sum(BUILT[name] for name in set(columns) & set(BUILT))
        self.row_bytes = (4 + len(topic.encode()) if "topic" in columns else 0) + (
            PARTITION_BYTES if "partition" in columns else 0
        )
        self._columns = tuple(columns)
        self._topic = Constant(lambda rows: repeated_text(topic, rows))
        self._partition = Constant(lambda rows: repeated_number(partition, rows))

    def batch(self, taken: ColumnsTaken) -> pa.RecordBatch:
        if not self._columns:
            # Rows without columns: only a struct array carries a length then.
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), taken[0], [None]))
        return pa.RecordBatch.from_arrays([self._array(name, taken) for name in self._columns], schema=self.schema)

    def _array(self, name: str, taken: ColumnsTaken) -> pa.Array:
        rows, key, value, offset, timestamp, timestamp_type, headers = taken
        if name == "topic":
            return self._topic.of(rows)
        if name == "partition":
            return self._partition.of(rows)
        if name == "headers":
            assert headers is not None
            return headers_array(rows, headers)
        if name in ("key", "value"):
            column = key if name == "key" else value
            assert column is not None
            return bytes_array(TYPES[name], rows, column)
        numbers = {"offset": offset, "timestamp": timestamp, "timestampType": timestamp_type}[name]
        return pa.Array.from_buffers(TYPES[name], rows, [None, pa.py_buffer(numbers)], null_count=0)


class Constant:
    """A column with one value: kept as long as the longest batch so far, and cut."""

    def __init__(self, build: Callable[[int], pa.Array]) -> None:
        self._build = build
        self._longest = build(0)

    def of(self, rows: int) -> pa.Array:
        if len(self._longest) < rows:
            self._longest = self._build(rows)
        return self._longest.slice(0, rows)


# Built from buffers: `pa.scalar` and `pa.array` would import pandas, which costs a fresh worker a third of a second.


def repeated_text(text: str, rows: int) -> pa.Array:
    data = text.encode()
    offsets = array("i", range(0, len(data) * (rows + 1), len(data)))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data * rows)])


def repeated_number(number: int, rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(array("i", [number]) * rows)])


def bytes_array(kind: pa.DataType, rows: int, column: BytesColumn) -> pa.Array:
    validity, offsets, data, nulls = column
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


def headers_array(rows: int, column: HeadersColumn) -> pa.Array:
    validity, offsets, nulls, count, keys, values = column
    pairs = pa.StructArray.from_arrays(
        [bytes_array(pa.string(), count, keys), bytes_array(pa.binary(), count, values)], fields=list(HEADER)
    )
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(TYPES["headers"], rows, buffers, null_count=nulls, children=[pairs])
