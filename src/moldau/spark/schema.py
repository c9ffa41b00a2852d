"""The columns of a record: those of Spark's own Kafka connector, with the same names and types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.spark.option_table import OptionError, did_you_mean, read_flag, read_names

HEADERS: Final = "headers"
HEADER_TYPE: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: HEADER_TYPE,
}


EVERY_COLUMN: Final = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])


def record_schema(options: Mapping[str, str], offered: StructType = EVERY_COLUMN) -> StructType:
    """The columns that `columns` and `includeHeaders` ask for, of those that there are."""
    by_name = {field.name: field for field in offered}
    wanted = read_names(options, "columns")
    with_headers = read_flag(options, "includeHeaders", False)
    if wanted is None:
        wanted = tuple(name for name in by_name if name != HEADERS or with_headers)
    elif with_headers and HEADERS not in wanted:
        wanted = (*wanted, HEADERS)
    for name in wanted:
        if name not in by_name:
            raise OptionError("columns", f"there is no column {name!r}{did_you_mean(name, list(by_name))}")
    return StructType([by_name[name] for name in wanted])


def checked_schema(given: StructType, offered: StructType) -> StructType:
    """What `.schema(…)` asks for has to be offered, with the same types; it may leave columns out and reorder them."""
    by_name = {field.name: field for field in offered}
    for field in given:
        if field.name not in by_name:
            close = did_you_mean(field.name, list(by_name))
            raise OptionError("schema", f"there is no column {field.name!r}{close}; there are {', '.join(by_name)}")
        expected = by_name[field.name].dataType
        if field.dataType != expected:
            raise OptionError(
                "schema",
                f"column {field.name!r} is {expected.simpleString()} here, not {field.dataType.simpleString()}; "
                "cast it after reading, or see value.format",
            )
        if not field.nullable:
            raise OptionError("schema", f"column {field.name!r} cannot be NOT NULL: a source's columns may be null")
    return given
