"""The last step from parsed values to Spark's types, the same for whichever way a value was parsed.

Parsers deliver few Arrow types (the *raw* type of a Spark type): whole numbers as int64, others as double, dates, times
and decimals as text. `converted` casts them and raises `pa.ArrowInvalid` where a value does not fit.

    timestamp      ISO 8601 with an offset or Z; without one it is UTC; digits beyond microseconds are dropped
    timestamp_ntz  ISO 8601 without an offset
    date           YYYY-MM-DD
    decimal        digits that fit without rounding
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

UTC: Final = pa.timestamp("us", tz="UTC")
LOCAL: Final = pa.timestamp("us")
HAS_OFFSET: Final = r":.*(Z|[+-]\d\d:?(\d\d)?)$"
BEYOND_MICROSECONDS: Final = r"(\.\d{6})\d+"


def arrow_type(kind: DataType) -> pa.DataType:
    """As Spark wants it; every part may be null."""
    return to_arrow_type(kind, timezone="UTC")


def raw_type(kind: DataType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, raw_type(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", raw_type(kind.elementType)))
    if isinstance(kind, MapType):
        return pa.map_(raw_type(kind.keyType), raw_type(kind.valueType))
    if isinstance(kind, BooleanType):
        return pa.bool_()
    if isinstance(kind, IntegralType):
        return pa.int64()
    if isinstance(kind, FloatType | DoubleType):
        return pa.float64()
    return pa.binary() if isinstance(kind, BinaryType) else pa.string()


def converted(array: pa.Array, kind: DataType) -> pa.Array:
    if isinstance(kind, StructType):
        children = [converted(child, field.dataType) for child, field in zip(array.flatten(), kind.fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=array.is_null())
    if isinstance(kind, ArrayType):
        values = converted(array.values, kind.elementType)
        return pa.ListArray.from_arrays(array.offsets, values, type=arrow_type(kind), mask=array.is_null())
    if isinstance(kind, MapType):
        keys, items = converted(array.keys, kind.keyType), converted(array.items, kind.valueType)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=arrow_type(kind), mask=array.is_null())
    if isinstance(kind, TimestampType):
        return with_offsets(without_excess(array))
    if isinstance(kind, TimestampNTZType):
        return without_excess(array).cast(LOCAL)
    if isinstance(kind, StringType | BinaryType):
        return array
    return array.cast(arrow_type(kind))


def with_offsets(texts: pa.StringArray) -> pa.Array:
    """Each text says its offset or stands for UTC."""
    says = pc.match_substring_regex(texts, HAS_OFFSET)
    nothing = pa.nulls(1, texts.type)[0]
    told = pc.if_else(says, texts, nothing).cast(UTC)
    if told.null_count == texts.null_count:
        return told
    untold = pc.if_else(says, nothing, texts).cast(LOCAL)
    return pc.coalesce(told, untold.cast(pa.int64()).cast(UTC))


def without_excess(texts: pa.StringArray) -> pa.Array:
    if not pc.any(pc.match_substring_regex(texts, BEYOND_MICROSECONDS)).as_py():
        return texts
    return pc.replace_substring_regex(texts, BEYOND_MICROSECONDS, r"\1")


def is_supported(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(is_supported(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return is_supported(kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and is_supported(kind.valueType)
    plain = (BooleanType, IntegralType, FloatType, DoubleType, DecimalType, StringType, BinaryType, DateType)
    return isinstance(kind, (*plain, TimestampType, TimestampNTZType))
