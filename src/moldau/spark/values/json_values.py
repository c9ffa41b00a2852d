"""Rows of JSON to an Arrow array of Spark's types, and the reason for each row that is none.

Arrow's own reader of JSON lines does the work where it can: `kernels.json_lines` puts each row on a line of its own, so
that rows keep their places. It says only that something is wrong, not always where: then the rows are tried in smaller
groups, and the last few, or those that are no object, by Python's reader, which decides. What Arrow accepts, Python's
reader would accept with the same result:

- a field that is not there, or null, is null; one that the schema does not know is passed over; case counts
- a number has to fit its type; 1.0 is no whole number; NaN, Infinity and -Infinity are numbers for FLOAT and DOUBLE
- STRING takes any value: what is no string is its JSON text, as with Spark's `from_json`
- TIMESTAMP, DATE: text as in `raw_types`; DECIMAL: a number or text; BINARY: base64; MAP: an object
- the word null in place of an object is a null row
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from moldau.kernels import json_lines
from moldau.spark.values.raw_types import arrow_type, converted, raw_type
from moldau.spark.writing.columns import bytes_source

Convert = Callable[[Any], Any]
Errors = dict[int, str]

GROUPS: Final = 16
SMALLEST_GROUP: Final = 512
NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
"""As text they are numbers too: there is no other way to write them in JSON, and Spark's `to_json` does so."""


class JsonDecoder:
    def __init__(self, kind: DataType) -> None:
        self._kind = kind
        self._raw = raw_type(kind)
        self._convert = converter(kind, "")
        self._by_arrow = isinstance(kind, StructType) and arrow_can_read(kind)

    def decode(self, column: pa.Array) -> tuple[pa.Array, Errors]:
        """The rows, null where one is null or does not decode, and why it does not."""
        if not self._by_arrow:
            return self._decode_by_python(column)
        try:
            return self._decode_by_arrow(column)
        except pa.ArrowInvalid:
            if len(column) <= SMALLEST_GROUP:
                return self._decode_by_python(column)
        size = max(SMALLEST_GROUP, -(-len(column) // GROUPS))
        parts: list[pa.Array] = []
        errors: Errors = {}
        for start in range(0, len(column), size):
            part, found = self.decode(column.slice(start, size))
            parts.append(part)
            errors |= {start + row: error for row, error in found.items()}
        return pa.concat_arrays(parts), errors

    def _decode_by_arrow(self, column: pa.Array) -> tuple[pa.Array, Errors]:
        import pyarrow.json as reader

        lines, refused = json_lines(bytes_source(column), len(column))
        buffer = pa.py_buffer(lines)
        if len(column) == 0:
            return self._empty(), {}
        table = reader.read_json(
            pa.BufferReader(buffer),
            read_options=reader.ReadOptions(use_threads=False, block_size=buffer.size),
            parse_options=reader.ParseOptions(
                explicit_schema=pa.schema(list(self._raw)), unexpected_field_behavior="ignore", newlines_in_values=True
            ),
        )
        if table.num_rows != len(column):
            raise pa.ArrowInvalid("rows and lines differ")
        children = [column.combine_chunks() for column in table.columns]
        mask = column.is_null() if column.null_count else None
        rows = converted(pa.StructArray.from_arrays(children, fields=list(self._raw), mask=mask), self._kind)
        return self._with_refused(rows, column, refused) if refused else (rows, {})

    def _with_refused(self, rows: pa.Array, column: pa.Array, refused: tuple[int, ...]) -> tuple[pa.Array, Errors]:
        """Puts what Python's reader says of some rows into their places."""
        others, found = self._decode_by_python(column.take(pa.array(refused, pa.int64())))
        places = list(range(len(rows)))
        for index, row in enumerate(refused):
            places[row] = len(rows) + index
        errors = {refused[index]: error for index, error in found.items()}
        return pa.concat_arrays([rows, others]).take(pa.array(places, pa.int64())), errors

    def _decode_by_python(self, column: pa.Array) -> tuple[pa.Array, Errors]:
        parsed: list[Any] = []
        errors: Errors = {}
        for row, text in enumerate(column.to_pylist()):
            try:
                parsed.append(None if text is None else self._parsed(text))
            except (ValueError, RecursionError) as error:
                errors[row] = str(error) or type(error).__name__
                parsed.append(None)
        try:
            return self._built(parsed), errors
        except pa.ArrowInvalid:
            return self._built_singly(parsed, errors), errors

    def _parsed(self, text: bytes) -> Any:
        found = READER.decode(text.decode())
        return None if found is None else self._convert(found)

    def _built(self, parsed: list[Any]) -> pa.Array:
        return converted(pa.array(parsed, self._raw), self._kind) if parsed else self._empty()

    def _built_singly(self, parsed: list[Any], errors: Errors) -> pa.Array:
        parts = []
        for row, value in enumerate(parsed):
            try:
                parts.append(self._built([value]))
            except pa.ArrowInvalid as error:
                errors[row] = str(error)
                parts.append(self._built([None]))
        return pa.concat_arrays(parts)

    def _empty(self) -> pa.Array:
        return pa.array([], arrow_type(self._kind))


def arrow_can_read(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(arrow_can_read(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return arrow_can_read(kind.elementType)
    return not isinstance(kind, MapType | BinaryType)


class Literal(float):
    """A number that remembers how it was written, for decimals and for fields that are text."""

    text: str

    def __new__(cls, text: str) -> Literal:
        made = super().__new__(cls, text)
        made.text = text
        return made


def finite(text: str) -> float:
    number = Literal(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number


READER: Final = json.JSONDecoder(parse_float=finite)


def converter(kind: DataType, path: str) -> Convert:
    """A function that checks a parsed value and gives what Arrow's raw type takes; ValueError names the field."""
    if isinstance(kind, StructType):
        return struct_converter(kind, path)
    if isinstance(kind, ArrayType):
        return list_converter(converter(kind.elementType, f"{path}[]"), path)
    if isinstance(kind, MapType):
        return map_converter(converter(kind.valueType, f"{path}{{}}"), path)
    convert = plain_converter(kind)

    def checked(value: Any) -> Any:
        try:
            return None if value is None else convert(value)
        except ValueError:
            raise ValueError(f"{path or 'the value'}: {shown(value)} is no {kind.simpleString()}") from None

    return checked


def struct_converter(kind: StructType, path: str) -> Convert:
    fields = [(field.name, converter(field.dataType, f"{path}.{field.name}".lstrip("."))) for field in kind]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError(f"{path or 'the value'}: {shown(value)} is no object")
        return {name: inner(value.get(name)) for name, inner in fields}

    return convert


def list_converter(inner: Convert, path: str) -> Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise ValueError(f"{path or 'the value'}: {shown(value)} is no array")
        return [inner(each) for each in value]

    return convert


def map_converter(inner: Convert, path: str) -> Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError(f"{path or 'the value'}: {shown(value)} is no object")
        return [(as_text(name), inner(each)) for name, each in value.items()]

    return convert


def plain_converter(kind: DataType) -> Convert:
    if isinstance(kind, BooleanType):
        return as_boolean
    if isinstance(kind, IntegralType):
        return as_whole_number
    if isinstance(kind, FloatType | DoubleType):
        return as_number
    if isinstance(kind, StringType):
        return as_text
    if isinstance(kind, BinaryType):
        return as_bytes
    return as_decimal if isinstance(kind, DecimalType) else as_written


def as_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def as_whole_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def as_number(value: Any) -> float:
    if value in NOT_FINITE:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    return float(value)


def as_written(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return as_text(value)


def as_text(value: Any) -> str:
    text = value if isinstance(value, str) else as_json(value)
    text.encode()  # half a surrogate pair is no text
    return text


def as_bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(as_written(value), validate=True)
    except binascii.Error:
        raise ValueError from None


def as_decimal(value: Any) -> str:
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return str(value)


def as_json(value: Any) -> str:
    return value.text if isinstance(value, Literal) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def shown(value: Any) -> str:
    text = as_json(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
