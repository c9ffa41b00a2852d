"""Records as Parquet, ORC or JSON lines, and back.

A row has the columns topic (where it was routed), partition, offset, timestamp, key, value and headers. Key and value
are bytes where the converter gives bytes, and have types where it knows them: structs, lists, whole numbers of 64 bits,
doubles, decimals, dates, times. In JSON lines, bytes are in base 64, times as ISO 8601 has them.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from moldau.connect.interface import SinkRecord

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
SIDES: Final = ("key", "value")
DIGITS: Final = 38
BINARY: Final = '"binary"'
"""As Spark's JSON has the type."""


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    write: Callable[[pa.Table, str], bytes]
    """With a codec."""
    read: Callable[[bytes], pa.Table]
    codecs: Mapping[str, str]
    """The ending of a file by the codec."""


def table_of(records: Sequence[SinkRecord], *, plain: bool) -> tuple[pa.Table, dict[str, str]]:
    """Rows, and the types of key and value in Spark's JSON. `plain`: what JSON can hold."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    columns: dict[str, Any] = {
        "topic": pa.array([record.topic for record in records], pa.string()),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "offset": pa.array([record.offset for record in records], pa.int64()),
        "timestamp": pa.array([record.timestamp_ms for record in records], pa.timestamp("ms", "UTC")),
    }
    kinds = {}
    for side in SIDES:
        values = [simple(getattr(record, side)) for record in records]
        if plain and not all(value is None or isinstance(value, bytes) for value in values):
            values = [as_json(value) for value in values]
        array = pa.array(values)
        kinds[side] = from_arrow_type(array.type).json()
        columns[side] = array.cast(concrete(array.type))
    headers = [[{"key": key, "value": value} for key, value in record.headers] for record in records]
    columns["headers"] = pa.array(headers, header_type())
    return pa.table(columns), kinds


def header_type() -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def simple(value: Any) -> Any:
    """What Arrow finds one type for: maps, which come as lists of pairs, as lists of structs; decimals of one width."""
    if isinstance(value, dict):
        return {name: simple(each) for name, each in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(each, tuple) for each in value):
            return [{"key": simple(key), "value": simple(each)} for key, each in value]
        return [simple(each) for each in value]
    return bytes(value) if isinstance(value, bytearray) else value


def as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value.isoformat()


def concrete(kind: pa.DataType) -> pa.DataType:
    """With a type for what is null everywhere, which not every format has, and decimals as wide as they get."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return pa.binary()
    if pa.types.is_decimal(kind):
        return pa.decimal128(DIGITS, kind.scale)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, concrete(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(concrete(kind.value_type))
    return kind


# -- the formats -----------------------------------------------------------------------------------------------------


def write_parquet(table: pa.Table, codec: str) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression=codec)
    return buffer.getvalue()


def read_parquet(content: bytes) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(io.BytesIO(content))


def write_orc(table: pa.Table, codec: str) -> bytes:
    from pyarrow import orc

    buffer = io.BytesIO()
    orc.write_table(table, buffer, compression="uncompressed" if codec == "none" else codec)
    return buffer.getvalue()


def read_orc(content: bytes) -> pa.Table:
    from pyarrow import orc

    return orc.read_table(io.BytesIO(content))


def write_json(table: pa.Table, codec: str) -> bytes:
    lines = []
    for row in table.to_pylist():
        row["timestamp"] = None if row["timestamp"] is None else millis_of(row["timestamp"])
        for side in SIDES:
            row[side] = as_json(row[side])
        row["headers"] = as_json(row["headers"])
        lines.append(json.dumps(row, ensure_ascii=False))
    content = "".join(f"{line}\n" for line in lines).encode()
    return gzip.compress(content, mtime=0) if codec == "gzip" else content


def millis_of(stamp: Any) -> int:
    from datetime import UTC, datetime, timedelta

    found: int = (stamp - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    return found


def read_json(content: bytes) -> pa.Table:
    """Keys and values as they stand there: bytes in base 64."""
    import pyarrow as pa

    text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    rows = [json.loads(line) for line in text.splitlines()]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in COLUMNS}
    columns["timestamp"] = pa.array(columns["timestamp"], pa.timestamp("ms", "UTC"))
    headers = [[{"key": each["key"], "value": unbased(each["value"])} for each in row] for row in columns["headers"]]
    columns["headers"] = pa.array(headers, header_type())
    return pa.table(columns)


def unbased(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


PARQUET: Final = Format(
    "parquet",
    write_parquet,
    read_parquet,
    {
        "none": ".parquet",
        "snappy": ".snappy.parquet",
        "gzip": ".gz.parquet",
        "zstd": ".zstd.parquet",
        "lz4": ".lz4.parquet",
        "brotli": ".brotli.parquet",
    },
)
ORC: Final = Format(
    "orc", write_orc, read_orc, {"none": ".orc", "zstd": ".zstd.orc", "snappy": ".snappy.orc", "lz4": ".lz4.orc"}
)
JSON: Final = Format("json", write_json, read_json, {"none": ".json", "gzip": ".json.gz"})
FORMATS: Final[Mapping[str, Format]] = {each.name: each for each in (PARQUET, ORC, JSON)}


def empty_file(name: str) -> bytes:
    """One without records."""
    endings = ((ending, codec, each) for each in FORMATS.values() for codec, ending in each.codecs.items())
    _, codec, found = max((pair for pair in endings if name.endswith(pair[0])), key=lambda pair: len(pair[0]))
    table, _ = table_of([], plain=found is JSON)
    return found.write(table, codec)


def rows_of(format_name: str, content: bytes, kinds: Mapping[str, str]) -> pa.Table:
    """The rows of a file; `kinds`: the types of key and value, as `table_of` gave them."""
    import pyarrow as pa

    table = FORMATS[format_name].read(content)
    if format_name == "json":
        for side in SIDES:
            if kinds[side] == BINARY:
                values: Iterable[bytes | None] = [unbased(each) for each in table.column(side).to_pylist()]
                table = table.set_column(table.schema.get_field_index(side), side, pa.array(values, pa.binary()))
    return table
