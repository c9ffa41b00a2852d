"""The reverse: typed keys and values of batches that are written become bytes.

    string  text as UTF-8; numbers, booleans, dates and times as Spark writes them as text
    json    one object per row; null fields are left out; times as ISO 8601 in UTC, BINARY as base64, DECIMAL as a
            number, NaN and infinities as text
    avro    one value per row with the schema that was given, or one made from the column's type; with a registry behind
            the zero byte and the schema's id
    protobuf, jsonschema   likewise; a JSON Schema that was given is held against every row

A null stays null: it is what deletes a key from a compacted topic.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from json.encoder import encode_basestring
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
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

from moldau.schemas.avro_references import merged
from moldau.spark.errors import SourceError
from moldau.spark.values.avro_types import avro_as_given, avro_schema, spark_type
from moldau.spark.values.options import AVRO, JSON_SCHEMA, PROTOBUF
from moldau.spark.values.plan import Side, ValuePlan
from moldau.spark.values.raw_types import arrow_type
from moldau.spark.values.registry import MAGIC, PREFIX

Written = Callable[[Any], bytes]
Text = Callable[[Any], str]
MadeSchema = tuple[str, str]
"""The side that it is of, and its text."""


log = logging.getLogger(__name__)


class EncodingFailed(SourceError):
    """A row cannot be written in the format that was asked for."""


def encode_batch(batch: pa.RecordBatch, plan: ValuePlan) -> pa.RecordBatch:
    """The same batch with bytes for the key and the value where the plan types them; column names are in any case."""
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    for side in plan.sides:
        place = places.get(side.name)
        if place is not None:
            column = encoded(batch.column(place), side, plan)
            batch = batch.set_column(place, pa.field(side.name, pa.binary()), column)
    return batch


def tell_schemas(made: Sequence[MadeSchema]) -> None:
    """Whoever reads the values needs the schemas that nobody has given."""
    for side, schema in made:
        log.warning("%s.schema is not given; each %s is written with this one: %s", side, side, schema)


def made_schemas(columns: StructType, plan: ValuePlan) -> tuple[MadeSchema, ...]:
    """Those that are made from columns and that no registry keeps."""
    sides = {side.name: side for side in plan.sides if side.format in MADE and side.schema is None}
    if plan.registry is not None:
        return ()
    return tuple(
        made_schema(column.dataType, side) for column in columns if (side := sides.get(column.name.lower())) is not None
    )


def made_schema(kind: DataType, side: Side) -> MadeSchema:
    """Of the type that the column's batches will have."""
    try:
        return side.name, MADE[side.format](from_arrow_type(arrow_type(kind)), side.name)
    except SourceError:
        raise
    except Exception as error:
        raise cannot_be_written(side, error) from error


def cannot_be_written(side: Side, error: Exception) -> EncodingFailed:
    problem = " ".join(str(error).split())
    return EncodingFailed(f"a {side.name} cannot be written as {side.format}: {problem}")


def made_avro(kind: DataType, name: str) -> str:
    return json.dumps(avro_schema(kind, name, may_be_null=False))


def made_protobuf(kind: DataType, name: str) -> str:
    """Its descriptor in base64, which is what `value.schema` takes."""
    return base64.b64encode(made_file(kind, name).SerializeToString(deterministic=True)).decode()


def made_file(kind: DataType, name: str) -> Any:
    from moldau.spark.values.protobuf_types import file_for

    if not isinstance(kind, StructType):
        raise EncodingFailed(f"{name}.format=protobuf writes structs, not {kind.simpleString()}")
    return file_for(kind, name)


MADE: Final[dict[str, Callable[[DataType, str], str]]] = {AVRO: made_avro, PROTOBUF: made_protobuf}


def encoded(column: pa.Array, side: Side, plan: ValuePlan) -> pa.Array:
    if side.format == "string":
        if isinstance(column.type, pa.StructType | pa.ListType | pa.MapType):
            raise EncodingFailed(f"{side.name}.format=string cannot write {column.type}; json can")
        return column.cast(pa.string()).cast(pa.binary())
    kind = from_arrow_type(column.type)
    try:
        if side.format == "json":
            return pa.array(json_texts(column, kind), pa.string()).cast(pa.binary())
        if side.format == JSON_SCHEMA:
            return registered_json(json_texts(column, kind), kind, side, plan)
        write = protobuf_writer(kind, side, plan) if side.format == PROTOBUF else avro_writer(kind, side, plan)
        return pa.array([None if row is None else write(row) for row in python_rows(column, kind)], pa.binary())
    except SourceError:
        raise
    except Exception as error:  # what does not fit makes fastavro fail in many ways
        raise cannot_be_written(side, error) from error


# Both work column by column: Arrow's own conversion of a struct to Python takes ten times as long.


def python_rows(column: pa.Array, kind: DataType) -> list[Any]:
    """The rows as dicts, lists and plain values."""
    if isinstance(kind, StructType):
        names = kind.fieldNames()
        parts = [python_rows(child, field.dataType) for child, field in zip(column.flatten(), kind, strict=True)]
        return present(column, [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)])
    if isinstance(kind, ArrayType):
        return present(column, cut(column, python_rows(column.values, kind.elementType)))
    if isinstance(kind, MapType):
        pairs = list(zip(column.keys.to_pylist(), python_rows(column.items, kind.valueType), strict=True))
        return present(column, [dict(part) for part in cut(column, pairs)])
    plain: list[Any] = column.to_pylist()
    return plain


def present(column: pa.Array, rows: list[Any]) -> list[Any]:
    if not column.null_count:
        return rows
    return [row if there else None for row, there in zip(rows, column.is_valid().to_pylist(), strict=True)]


def cut(column: pa.Array, items: list[Any]) -> list[list[Any]]:
    """The items of a list or map column, row by row."""
    return [items[start:end] for start, end in pairwise(column.offsets.to_pylist())]


# -- JSON ----------------------------------------------------------------------------------------------------------


def json_texts(column: pa.Array, kind: DataType) -> list[str | None]:
    if isinstance(kind, StructType):
        labels = [f"{quoted(name)}:" for name in kind.fieldNames()]
        parts = [json_texts(child, field.dataType) for child, field in zip(column.flatten(), kind, strict=True)]
        return present(column, [object_text(labels, row) for row in zip(*parts, strict=True)])
    if isinstance(kind, ArrayType):
        items = ["null" if text is None else text for text in json_texts(column.values, kind.elementType)]
        return present(column, [f"[{','.join(part)}]" for part in cut(column, items)])
    if isinstance(kind, MapType):
        names, values = column.keys.cast(pa.string()).to_pylist(), json_texts(column.items, kind.valueType)
        pairs = [f"{quoted(name)}:{text or 'null'}" for name, text in zip(names, values, strict=True)]
        return present(column, [f"{{{','.join(part)}}}" for part in cut(column, pairs)])
    write = plain_text(kind)
    return [None if value is None else write(value) for value in column.to_pylist()]


def object_text(labels: list[str], row: tuple[str | None, ...]) -> str:
    return f"{{{','.join([label + text for label, text in zip(labels, row, strict=True) if text is not None])}}}"


def plain_text(kind: DataType) -> Text:
    for kinds, text in PLAIN_TEXTS:
        if isinstance(kind, kinds):
            return text
    raise EncodingFailed(f"{kind.simpleString()} cannot be written as json")


quoted = encode_basestring


def number_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def time_text(value: datetime) -> str:
    return f'"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"'


PLAIN_TEXTS: Final[tuple[tuple[tuple[type[DataType], ...], Text], ...]] = (
    ((BooleanType,), lambda value: "true" if value else "false"),
    ((IntegralType,), str),
    ((FloatType, DoubleType), number_text),
    ((DecimalType,), lambda value: format(value, "f")),
    ((StringType,), quoted),
    ((BinaryType,), lambda value: f'"{base64.b64encode(value).decode()}"'),
    ((TimestampType,), time_text),
    ((TimestampNTZType, DateType), lambda value: f'"{value.isoformat()}"'),
)


# -- with a schema -----------------------------------------------------------------------------------------------------


def prefix_of(side: Side, plan: ValuePlan, schema: str, kind: str) -> bytes:
    """What stands before each value: nothing without a registry."""
    if plan.registry is None:
        return b""
    if side.subject is None:
        raise EncodingFailed(f"{side.name}.subject is missing: without the option topic it is not clear")
    return PREFIX.pack(MAGIC, plan.registry.id_of(side.subject, schema, kind, register=plan.register))


def registered_json(texts: list[str | None], kind: DataType, side: Side, plan: ValuePlan) -> pa.Array:
    from moldau.spark.values.json_registered import checking
    from moldau.spark.values.json_schema_types import schema_for

    prefix = prefix_of(side, plan, side.schema or schema_for(kind, side.name), "JSON")
    if side.schema is not None:
        check = checking(side.schema)
        for text in texts:
            if text is not None:
                check(text)
    return pa.array([None if text is None else prefix + text.encode() for text in texts], pa.binary())


def protobuf_writer(kind: DataType, side: Side, plan: ValuePlan) -> Written:
    from moldau.schemas.descriptors import files_of, indexes_of, message_of
    from moldau.schemas.framing import written_indexes
    from moldau.spark.values.protobuf_values import message_writer, unpacked

    if side.schema is None:
        files, name = files_of(made_protobuf(kind, side.name), {}), side.name
    else:
        assert side.message is not None
        files, name = unpacked(side.schema), side.message
    descriptor = message_of(files, name)
    text = base64.b64encode(files[-1].SerializeToString(deterministic=True)).decode()
    prefix = prefix_of(side, plan, text, "PROTOBUF")
    if prefix:
        prefix += written_indexes(indexes_of(descriptor))
    write = message_writer(descriptor)
    return lambda row: prefix + write(row)


# -- Avro ----------------------------------------------------------------------------------------------------------


def avro_writer(kind: DataType, side: Side, plan: ValuePlan) -> Written:
    import fastavro
    from fastavro.validation import validate

    given = avro_schema(kind, side.name, may_be_null=False) if side.schema is None else avro_as_given(side.schema)
    schema = merged(given)
    parsed = fastavro.parse_schema(schema)
    prefix = prefix_of(side, plan, json.dumps(given), "AVRO")

    # fastavro writes what does not fit, such as a long as an int, without a word: it has to be asked before.
    is_other = side.schema is not None and spark_type(schema).simpleString() != kind.simpleString()

    def write(value: Any) -> bytes:
        if is_other:
            validate(value, parsed, raise_errors=True)
        stream = io.BytesIO()
        stream.write(prefix)
        fastavro.schemaless_writer(stream, parsed, value, strict=True)
        return stream.getvalue()

    return write
