"""The columns of a sink: which a DataFrame has, whether their types fit, and an Arrow batch as the kernels take it.

| column | type | if it is missing or null |
|---|---|---|
| value | binary or string; any with `value.format` | required; null is a tombstone |
| key | the same, with `key.format` | no key |
| headers | array of struct(key string, value binary or string) | none |
| topic | string | the option `topic`; that option goes before the column |
| partition | int | by murmur2 of the key, as Kafka's Java client |
| timestamp | timestamp | the time of writing |

Other columns are left out, as in Spark's own connector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.kernels.signatures import BytesSource, NumbersSource, RowSources
from moldau.spark.writing.columns import bytes_source, headers_source, numbers_source
from moldau.spark.writing.errors import RowRefused

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType
    from typing_extensions import Buffer

KEY, VALUE, HEADERS, TOPIC, PARTITION, TIMESTAMP = "key", "value", "headers", "topic", "partition", "timestamp"
WANTED_TYPES: Final = {
    KEY: "binary or string",
    VALUE: "binary or string",
    HEADERS: "array<struct<key:string,value:binary>>",
    TOPIC: "string",
    PARTITION: "int",
    TIMESTAMP: "timestamp",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the sink's columns stand in the rows."""

    positions: dict[str, int]
    topic: str | None
    """The option; None if each row names its topic."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One Arrow batch, ready for the kernels, which look at buffers that the batch keeps alive."""

    length: int
    columns: RowSources
    topics: Buffer | None
    """For each row the index of its topic; None if all go to topic 0."""
    partitions: NumbersSource | None


def check_schema(schema: StructType, topic: str | None, typed: Collection[str] = ()) -> Layout:
    """Refuses a DataFrame that cannot be written, naming the column. `typed` columns may have any type."""
    positions = {}
    for position, name in enumerate(schema.fieldNames()):
        known = name.lower()
        if known not in WANTED_TYPES:
            continue
        if known in positions:
            raise RowRefused(f"there are two columns {known!r}")
        kind = schema.fields[position].dataType
        if known not in typed and not type_fits(known, kind):
            raise RowRefused(f"column {name!r} is {kind.simpleString()}; it has to be {WANTED_TYPES[known]}")
        positions[known] = position
    if VALUE not in positions:
        columns = ", ".join(schema.fieldNames()) or "none"
        raise RowRefused(f"a column 'value' (binary or string) is needed; the columns are: {columns}")
    if topic is None and TOPIC not in positions:
        raise RowRefused("a topic is needed: the option 'topic', or a column 'topic' (string)")
    return Layout(positions, topic)


def type_fits(column: str, kind: DataType) -> bool:
    from pyspark.sql import types as spark

    if isinstance(kind, spark.NullType):
        return column != TOPIC
    if column in (KEY, VALUE):
        return isinstance(kind, spark.BinaryType | spark.StringType)
    if column == HEADERS:
        return (
            isinstance(kind, spark.ArrayType)
            and isinstance(kind.elementType, spark.StructType)
            and len(kind.elementType.fields) == 2
            and isinstance(kind.elementType.fields[0].dataType, spark.StringType)
            and isinstance(kind.elementType.fields[1].dataType, spark.BinaryType | spark.StringType)
        )
    if column == TOPIC:
        return isinstance(kind, spark.StringType)
    if column == PARTITION:
        return isinstance(kind, spark.IntegerType)
    return isinstance(kind, spark.TimestampType | spark.TimestampNTZType)


def read_rows(batch: pa.RecordBatch, layout: Layout, topic_index: Callable[[str], int]) -> Rows:
    """`topic_index` makes a topic known and gives its index."""

    def column(name: str) -> pa.Array | None:
        import pyarrow.types as kinds

        position = layout.positions.get(name)
        found = None if position is None else batch.column(position)
        return None if found is None or kinds.is_null(found.type) else found

    headers, timestamps, partitions = column(HEADERS), column(TIMESTAMP), column(PARTITION)
    if headers is not None and headers.values.null_count:
        raise RowRefused("column 'headers' has a null among its headers")
    return Rows(
        batch.num_rows,
        (
            optional_bytes(column(KEY)),
            optional_bytes(column(VALUE)),
            None if headers is None else headers_source(headers),
            None if timestamps is None else numbers_source(in_microseconds(timestamps)),
        ),
        topics_of_rows(column(TOPIC), layout.topic, topic_index),
        None if partitions is None else numbers_source(partitions),
    )


def optional_bytes(column: pa.Array | None) -> BytesSource | None:
    return None if column is None else bytes_source(column)


def in_microseconds(column: pa.Array) -> pa.Array:
    """Spark hands over microseconds; whoever calls this with another unit gets them too."""
    import pyarrow as pa

    return column if column.type.unit == "us" else column.cast(pa.timestamp("us", column.type.tz))


def topics_of_rows(column: pa.Array | None, topic: str | None, topic_index: Callable[[str], int]) -> Buffer | None:
    import pyarrow as pa

    if topic is not None:
        topic_index(topic)
        return None
    if column is None or column.null_count:
        raise RowRefused("column 'topic' is null in a row; set the option 'topic', or fill it")
    encoded = column.dictionary_encode()
    known = pa.array([topic_index(name) for name in encoded.dictionary.to_pylist()], pa.int32())
    return known.take(encoded.indices).buffers()[1] if len(encoded) else b""
