"""Typed columns out of batches of records; a record that does not decode follows the mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from moldau.schemas.framing import KEY_HEADER, VALUE_HEADER
from moldau.spark.errors import SourceError
from moldau.spark.values.json_values import Errors
from moldau.spark.values.options import DROPMALFORMED, FAILFAST, JSON_SCHEMA, PROTOBUF, REGISTERED
from moldau.spark.values.plan import ERROR, HEADERS, KEY, OFFSET, VALUE, Side, ValuePlan

SHOWN_BYTES: Final = 60
SCHEMA_HEADERS: Final = {KEY: KEY_HEADER, VALUE: VALUE_HEADER}


class Decoder(Protocol):
    def decode(self, column: pa.Array) -> tuple[pa.Array, Errors]: ...


class MalformedRecord(SourceError):
    """A record does not decode, and the mode is FAILFAST."""


class TextDecoder:
    """UTF-8."""

    def decode(self, column: pa.Array) -> tuple[pa.Array, Errors]:
        try:
            return column.cast(pa.string()), {}
        except pa.ArrowInvalid:
            texts: list[str | None] = []
        errors: Errors = {}
        for row, data in enumerate(column.to_pylist()):
            try:
                texts.append(None if data is None else data.decode())
            except UnicodeDecodeError as error:
                texts.append(None)
                errors[row] = str(error)
        return pa.array(texts, pa.string()), errors


def decoder_of(side: Side, plan: ValuePlan) -> Decoder:
    if side.format == "string":
        return TextDecoder()
    assert side.kind is not None
    if side.format == "json":
        from moldau.spark.values.json_values import JsonDecoder

        return JsonDecoder(side.kind)
    if side.format == JSON_SCHEMA:
        from moldau.spark.values.json_registered import RegisteredJsonDecoder

        assert plan.registry is not None
        return RegisteredJsonDecoder(side.kind, plan.registry)
    assert side.schema is not None
    if side.format == PROTOBUF:
        from moldau.spark.values.protobuf_values import ProtobufDecoder

        assert side.message is not None
        assert isinstance(side.kind, StructType)
        return ProtobufDecoder(side.schema, side.message, side.kind, plan.registry)
    from moldau.spark.values.avro_values import AvroDecoder

    return AvroDecoder(side.schema, side.kind, plan.registry)


def decode_batches(
    batches: Iterator[pa.RecordBatch], plan: ValuePlan, columns: Sequence[str], where: str
) -> Iterator[pa.RecordBatch]:
    """`batches` have the columns `plan.needed(columns)`; `where` names the partition in errors."""
    wanted = BatchDecoder(plan, columns, where)
    for batch in batches:
        decoded = wanted.decode(batch)
        if decoded.num_rows:
            yield decoded


class BatchDecoder:
    def __init__(self, plan: ValuePlan, columns: Sequence[str], where: str) -> None:
        self._plan = plan
        self._columns = tuple(columns)
        self._where = where
        needed = plan.needed(columns)
        self._decoders = [(side, decoder_of(side, plan)) for side in plan.sides if side.name in needed]

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        failed: dict[str, Errors] = {}
        for side, decoder in self._decoders:
            source = arrays.pop(side.name)
            decoded, errors = decoder.decode(self._named(side, source, batch))
            failed[side.name] = errors
            if errors and self._plan.mode == FAILFAST:
                raise self._refusal(side, source, batch, errors)
            arrays |= self._fields(side, decoded)
            arrays[side.corrupt] = only(source, errors)
        arrays[ERROR] = reasons(failed, batch.num_rows)
        found = pa.RecordBatch.from_arrays([arrays[name] for name in self._columns], names=list(self._columns))
        bad = sorted({row for errors in failed.values() for row in errors})
        if bad and self._plan.mode == DROPMALFORMED:
            dropped = set(bad)
            return found.take(pa.array([row for row in range(batch.num_rows) if row not in dropped], pa.int64()))
        return found

    def _named(self, side: Side, source: pa.Array, batch: pa.RecordBatch) -> pa.Array:
        """What names the schema in a header is put before the value, where it stands otherwise."""
        if self._plan.registry is None or side.format not in REGISTERED:
            return source
        headers, named = batch.column(HEADERS), SCHEMA_HEADERS[side.name]
        if pc.index(headers.values.field("key"), pa.scalar(named)).as_py() < 0:
            return source
        heads = [head_in(each, named) for each in headers.to_pylist()]
        values = zip(heads, source.to_pylist(), strict=True)
        return pa.array([head + value if head and value is not None else value for head, value in values], pa.binary())

    def _fields(self, side: Side, decoded: pa.Array) -> dict[str, pa.Array]:
        if self._plan.flatten and isinstance(side.kind, StructType):
            return dict(zip(side.kind.fieldNames(), decoded.flatten(), strict=True))
        return {side.name: decoded}

    def _refusal(self, side: Side, source: pa.Array, batch: pa.RecordBatch, errors: Errors) -> MalformedRecord:
        row = min(errors)
        offset = batch.column(OFFSET)[row].as_py()
        data = source[row].as_py()
        shown = repr(data[:SHOWN_BYTES]) + ("…" if len(data) > SHOWN_BYTES else "")
        return MalformedRecord(
            f"{self._where}, offset {offset}: the {side.name} {shown} does not decode as {side.format}: {errors[row]} "
            "(mode=FAILFAST; PERMISSIVE keeps the row with the error, DROPMALFORMED leaves it out)"
        )


def head_in(headers: list[dict[str, Any]] | None, name: str) -> bytes | None:
    """The last of the headers with this name, as Kafka's clients take it."""
    return next((each["value"] for each in reversed(headers or ()) if each["key"] == name), None)


def only(source: pa.Array, errors: Errors) -> pa.Array:
    """The bytes of the rows that failed, null elsewhere."""
    if not errors:
        return pa.nulls(len(source), pa.binary())
    places = pa.array([row if row in errors else None for row in range(len(source))], pa.int64())
    return source.take(places)


def reasons(failed: dict[str, Errors], rows: int) -> pa.Array:
    if not any(failed.values()):
        return pa.nulls(rows, pa.string())
    texts: dict[int, str] = {}
    for name, errors in failed.items():
        for row, error in errors.items():
            texts[row] = f"{texts[row]}; {name}: {error}" if row in texts else f"{name}: {error}"
    return pa.array([texts.get(row) for row in range(rows)], pa.string())
