"""Columns to JSON and back, in the forms of Connect's JSON converter: times as numbers, bytes and decimals in base
64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.connect.schemas import DEFAULT

LONG_DIGITS: Final = 18
"""A decimal of more does not fit into 64 bits."""
NUMBER: Final = r"^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$"
MILLIS_OF_PYTHON: Final = (-62_135_596_800_000, 253_402_300_799_999)
DAYS_OF_PYTHON: Final = (-719_162, 2_932_896)
"""From the year 1 to 9999: what lies outside cannot be handed to a connector."""


def json_text(column: Column, kind: DataType, *, numeric: bool) -> Column:
    """`numeric`: decimals as numbers, not in base 64."""
    # A value alone is no document to Spark, a list of one is.
    listed = F.to_json(F.array(to_plain(column, kind, numeric=numeric)), {"ignoreNullFields": "false"})
    return F.substr(listed, F.lit(2), F.length(listed) - 2)


def is_plain(kind: DataType, *, numeric: bool) -> bool:
    match kind:
        case StructType():
            return all(is_plain(field.dataType, numeric=numeric) for field in kind)
        case ArrayType():
            return is_plain(kind.elementType, numeric=numeric)
        case MapType():
            return is_plain(kind.keyType, numeric=numeric) and is_plain(kind.valueType, numeric=numeric)
        case DecimalType():
            return numeric
    return not isinstance(kind, TimestampType | TimestampNTZType | DateType)


def to_plain(column: Column, kind: DataType, *, numeric: bool) -> Column:
    """What `to_json` writes as Connect does."""
    if is_plain(kind, numeric=numeric):
        return column
    match kind:
        case TimestampType() | TimestampNTZType():
            return F.unix_millis(column.cast("timestamp"))
        case DateType():
            return F.unix_date(column)
        case DecimalType():
            return decimal_bytes(column, kind)
        case StructType():
            fields = [to_plain(column[field.name], field.dataType, numeric=numeric).alias(field.name) for field in kind]
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType():
            return F.transform(column, lambda each: to_plain(each, kind.elementType, numeric=numeric))
        case MapType():
            return F.transform_values(column, lambda _, each: to_plain(each, kind.valueType, numeric=numeric))
    return column


def decimal_bytes(column: Column, kind: DecimalType) -> Column:
    """The unscaled number, big-endian in two's complement: 8 bytes where they suffice, else 16."""
    if kind.precision <= LONG_DIGITS:
        return F.unhex(F.lpad(F.hex(unscaled(column).cast("bigint")), 16, "0"))
    number = unscaled(column)
    rest, times = number % two_64(), F.call_function("div", number, two_64())
    low = F.when(rest < 0, rest + two_64()).otherwise(rest)
    high = F.when(rest < 0, times - 1).otherwise(times)
    return F.unhex(F.concat(F.lpad(F.hex(high), 16, "0"), F.lpad(F.conv(low.cast("string"), 10, 16), 16, "0")))


def two_64() -> Column:
    return F.lit(str(2**64)).cast(DecimalType(20, 0))


@dataclass(frozen=True, slots=True)
class PlainReading:
    """From what stands in JSON, read with the type that `plain` says, to values."""

    numeric: bool
    """Decimals are numbers, not in base 64. Spark would round them, so all numbers are read as `quoted` texts."""
    defaults: bool
    """A field that is null gets the default of its schema."""

    def plain(self, kind: DataType) -> DataType:
        """What stands in the JSON of such a value."""
        match kind:
            case BinaryType() | DecimalType():
                return StringType()
            case NumericType() | TimestampType() | DateType() if self.numeric:
                return StringType()
            case TimestampType() | DateType():
                return LongType()
            case StructType():
                return StructType([StructField(field.name, self.plain(field.dataType)) for field in kind])
            case ArrayType():
                return ArrayType(self.plain(kind.elementType))
            case MapType():
                return MapType(kind.keyType, self.plain(kind.valueType))
        return kind

    def document(self, text: Column) -> Column:
        """What has to be read in the place of JSON."""
        if not self.numeric:
            return text
        from moldau.connect.json_numbers import quoting

        read: Column = quoting(text)
        return read

    def value(self, column: Column, kind: DataType) -> Column:
        """Null for what the type cannot hold exactly: `lost` tells it from a null."""
        if self.numeric and isinstance(kind, TimestampType | DateType):
            column = column.try_cast("bigint")
        match kind:
            case TimestampType():
                return F.timestamp_millis(F.when(column.between(*MILLIS_OF_PYTHON), column))
            case DateType():
                return F.date_from_unix_date(F.when(column.between(*DAYS_OF_PYTHON), column).cast("int"))
            case BinaryType():
                return F.try_to_binary(column, F.lit("base64"))
            case DecimalType():
                return from_number(column, kind) if self.numeric else from_decimal_bytes(column, kind)
            case NumericType() if self.numeric:
                return column.try_cast(kind)
            case StructType():
                fields = [self._field(column[field.name], field).alias(field.name) for field in kind]
                return F.when(column.isNotNull(), F.struct(*fields))
            case ArrayType():
                return F.transform(column, lambda each: self.value(each, kind.elementType))
            case MapType():
                return F.transform_values(column, lambda _, each: self.value(each, kind.valueType))
        return column

    def _field(self, column: Column, field: StructField) -> Column:
        found = self.value(column, field.dataType)
        if not self.defaults or DEFAULT not in field.metadata:
            return found
        from moldau.connect.json_numbers import quoted

        text = f'{{"default":{field.metadata[DEFAULT]}}}'
        shape = StructType([StructField("default", self.plain(field.dataType))])
        given = F.from_json(F.lit(quoted(text) if self.numeric else text), shape)["default"]
        return F.coalesce(found, self.value(given, field.dataType))

    def lost(self, column: Column, kind: DataType) -> Column | None:
        """Whether something of the value cannot be held; None: everything always can."""
        match kind:
            case TimestampType() | DateType() | BinaryType() | DecimalType():
                return column.isNotNull() & self.value(column, kind).isNull()
            case NumericType() if self.numeric:
                return column.isNotNull() & self.value(column, kind).isNull()
            case StructType():
                parts = [self.lost(column[field.name], field.dataType) for field in kind]
                found = [F.coalesce(part, F.lit(False)) for part in parts if part is not None]
                return reduce(or_, found) if found else None
            case ArrayType():
                return self._lost_in(column, kind.elementType)
            case MapType():
                return self._lost_in(F.map_values(column), kind.valueType)
        return None

    def _lost_in(self, column: Column, kind: DataType) -> Column | None:
        if self.lost(F.lit(None), kind) is None:
            return None

        def one(each: Column) -> Column:
            found = self.lost(each, kind)
            return F.lit(False) if found is None else F.coalesce(found, F.lit(False))

        return F.exists(column, one)


def has_decimals(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(has_decimals(field.dataType) for field in kind)
        case ArrayType():
            return has_decimals(kind.elementType)
        case MapType():
            return has_decimals(kind.valueType)
    return isinstance(kind, DecimalType)


def from_decimal_bytes(column: Column, kind: DecimalType) -> Column:
    """Of up to 16 bytes; null where the type does not hold it."""
    content = F.try_to_binary(column, F.lit("base64"))
    digits = F.hex(content)
    fill = F.when(F.substring(digits, 1, 1).isin(*"89ABCDEF"), F.lit("F")).otherwise(F.lit("0"))
    padded = F.concat(F.repeat(fill, (F.lit(32) - F.length(digits)).cast("int")), digits)
    high = F.conv(F.substring(padded, 1, 16), 16, -10).cast(DecimalType(20, 0))
    low = F.conv(F.substring(padded, 17, 16), 16, 10).cast(DecimalType(20, 0))
    positive = F.try_add(F.try_multiply(high, two_64()), low)
    # Towards zero, so that nothing on the way is larger than the number.
    negative = F.try_subtract(F.try_multiply(high + 1, two_64()), two_64() - low)
    number = F.when(high < 0, negative).otherwise(positive)
    return F.when(F.length(content).between(1, 16), with_scale(number, kind))


def with_scale(number: Column, kind: DecimalType) -> Column:
    return F.concat(number.cast("string"), F.lit(f"E-{kind.scale}")).try_cast(kind)


def unscaled(column: Column) -> Column:
    return F.regexp_replace(column.cast("string"), r"\.", "").cast(DecimalType(38, 0))


def from_number(column: Column, kind: DecimalType) -> Column:
    """Null where it would have to be rounded."""
    whole, fraction = F.regexp_extract(column, NUMBER, 1), F.regexp_extract(column, NUMBER, 2)
    power = F.coalesce(F.regexp_extract(column, NUMBER, 3).try_cast("int"), F.lit(0))
    digits = F.concat(whole, fraction)
    telling = F.rtrim(digits, F.lit("0"))
    places = F.length(fraction) - (F.length(digits) - F.length(telling)) - power
    exact = (F.length(telling) == 0) | (places <= kind.scale)
    return F.when(column.rlike(NUMBER) & exact, column.try_cast(kind))
