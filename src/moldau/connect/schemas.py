"""Connect's schemas, as its JSON converter writes them, and Spark's types. Pure.

| Connect | Spark |
|---|---|
| int8, int16, int32, int64, float, double, boolean, string, bytes | tinyint … binary |
| org.apache.kafka.connect.data.Timestamp, Date, Decimal | timestamp, date, decimal |
| …data.Time | bigint, milliseconds of the day |
| struct, array, map | the same |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

LOGICAL: Final = "org.apache.kafka.connect.data."
PRIMITIVES: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
}
NAMES: Final = {type(kind): name for name, kind in PRIMITIVES.items()}
DECIMAL_DIGITS: Final = 38
DEFAULT: Final = "connect.default"
"""In a field's metadata: what stands for a null, as the schema's JSON has it."""


class SchemaRefused(ValueError):
    """A schema or a type that has no counterpart."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a key or value is, of its own."""

    kind: DataType = NullType()  # noqa: RUF009 (a constant)
    """NullType: there is none."""
    free: bool = False
    """It has no schema: a field that is not there is null."""


def connect_schema(
    kind: DataType, *, optional: bool, name: str | None = None, field: str | None = None
) -> dict[str, Any]:
    found = shape_of(kind)
    found["optional"] = optional
    if name is not None:
        found["name"] = name
    if "name" in found and "version" not in found and str(found["name"]).startswith(LOGICAL):
        found["version"] = 1
        if isinstance(kind, DecimalType):
            found["parameters"] = {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)}
    if field is not None:
        found["field"] = field
    return found


def shape_of(kind: DataType) -> dict[str, Any]:
    match kind:
        case StructType():
            fields = [connect_schema(each.dataType, optional=each.nullable, field=each.name) for each in kind]
            return {"type": "struct", "fields": fields}
        case ArrayType():
            return {"type": "array", "items": connect_schema(kind.elementType, optional=kind.containsNull)}
        case MapType():
            keys = connect_schema(kind.keyType, optional=False)
            return {
                "type": "map",
                "keys": keys,
                "values": connect_schema(kind.valueType, optional=kind.valueContainsNull),
            }
        case TimestampType() | TimestampNTZType():
            return {"type": "int64", "name": f"{LOGICAL}Timestamp"}
        case DateType():
            return {"type": "int32", "name": f"{LOGICAL}Date"}
        case DecimalType():
            return {"type": "bytes", "name": f"{LOGICAL}Decimal"}
        case NullType():
            return {"type": "string"}
    if type(kind) not in NAMES:
        raise SchemaRefused(f"Connect has no type for {kind.simpleString()}")
    return {"type": NAMES[type(kind)]}


def spark_type(schema: Any) -> DataType:
    """The type that a schema of the JSON converter stands for."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("type"), str):
        raise SchemaRefused(f"{schema!r} is no schema of Connect")
    name, kind = schema.get("name"), schema["type"]
    if name == f"{LOGICAL}Timestamp":
        return TimestampType()
    if name == f"{LOGICAL}Date":
        return DateType()
    if name == f"{LOGICAL}Decimal":
        return decimal_type(schema.get("parameters") or {})
    match kind:
        case "struct":
            return StructType([field_of(each) for each in schema.get("fields") or []])
        case "array":
            return ArrayType(spark_type(schema.get("items")), bool(schema["items"].get("optional")))
        case "map":
            values = schema.get("values")
            return MapType(spark_type(schema.get("keys")), spark_type(values), True)
    if kind not in PRIMITIVES:
        raise SchemaRefused(f"Unknown schema type: {kind}")
    return PRIMITIVES[kind]


def decimal_type(parameters: Mapping[str, Any]) -> DecimalType:
    scale = int(parameters.get("scale", 0))
    digits = min(int(parameters.get("connect.decimal.precision", DECIMAL_DIGITS)), DECIMAL_DIGITS)
    if not 0 <= scale <= digits:
        raise SchemaRefused(f"decimals of {digits} digits with a scale of {scale} are not known here")
    return DecimalType(digits, scale)


def field_of(schema: Mapping[str, Any]) -> StructField:
    default = schema.get("default")
    metadata = {} if default is None else {DEFAULT: json.dumps(default)}
    return StructField(schema["field"], spark_type(schema), bool(schema.get("optional", False)), metadata)


WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
FRACTIONS: Final = (FloatType, DoubleType)
KEEPING: Final = (WHOLE, FRACTIONS)
"""Numbers that stay the same in the wider of two types."""
ROUNDING: Final = ((*WHOLE, *FRACTIONS),)


def merged(one: DataType, other: DataType, families: Sequence[Sequence[type[DataType]]] = ROUNDING) -> DataType:
    """The type that holds the values of both: fields of either, nullable; raises SchemaRefused where two types
    differ. `families`: numbers from narrow to wide that may share a place."""
    if one == other or isinstance(other, NullType):
        return one
    if isinstance(one, NullType):
        return other
    if isinstance(one, StructType) and isinstance(other, StructType):
        return merged_struct(one, other, families)
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(merged(one.elementType, other.elementType, families), True)
    if isinstance(one, MapType) and isinstance(other, MapType):
        keys = merged(one.keyType, other.keyType, families)
        return MapType(keys, merged(one.valueType, other.valueType, families), True)
    for family in families:
        if type(one) in family and type(other) in family:
            return max(one, other, key=lambda kind: family.index(type(kind)))
    raise SchemaRefused(f"records of one topic have {one.simpleString()} and {other.simpleString()} in the same place")


def merged_struct(one: StructType, other: StructType, families: Sequence[Sequence[type[DataType]]]) -> StructType:
    fields = []
    others = {field.name: field for field in other}
    for field in one:
        twin = others.pop(field.name, None)
        if twin is None:
            fields.append(StructField(field.name, field.dataType, True, field.metadata))
            continue
        if field.metadata != twin.metadata:
            raise SchemaRefused(f"records of one topic have two defaults for {field.name}")
        kind = merged(field.dataType, twin.dataType, families)
        fields.append(StructField(field.name, kind, field.nullable or twin.nullable, field.metadata))
    left = (StructField(field.name, field.dataType, True, field.metadata) for field in others.values())
    return StructType([*fields, *left])


def without_nulls(kind: DataType) -> DataType:
    """The same with texts where nothing but null is known."""
    match kind:
        case NullType():
            return StringType()
        case StructType():
            fields = [
                StructField(each.name, without_nulls(each.dataType), each.nullable, each.metadata) for each in kind
            ]
            return StructType(fields)
        case ArrayType():
            return ArrayType(without_nulls(kind.elementType), kind.containsNull)
        case MapType():
            return MapType(without_nulls(kind.keyType), without_nulls(kind.valueType), kind.valueContainsNull)
    return kind
