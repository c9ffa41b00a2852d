"""Avro's schemas and Spark's types, both ways, as Spark's own Avro module maps them.

    Avro                                   Spark
    null | T, in either order              T that may be null
    int, long, float, double               the same; int | long is BIGINT, float | double is DOUBLE
    bytes, fixed                           BINARY, with logicalType decimal DECIMAL(precision, scale)
    string, enum, uuid                     STRING
    int: date                              DATE
    long: timestamp-millis, -micros        TIMESTAMP; local-timestamp-… TIMESTAMP_NTZ
    record, array, map                     STRUCT, ARRAY, MAP<STRING, …>

Other unions, recursive types and the logical type duration are refused. Times of day stay numbers.
"""

from __future__ import annotations

import json
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
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.schemas.avro_references import full_name, merged
from moldau.spark.values.ddl import SchemaError

Schema = Any
PRIMITIVES: Final[dict[str, type[DataType]]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "bytes": BinaryType,
    "string": StringType,
}
WRITTEN: Final[tuple[tuple[type[DataType], Schema], ...]] = (
    (BooleanType, "boolean"),
    (ByteType, "int"),
    (ShortType, "int"),
    (IntegerType, "int"),
    (LongType, "long"),
    (FloatType, "float"),
    (DoubleType, "double"),
    (StringType, "string"),
    (BinaryType, "bytes"),
    (DateType, {"type": "int", "logicalType": "date"}),
    (TimestampType, {"type": "long", "logicalType": "timestamp-micros"}),
    (TimestampNTZType, {"type": "long", "logicalType": "local-timestamp-micros"}),
)
TIMES: Final = {
    "timestamp-millis": TimestampType,
    "timestamp-micros": TimestampType,
    "local-timestamp-millis": TimestampNTZType,
    "local-timestamp-micros": TimestampNTZType,
}


def parse_avro(text: str) -> Schema:
    return merged(avro_as_given(text))


def avro_as_given(text: str) -> Schema:
    stripped = text.strip()
    if stripped in PRIMITIVES:
        return stripped
    try:
        return json.loads(stripped)
    except ValueError as error:
        raise SchemaError(f"this is not the JSON of an Avro schema: {error}") from None


def spark_type(schema: Schema, named: dict[str, Schema] | None = None, within: tuple[str, ...] = ()) -> DataType:
    """Every part may be null, whatever the Avro schema says: a row that does not decode is null."""
    known = {} if named is None else named
    if isinstance(schema, list):
        return union_type(schema, known, within)
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return PRIMITIVES[schema]()
        if schema in within:
            raise SchemaError(f"the Avro type {schema!r} contains itself, which Spark cannot hold")
        if schema not in known:
            raise SchemaError(f"the Avro type {schema!r} is not known")
        return spark_type(known[schema], known, within)
    if not isinstance(schema, dict) or "type" not in schema:
        raise SchemaError(f"this is no Avro schema: {json.dumps(schema)[:60]}")
    return complex_type(schema, known, within)


def complex_type(schema: dict[str, Any], known: dict[str, Schema], within: tuple[str, ...]) -> DataType:
    kind, logical = schema["type"], schema.get("logicalType")
    if kind in ("record", "enum", "fixed"):
        known[full_name(schema)] = schema
    if kind == "record":
        inside = (*within, full_name(schema))
        fields = [StructField(field["name"], spark_type(field["type"], known, inside)) for field in schema["fields"]]
        return StructType(fields)
    if kind == "array":
        return ArrayType(spark_type(schema["items"], known, within))
    if kind == "map":
        return MapType(StringType(), spark_type(schema["values"], known, within))
    if kind == "enum":
        return StringType()
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical == "duration":
        raise SchemaError("the Avro type duration has no counterpart here")
    if kind == "fixed":
        return BinaryType()
    if logical == "date" and kind == "int":
        return DateType()
    if logical in TIMES and kind == "long":
        return TIMES[logical]()
    return spark_type(kind, known, within)


def union_type(branches: list[Schema], known: dict[str, Schema], within: tuple[str, ...]) -> DataType:
    others = [branch for branch in branches if branch != "null"]
    if len(others) == 1:
        return spark_type(others[0], known, within)
    if sorted(map(str, others)) == ["int", "long"]:
        return LongType()
    if sorted(map(str, others)) == ["double", "float"]:
        return DoubleType()
    raise SchemaError(f"the Avro union {json.dumps(branches)[:60]} has no counterpart here")


def without_conversions(schema: Schema) -> Schema:
    """The same bytes with fewer Python objects: dates and times stay numbers, which Arrow takes; decimals stay."""
    if isinstance(schema, list):
        return [without_conversions(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        name: without_conversions(part) if name in ("type", "items", "values") else part
        for name, part in schema.items()
        if name != "logicalType" or part == "decimal"
    }
    if "fields" in plain:
        plain["fields"] = [{**field, "type": without_conversions(field["type"])} for field in plain["fields"]]
    return plain


def avro_schema(kind: DataType, name: str, may_be_null: bool = True) -> Schema:
    """For writing: every part may be null, as in Spark."""
    found = avro_part(kind, name)
    return ["null", found] if may_be_null else found


def avro_part(kind: DataType, name: str) -> Schema:
    if isinstance(kind, StructType):
        fields = [
            {"name": field.name, "type": avro_schema(field.dataType, f"{name}_{field.name}"), "default": None}
            for field in kind
        ]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": avro_schema(kind.elementType, f"{name}_item")}
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise SchemaError("an Avro map has text for keys")
        return {"type": "map", "values": avro_schema(kind.valueType, f"{name}_item")}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    for spark, avro in WRITTEN:
        if isinstance(kind, spark):
            return avro
    raise SchemaError(f"{kind.simpleString()} cannot be written as Avro")
