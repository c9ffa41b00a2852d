"""The reverse: typed keys and values of batches that are written become bytes.

    string  text as UTF-8; numbers, booleans, dates and times as Spark writes them as text
    json    one object per row; null fields are left out; times as ISO 8601 in UTC, BINARY as base64, DECIMAL as a
            number, NaN and infinities as text
    avro    one value per row with the schema that was given, or one made from the column's type; with a registry behind
            the zero byte and the schema's id

A null stays null: it is what deletes a key from a compacted topic.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import math
from collections.abc import Callable, Iterator
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

from moldau.spark.errors import SourceError
from moldau.spark.values.avro_references import merged
from moldau.spark.values.avro_types import avro_as_given, avro_schema, spark_type
from moldau.spark.values.plan import Side, ValuePlan
from moldau.spark.values.registry import MAGIC, PREFIX

Written = Callable[[Any], bytes]
Text = Callable[[Any], str]


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


def telling_schemas(batches: Iterator[pa.RecordBatch], plan: ValuePlan) -> Iterator[pa.RecordBatch]:
    """The same batches; before the first of them, the Avro schemas that nobody has given are told, since whoever reads
    the values needs them."""
    told = False
    for batch in batches:
        for side, schema in () if told else made_schemas(batch.schema, plan):
            log.warning("%s.schema is not given; each %s is written with this one: %s", side, side, schema)
        told = True
        yield batch


def made_schemas(columns: pa.Schema, plan: ValuePlan) -> list[tuple[str, str]]:
    """Those that are made from columns and that no registry keeps."""
    sides = {side.name: side for side in plan.sides if side.format == "avro" and side.avro is None}
    if plan.registry is not None:
        return []
    return [
        (side.name, json.dumps(avro_schema(from_arrow_type(field.type), side.name, may_be_null=False)))
        for field in columns
        if (side := sides.get(field.name.lower())) is not None
    ]


def encoded(column: pa.Array, side: Side, plan: ValuePlan) -> pa.Array:
    if side.format == "string":
        if isinstance(column.type, pa.StructType | pa.ListType | pa.MapType):
            raise EncodingFailed(f"{side.name}.format=string cannot write {column.type}; json can")
        return column.cast(pa.string()).cast(pa.binary())
    kind = from_arrow_type(column.type)
    try:
        if side.format == "json":
            return pa.array(json_texts(column, kind), pa.string()).cast(pa.binary())
        write = avro_writer(kind, side, plan)
        return pa.array([None if row is None else write(row) for row in python_rows(column, kind)], pa.binary())
    except SourceError:
        raise
    except Exception as error:  # what does not fit makes fastavro fail in many ways
        problem = " ".join(str(error).split())
        raise EncodingFailed(f"a {side.name} cannot be written as {side.format}: {problem}") from error


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


# -- Avro ----------------------------------------------------------------------------------------------------------


def avro_writer(kind: DataType, side: Side, plan: ValuePlan) -> Written:
    import fastavro
    from fastavro.validation import validate

    given = avro_schema(kind, side.name, may_be_null=False) if side.avro is None else avro_as_given(side.avro)
    schema = merged(given)
    parsed = fastavro.parse_schema(schema)
    prefix = b""
    if plan.registry is not None:
        if side.subject is None:
            raise EncodingFailed(f"{side.name}.subject is missing: without the option topic it is not clear")
        schema_id = plan.registry.id_of(side.subject, json.dumps(given), register=plan.register)
        prefix = PREFIX.pack(MAGIC, schema_id)

    # fastavro writes what does not fit, such as a long as an int, without a word: it has to be asked before.
    is_other = side.avro is not None and spark_type(schema).simpleString() != kind.simpleString()

    def write(value: Any) -> bytes:
        if is_other:
            validate(value, parsed, raise_errors=True)
        stream = io.BytesIO()
        stream.write(prefix)
        fastavro.schemaless_writer(stream, parsed, value, strict=True)
        return stream.getvalue()

    return write
