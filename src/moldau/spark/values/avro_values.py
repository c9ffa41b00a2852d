"""Rows of Avro to an Arrow array of Spark's types, and the reason for each row that is none.

bare         one value, written with the schema that was given
registered   0x00, int32 id of the writer's schema in the registry, one value; read as the schema that was given
by GUID      0x01, 16 bytes of GUID, one value; likewise. From a header these are put before the value

A record with an id that gives no schema is a bad record. A registry that cannot be asked says nothing about the
record, so that ends the read.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import fastavro
import pyarrow as pa
from pyspark.sql.types import DataType

from moldau.schemas.avro_references import full_name
from moldau.schemas.framing import BY_GUID, GUID_SIZE, read_frame
from moldau.spark.values.avro_types import Schema, parse_avro, without_conversions
from moldau.spark.values.json_values import Errors
from moldau.spark.values.raw_types import arrow_type
from moldau.spark.values.registry import MAGIC, PREFIX, Known, Registry, RegistryError, SchemaRefused

CAUSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (IndexError, "it names a branch of a union, or a symbol of an enum, that the schema does not have"),
    (EOFError, "it ends before all fields of the schema are read"),
    (UnicodeDecodeError, "what should be text is no UTF-8"),
)


class AvroDecoder:
    def __init__(
        self, schema: str, kind: DataType, registry: Registry | None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._kind = kind
        self._text = schema
        parsed = parse_avro(schema)
        self._reader = fastavro.parse_schema(without_conversions(parsed))
        self._stored = stored_type(parsed, {})
        self._registry = registry
        self._writers: Known[int | UUID, Schema] = Known(self._asked, monotonic)

    def decode(self, column: pa.Array) -> tuple[pa.Array, Errors]:
        rows: list[Any] = []
        errors: Errors = {}
        for row, data in enumerate(column.to_pylist()):
            try:
                rows.append(None if data is None else self._read(data))
            except SchemaRefused as error:
                errors[row] = str(error)
                rows.append(None)
            except RegistryError:
                raise
            except Exception as error:  # damaged bytes make fastavro fail in many ways
                errors[row] = self._cause(error, data)
                rows.append(None)
        try:
            return self._built(rows), errors
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            return self._built_singly(rows, errors), errors

    def _read(self, data: bytes) -> Any:
        writer, start = self._reader, 0
        if self._registry is not None:
            schema, start = named_schema(data)
            writer = self._writers.get(schema)
        stream = io.BytesIO(data)
        stream.seek(start)
        value = fastavro.schemaless_reader(stream, writer, None if writer is self._reader else self._reader)
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes follow the value")
        return value

    def _cause(self, error: Exception, data: bytes) -> str:
        """fastavro says what went wrong in its own code; here stands what is wrong with the value."""
        known = next((words for kind, words in CAUSES if isinstance(error, kind)), None)
        said = known or (str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}")
        if self._registry is None and len(data) > PREFIX.size and data[0] == MAGIC:
            return f"{said}; it begins like a value with the id of a registered schema: is schema.registry.url missing?"
        if known is None:
            return said
        return f"{said}; the schema it is read with has to be the one it was written with, down to what may be null"

    def _asked(self, schema: int | UUID) -> Schema:
        assert self._registry is not None
        text = self._registry.schema_of(schema)
        if text == self._text:
            return self._reader
        try:
            return fastavro.parse_schema(without_conversions(parse_avro(text)))
        except Exception as error:  # what is no Avro makes fastavro fail in many ways
            raise SchemaRefused(f"schema {schema} cannot be read: {error}") from error

    def _built(self, rows: list[Any]) -> pa.Array:
        return pa.array(rows, self._stored).cast(arrow_type(self._kind))

    def _built_singly(self, rows: list[Any], errors: Errors) -> pa.Array:
        parts = []
        for row, value in enumerate(rows):
            try:
                parts.append(self._built([value]))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                errors[row] = str(error)
                parts.append(self._built([None]))
        return pa.concat_arrays(parts) if parts else pa.array([], arrow_type(self._kind))


def named_schema(data: bytes) -> tuple[int | UUID, int]:
    """The id or the GUID of the schema that a value names, and where what follows begins."""
    if data[:1] == bytes([BY_GUID]) and len(data) >= GUID_SIZE:
        return read_frame(data)
    if len(data) < PREFIX.size:
        raise ValueError(f"{len(data)} bytes are too few for a schema id")
    magic, schema_id = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(f"it begins with {magic}, not with the zero byte of a registered schema")
    if schema_id < 0:
        raise ValueError(f"{schema_id} is no id of a schema")
    return schema_id, PREFIX.size


TIMES: Final = {
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}
PRIMITIVES: Final = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "bytes": pa.binary(), "string": pa.string(), "null": pa.null(),
}  # fmt: skip


def stored_type(schema: Schema, named: dict[str, pa.DataType]) -> pa.DataType:
    """The Arrow type of what fastavro gives: as Spark's, but for the unit of times."""
    if isinstance(schema, list):
        kinds = [stored_type(branch, named) for branch in schema if branch != "null"]
        return max(kinds, key=lambda kind: getattr(kind, "bit_width", 0)) if len(kinds) > 1 else kinds[0]
    if isinstance(schema, str):
        return PRIMITIVES[schema] if schema in PRIMITIVES else named[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    found: pa.DataType
    if kind == "record":
        found = pa.struct([pa.field(field["name"], stored_type(field["type"], named)) for field in schema["fields"]])
    elif kind == "array":
        return pa.list_(pa.field("element", stored_type(schema["items"], named)))
    elif kind == "map":
        return pa.map_(pa.string(), stored_type(schema["values"], named))
    elif logical == "decimal":
        found = pa.decimal128(schema["precision"], schema.get("scale", 0))
    elif kind == "enum":
        found = pa.string()
    elif kind == "fixed":
        found = pa.binary()
    elif logical == "date":
        return pa.date32()
    elif logical in TIMES:
        return TIMES[logical]
    else:
        return stored_type(kind, named)
    if "name" in schema:
        named[full_name(schema)] = found
    return found
