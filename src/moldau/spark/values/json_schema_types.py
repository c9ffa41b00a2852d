"""JSON Schemas and Spark's types, both ways.

    JSON Schema                                       Spark
    integer, number, boolean, string                  BIGINT, DOUBLE, BOOLEAN, STRING
    string with format date-time, date                TIMESTAMP, DATE
    string with contentEncoding base64                BINARY
    object with properties                            STRUCT
    object with a schema of additionalProperties      MAP<STRING, …>
    array with one schema of items                    ARRAY
    T and null, as types, oneOf or anyOf              T
    everything else                                   STRING: the JSON text

References are followed, also to other schemas of the registry; where one leads back to itself stands JSON text.
For writing without a schema one is made of the column's type. It is closed (`additionalProperties` false), so that a
later one may have more fields and is compatible.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

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
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.spark.values.ddl import SchemaError

DIALECT: Final = "http://json-schema.org/draft-07/schema#"
PLAIN: Final[dict[str, DataType]] = {
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
TEXTS: Final[dict[str, DataType]] = {"date-time": TimestampType(), "date": DateType()}
WRITTEN: Final[tuple[tuple[tuple[type[DataType], ...], dict[str, Any]], ...]] = (
    ((BooleanType,), {"type": "boolean"}),
    ((IntegralType,), {"type": "integer"}),
    ((FloatType, DoubleType, DecimalType), {"type": "number"}),
    ((StringType,), {"type": "string"}),
    ((BinaryType,), {"type": "string", "contentEncoding": "base64"}),
    ((TimestampType,), {"type": "string", "format": "date-time"}),
    ((DateType,), {"type": "string", "format": "date"}),
    ((TimestampNTZType,), {"type": "string"}),
)


def spark_type(text: str, referred: Mapping[str, str]) -> DataType:
    """Every part may be null: a record may lack any field."""
    return Reading(read_json(text), {name: read_json(each) for name, each in referred.items()}).type_of()


def read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"this is no JSON Schema: {error}") from None


class Reading:
    def __init__(self, root: Any, referred: Mapping[str, Any]) -> None:
        self._root = root
        self._referred = referred

    def type_of(self) -> DataType:
        return self._type(self._root, self._root, ())

    def _type(self, schema: Any, document: Any, around: tuple[str, ...]) -> DataType:
        """`document` is where a `#/…` of the schema leads; `around` the references that led here."""
        if not isinstance(schema, dict):
            return StringType()
        reference = schema.get("$ref")
        if isinstance(reference, str):
            base = next((name for name, each in self._referred.items() if each is document), "")
            place = f"{base}{reference}" if reference.startswith("#") else reference
            if place in around or len(around) > 100:
                return StringType()
            target, where = self._target(reference, document)
            return self._type(target, where, (*around, place))
        return self._by_kind(without_null(schema), document, around)

    def _target(self, reference: str, document: Any) -> tuple[Any, Any]:
        name, _, pointer = reference.partition("#")
        where = self._referred.get(name, None) if name else document
        if where is None and name and isinstance(self._root, dict) and self._root.get("$id") == name:
            where = self._root
        found = where
        for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, dict) else None
        return found, where

    def _by_kind(self, schema: dict[str, Any], document: Any, around: tuple[str, ...]) -> DataType:
        kind = schema.get("type")
        if "$ref" in schema:
            return self._type(schema, document, around)
        if any(key in schema for key in ("oneOf", "anyOf", "allOf")) and not schema.get("properties"):
            return StringType()
        if kind == "object" or (kind is None and isinstance(schema.get("properties"), dict)):
            return self._object(schema, document, around)
        if kind == "array" and isinstance(schema.get("items"), dict):
            return ArrayType(self._type(schema["items"], document, around))
        if kind == "string":
            encoded = schema.get("contentEncoding") == "base64"
            return BinaryType() if encoded else TEXTS.get(str(schema.get("format")), StringType())
        return PLAIN.get(kind, StringType()) if isinstance(kind, str) else StringType()

    def _object(self, schema: dict[str, Any], document: Any, around: tuple[str, ...]) -> DataType:
        properties, more = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, dict) and properties:
            fields = [StructField(name, self._type(each, document, around)) for name, each in properties.items()]
            return StructType(fields)
        return MapType(StringType(), self._type(more, document, around)) if isinstance(more, dict) else StringType()


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of what is there, where null is one of two choices."""
    kind = schema.get("type")
    if isinstance(kind, list) and len(others := [each for each in kind if each != "null"]) == 1:
        return {**schema, "type": others[0]}
    for key in ("oneOf", "anyOf"):
        choices = schema.get(key)
        if isinstance(choices, list):
            rest = [each for each in choices if each != {"type": "null"}]
            if len(rest) == 1 and isinstance(rest[0], dict):
                return without_null(rest[0])
    return schema


# -- for writing -------------------------------------------------------------------------------------------------------


def schema_for(kind: DataType, name: str) -> str:
    return json.dumps({"$schema": DIALECT, "title": name, **written(kind)})


def written(kind: DataType) -> dict[str, Any]:
    if isinstance(kind, StructType):
        properties = {field.name: written(field.dataType) for field in kind}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": or_null(written(kind.elementType))}
    if isinstance(kind, MapType):
        return {"type": "object", "additionalProperties": or_null(written(kind.valueType))}
    for kinds, found in WRITTEN:
        if isinstance(kind, kinds):
            return found
    raise SchemaError(f"{kind.simpleString()} cannot be written as JSON")


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}
