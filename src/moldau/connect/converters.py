"""Converters: between typed columns and the bytes of keys and values, as expressions that Spark runs.

A source's converter encodes a column; a sink's decodes one. Where records say themselves what they are (JSON, schemas
of a registry), `shape` tells it of each, and those that go together are decoded together. What does not decode is left
null, with the reason in the column `_error`, which the sink makes a dead letter of, or its failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructType,
)

from moldau.connect.definitions import ConfigDef
from moldau.connect.schemas import SchemaRefused, Shape

ERROR: Final = "_error"
ERROR_TYPE: Final = "struct<stage: string, class: string, message: string, where: string>"
"""`where`: the class that refused the record, if it is not the converter of that stage."""
DATA_EXCEPTION: Final = "org.apache.kafka.connect.errors.DataException"
STAGES: Final = {"key": "KEY_CONVERTER", "value": "VALUE_CONVERTER"}


@dataclass(frozen=True, slots=True)
class Side:
    """The keys or the values of the records in a frame."""

    column: str
    kind: DataType
    name: str | None = None
    """Of the schema."""
    optional: bool = False
    topic: str | None = None
    """Where they go; the column `topic` says it otherwise."""


class Converter:
    CONFIG = ConfigDef()

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def encode(self, side: Side) -> Column:
        """Bytes; null stays null. Raises SchemaRefused for a type that it does not know."""
        raise NotImplementedError

    def checked(self, side: Side) -> Column:
        """`bytes`, or the `problem` with a value that does not fit."""
        return F.struct(self.encode(side).alias("bytes"), F.lit(None).cast("string").alias("problem"))

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        """The frame with a typed column in the place of bytes. May look at the records, which are cached."""
        raise NotImplementedError


class ShapedConverter(Converter):
    """Of records that may each have a type of its own."""

    problem: ClassVar[str]
    """Of content that has no shape."""

    def shape(self, column: str) -> Column:
        """A text that says it. Null where there is no content, or none that can be told."""
        raise NotImplementedError

    def shape_of(self, text: str, column: str) -> Shape:
        """Raises SchemaRefused where it cannot be read."""
        raise NotImplementedError

    def decode_as(self, frame: DataFrame, column: str, shape: Shape, texts: Sequence[str]) -> DataFrame:
        """Records of these shapes, whose types all have room in the one of `shape`; and records without any."""
        raise NotImplementedError


def failed(column: str, problem: Column, message: str | Column) -> Column:
    """The column `_error` after this step: the first problem stays."""
    told = message if isinstance(message, Column) else F.lit(message)
    return F.coalesce(F.col(ERROR), F.when(problem, reason(STAGES[column], DATA_EXCEPTION, told)))


def reason(stage: str, kind: str, message: Column, where: str | None = None) -> Column:
    return F.struct(
        F.lit(stage).alias("stage"), F.lit(kind).alias("class"), message.alias("message"),
        F.lit(where).cast("string").alias("where"),
    )  # fmt: skip


class ByteArrayConverter(Converter):
    def encode(self, side: Side) -> Column:
        if not isinstance(side.kind, BinaryType):
            raise SchemaRefused(f"Invalid schema type for ByteArrayConverter: {side.kind.simpleString()}")
        return F.col(side.column)

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        return frame


class StringConverter(Converter):
    def encode(self, side: Side) -> Column:
        return java_text(F.col(side.column), side.kind).cast("binary")

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        return frame.withColumn(column, F.col(column).cast("string"))


def java_text(column: Column, kind: DataType) -> Column:
    """As Java prints it: `Struct{id=1,title=book}`."""
    if isinstance(kind, StructType):
        parts = [
            F.when(
                column[field.name].isNotNull(),
                F.concat(F.lit(f"{field.name}="), java_text(column[field.name], field.dataType)),
            )
            for field in kind
        ]
        return F.when(column.isNotNull(), F.concat(F.lit("Struct{"), F.concat_ws(",", *parts), F.lit("}")))
    return column.cast("string")


class NumberConverter(Converter):
    """Big-endian, as Java's serializers."""

    kind: DataType
    bits = 0
    name = ""

    def encode(self, side: Side) -> Column:
        if type(side.kind) is not type(self.kind):
            raise SchemaRefused(f"Invalid schema type for {self.name}: {side.kind.simpleString()}")
        column = F.col(side.column)
        if self.bits == 8:
            return F.when(column.isNotNull(), F.when(column, F.unhex(F.lit("01"))).otherwise(F.unhex(F.lit("00"))))
        digits = F.lpad(
            F.hex(
                F.when(column < 0, column + 2**self.bits if self.bits < 64 else column).otherwise(column).cast("bigint")
            ),
            self.bits // 4,
            "0",
        )
        return F.unhex(digits)

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        raw = F.col(column)
        wrong = raw.isNotNull() & (F.length(raw) != self.bits // 8)
        if self.bits == 8:
            number = F.hex(raw) == "01"
        else:
            whole = F.conv(F.hex(raw), 16, 10).cast("decimal(20,0)")
            half = (
                F.lit(2).cast("decimal(20,0)") * 2 ** (self.bits - 2)
                if self.bits < 64
                else F.lit("9223372036854775808").cast("decimal(20,0)")
            )
            full = half * 2
            number = F.when(whole >= half, whole - full).otherwise(whole).cast(self.kind)
        message = f"Size of data received by {self.name} is not {self.bits // 8}"
        frame = frame.withColumn(ERROR, failed(column, wrong, message))
        return frame.withColumn(column, F.when(~wrong, number))


def number_converter(of: DataType, width: int, called: str) -> type[Converter]:
    return type(called, (NumberConverter,), {"kind": of, "bits": width, "name": called})


BooleanConverter = number_converter(BooleanType(), 8, "BooleanConverter")
ShortConverter = number_converter(ShortType(), 16, "ShortConverter")
IntegerConverter = number_converter(IntegerType(), 32, "IntegerConverter")
LongConverter = number_converter(LongType(), 64, "LongConverter")


class FractionConverter(Converter):
    """IEEE 754, big-endian, as Java's serializers; the JVM gives the bits."""

    kind: DataType
    bits = 0
    name = ""
    to_bits = from_bits = ("", "")

    def encode(self, side: Side) -> Column:
        if type(side.kind) is not type(self.kind):
            raise SchemaRefused(f"Invalid schema type for {self.name}: {side.kind.simpleString()}")
        column = F.col(side.column)
        number = F.java_method(*map(F.lit, self.to_bits), column).cast("bigint")
        digits = F.substring(F.lpad(F.hex(number), 16, "0"), 17 - self.bits // 4, self.bits // 4)
        return F.when(column.isNotNull(), F.unhex(digits))

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        raw = F.col(column)
        wrong = raw.isNotNull() & (F.length(raw) != self.bits // 8)
        whole = F.conv(F.hex(F.when(~wrong, raw)), 16, 10).cast("decimal(20,0)")
        half = F.lit(str(2 ** (self.bits - 1))).cast("decimal(20,0)")
        signed = F.when(whole >= half, whole - half - half).otherwise(whole)
        number = F.java_method(*map(F.lit, self.from_bits), signed.cast("int" if self.bits == 32 else "bigint"))
        frame = frame.withColumn(
            ERROR, failed(column, wrong, f"Size of data received by {self.name} is not {self.bits // 8}")
        )
        return frame.withColumn(column, F.when(raw.isNotNull() & ~wrong, number.cast(self.kind)))


class FloatConverter(FractionConverter):
    kind, bits, name = FloatType(), 32, "FloatConverter"
    to_bits, from_bits = ("java.lang.Float", "floatToRawIntBits"), ("java.lang.Float", "intBitsToFloat")


class DoubleConverter(FractionConverter):
    kind, bits, name = DoubleType(), 64, "DoubleConverter"
    to_bits, from_bits = ("java.lang.Double", "doubleToRawLongBits"), ("java.lang.Double", "longBitsToDouble")
