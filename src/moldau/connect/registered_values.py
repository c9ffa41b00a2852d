"""Columns of registered values to bytes and back, in Spark's Python workers, as functions over Arrow arrays.

The rows of an array may be of several topics, and have several schemas: each group is written, or read, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from moldau.connect.schemas import SchemaRefused as UnusableSchema
from moldau.schemas.framing import BY_ID, FramingError, read_frame, read_indexes
from moldau.schemas.model import SchemaError
from moldau.spark.option_table import OptionError
from moldau.spark.values.decoding import Decoder, decoder_of
from moldau.spark.values.encoding import EncodingFailed, encoded
from moldau.spark.values.options import AVRO, JSON_SCHEMA, PROTOBUF
from moldau.spark.values.plan import KINDS, Side, ValuePlan, checked, json_schema_type, protobuf_parts
from moldau.spark.values.raw_types import arrow_type
from moldau.spark.values.registry import Registry, SchemaRefused

arrow_function: Any = arrow_udf
"""Its published type knows fewer forms than it takes."""


@dataclass(frozen=True, slots=True)
class Encoding:
    format: str
    part: str
    """key or value."""
    name: str
    """Of the schema."""
    schema: str | None
    registry: Registry
    register: bool

    def encoded(self, topic: str, column: pa.Array) -> pa.Array:
        side = Side(self.name, self.format, schema=self.schema, subject=f"{topic}-{self.part}")
        return encoded(column, side, ValuePlan(registry=self.registry, register=self.register))

    def checked(self, topic: str | None, column: pa.Array) -> pa.Array:
        """Structs of the bytes and the problem; a registry that is away is nobody's. Where something does not fit,
        each row is tried alone."""
        if topic is None:  # rows without a topic are no records
            return told(pa.nulls(len(column), pa.binary()), [None] * len(column))
        try:
            return told(self.encoded(topic, column), [None] * len(column))
        except (EncodingFailed, SchemaRefused) as problem:
            if len(column) == 1:
                return told(pa.nulls(1, pa.binary()), [str(problem)])
        return pa.concat_arrays([self.checked(topic, column.slice(row, 1)) for row in range(len(column))])


ENCODED: Final = StructType([StructField("bytes", BinaryType()), StructField("problem", StringType())])


def encoder(encoding: Encoding) -> Any:
    def encode_rows(values: pa.Array, topics: pa.Array) -> pa.Array:
        return by_group(values, topics.to_pylist(), encoding.checked, arrow_type(ENCODED))

    return arrow_function(encode_rows, ENCODED)


def told(contents: pa.Array, problems: list[str | None]) -> pa.Array:
    return pa.StructArray.from_arrays([contents, pa.array(problems, pa.string())], names=ENCODED.names)


def by_group(
    values: pa.Array, keys: Sequence[Any], work: Callable[[Any, pa.Array], pa.Array], kind: pa.DataType
) -> pa.Array:
    """What `work` makes of the rows of each key, in the order of the rows."""
    places: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        places.setdefault(key, []).append(row)
    if not places:
        return pa.array([], kind)
    if len(places) == 1:
        return work(next(iter(places)), values)
    made = pa.concat_arrays([work(key, values.take(pa.array(rows))) for key, rows in places.items()])
    back = [0] * len(keys)
    for at, row in enumerate(row for rows in places.values() for row in rows):
        back[row] = at
    return made.take(pa.array(back))


# -- reading ---------------------------------------------------------------------------------------------------------


def head_of(value: bytes | None, form: str) -> str | None:
    """What says which schema a value has: its id, for Protobuf with the path to the message. None: it says nothing."""
    if value is None or value[:1] != bytes([BY_ID]):
        return None
    try:
        frame = read_frame(value)
        if form != PROTOBUF:
            return str(frame.schema)
        return f"{frame.schema}:{','.join(map(str, read_indexes(value, frame.begins)[0]))}"
    except (FramingError, ValueError, IndexError):
        return None


def heads(form: str) -> Any:
    def head_rows(values: pa.Array) -> pa.Array:
        return pa.array([head_of(value, form) for value in values.to_pylist()], pa.string())

    return arrow_function(head_rows, StringType())


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the values of a batch are read."""

    format: str
    registry: Registry
    kind: DataType
    sides: Mapping[str, Side]
    """By head."""

    def read(self, head: str | None, column: pa.Array) -> pa.Array:
        """Structs of the value and the problem."""
        if head is None:
            return answer(pa.nulls(len(column), arrow_type(self.kind)), [None] * len(column))
        side = self.sides[head]
        decoded, errors = self._decoder(side).decode(column)
        return answer(widened(decoded, side.kind, self.kind), [errors.get(row) for row in range(len(column))])

    def _decoder(self, side: Side) -> Decoder:
        return decoder_of(side, ValuePlan(registry=self.registry))


def settled(form: str, column: str, registry: Registry, heads: Iterable[str], kind: DataType) -> Decoding:
    return Decoding(form, registry, kind, {head: known_side(form, column, registry, head) for head in heads})


def known_side(form: str, column: str, registry: Registry, head: str) -> Side:
    """Asks the registry; one that is away ends the batch, a schema that is missing or cannot be read is the records'
    fault: it raises connect's SchemaRefused."""
    try:
        return side_of(form, column, registry, head)
    except (SchemaRefused, SchemaError, OptionError) as error:
        raise UnusableSchema(str(error)) from None


def side_of(form: str, column: str, registry: Registry, head: str) -> Side:
    from moldau.spark.values.avro_types import parse_avro, spark_type

    number, _, path = head.partition(":")
    if form == AVRO:
        text = registry.schema_of(int(number))
        return Side(column, AVRO, checked(f"schema {number}", lambda: spark_type(parse_avro(text))), text)
    whole = registry.by_id(int(number), KINDS[form])
    if form == JSON_SCHEMA:
        return Side(column, JSON_SCHEMA, checked(f"schema {number}", lambda: json_schema_type(whole)))
    from moldau.schemas.descriptors import files_of, name_at

    name = name_at(files_of(whole.text, whole.referred)[-1], tuple(map(int, path.split(","))))
    packed, message, kind = protobuf_parts(f"schema {number}", whole, name)
    return Side(column, PROTOBUF, kind, packed, message=message)


def decoder(decoding: Decoding) -> Any:
    shape = StructType([StructField("value", decoding.kind), StructField("problem", StringType())])

    def decode_rows(values: pa.Array) -> pa.Array:
        found = [head_of(value, decoding.format) for value in values.to_pylist()]
        return by_group(values, found, decoding.read, arrow_type(shape))

    return arrow_function(decode_rows, shape)


def answer(values: pa.Array, problems: list[str | None]) -> pa.Array:
    return pa.StructArray.from_arrays([values, pa.array(problems, pa.string())], names=["value", "problem"])


def widened(column: pa.Array, kind: DataType | None, wanted: DataType) -> pa.Array:
    """With the fields that other schemas of the batch have besides."""
    target = arrow_type(wanted)
    if kind == wanted or column.type == target:
        return column
    return pa.array(column.to_pylist(maps_as_pydicts="strict"), target)
