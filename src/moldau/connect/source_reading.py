"""A source connector as a data source of Spark: where is more, and the reading of it in tasks.

Spark's offset is a list with the position of every stream. The rows are the connector's records, and behind those of a
stream one row with its new position (`position_key`, `position`), as Connect's topic of offsets keeps it. A record that
the connector could not make is a row with the reason and its bytes (`refused`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from moldau.connect.interface import Position, RawRecord, RecordRefused, SourceConnector, SourceRecord, Stream
from moldau.connect.plugins import loaded
from moldau.spark.schema import HEADER_TYPE

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "moldau_connect"
SPEC: Final = "connector.secret"
"""Spark's pages hide what is called secret: configurations hold passwords."""
ROWS: Final = 10_000
MISFITS: Final = (ValueError, TypeError, OverflowError, ArithmeticError)
"""What Arrow and Python raise for a value that a type does not hold (Arrow's own are among them)."""
REFUSED: Final = StructType(
    [StructField("message", StringType()), StructField("key", BinaryType()), StructField("value", BinaryType())]
)
COMMON: Final = (
    StructField("timestamp", TimestampType()),
    StructField("headers", HEADER_TYPE),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("refused", REFUSED),
    StructField("position_key", BinaryType()),
    StructField("position", BinaryType()),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What travels to Spark's processes."""

    connector: str
    """The name under which offsets are kept."""
    place: str
    config: Mapping[str, Any]
    streams: Sequence[Stream]
    positions: Sequence[Position | None]

    def to_json(self) -> str:
        streams = [
            {"partition": dict(each.partition), "topic": each.topic, "value": each.value, "key": each.key}
            for each in self.streams
        ]
        return json.dumps(
            {
                "connector": self.connector,
                "place": self.place,
                "config": dict(self.config),
                "streams": streams,
                "positions": list(self.positions),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Reading:
        found = json.loads(text)
        streams = [Stream(**each) for each in found["streams"]]
        return cls(found["connector"], found["place"], found["config"], streams, found["positions"])

    def source(self) -> SourceConnector:
        made = loaded(self.place)
        assert isinstance(made, type)
        assert issubclass(made, SourceConnector)
        return made(self.config)


def schema_of(stream: Stream) -> StructType:
    from pyspark.sql.types import _parse_datatype_string

    key = NullType() if stream.key is None else _parse_datatype_string(stream.key)
    # Spark has no columns without a type in a data source.
    plain_key = StringType() if isinstance(key, NullType) else key
    return StructType(
        [StructField("key", plain_key), StructField("value", _parse_datatype_string(stream.value)), *COMMON]
    )


def position_key(connector: str, partition: Mapping[str, Any]) -> bytes:
    return compact([connector, dict(partition)])


def compact(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Slice:
    stream: int
    begin: Position | None
    end: Position


class ConnectSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return ConnectReader(Reading.from_json(self.options[SPEC]), schema)


class ConnectReader(DataSourceStreamReader):
    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading = reading
        self._schema = schema
        self._source: SourceConnector | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ConnectReader, (self._reading, self._schema)

    def _made(self) -> SourceConnector:
        if self._source is None:
            self._source = self._reading.source()
        return self._source

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names, here and below)
        return {"positions": list(self._reading.positions)}

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:  # noqa: N802
        source = self._made()
        positions = [
            source.latest(stream, position)
            for stream, position in zip(self._reading.streams, start["positions"], strict=True)
        ]
        return {"positions": positions}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pairs = zip(start["positions"], end["positions"], strict=True)
        return [
            InputPartition(Slice(number, begin, end))
            for number, (begin, end) in enumerate(pairs)
            if end is not None and end != begin
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        piece: Slice = partition.value
        stream = self._reading.streams[piece.stream]
        source = self._reading.source()
        try:
            yield from arrow_batches(source.read(stream, piece.begin, piece.end), stream, self._schema)
        finally:
            source.close()
        key = position_key(self._reading.connector, stream.partition)
        yield whole_batch({"position_key": [key], "position": [compact(piece.end)]}, 1, self._schema)

    def stop(self) -> None:
        if self._source is not None:
            self._source.close()


# -- Arrow -----------------------------------------------------------------------------------------------------------


def arrow_batches(
    records: Iterable[SourceRecord | RecordRefused | pa.RecordBatch], stream: Stream, schema: StructType
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    several: Iterator[Any]
    for is_batch, several in groupby(records, lambda each: isinstance(each, pa.RecordBatch)):
        if is_batch:
            for batch in several:
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                columns.setdefault("topic", pa.repeat(stream.topic, batch.num_rows))
                yield whole_batch(columns, batch.num_rows, schema)
            continue
        while part := list(islice(several, ROWS)):
            yield one_batch(part, stream, schema)


def one_batch(found: Sequence[Any], stream: Stream, schema: StructType) -> pa.RecordBatch:
    """A record that does not fit the stream's types is refused."""
    try:
        return whole_batch(columns_of(found, stream), len(found), schema)
    except MISFITS:
        fitting = [fitted(each, stream, schema) for each in found]
        return whole_batch(columns_of(fitting, stream), len(found), schema)


def fitted(record: Any, stream: Stream, schema: StructType) -> Any:
    if isinstance(record, RecordRefused):
        return record
    try:
        whole_batch(columns_of([record], stream), 1, schema)
    except MISFITS as problem:
        raw = RawRecord.shown(record.key, record.value, record.headers)
        return RecordRefused(f"the record does not fit the types of {stream.topic}: {problem}", raw)
    return record


def columns_of(found: Sequence[Any], stream: Stream) -> dict[str, Any]:
    records = [without_content(each) if isinstance(each, RecordRefused) else each for each in found]
    refused = {"refused": [refusal(each) for each in found]} if records != found else {}
    return {
        **refused,
        "key": [each.key for each in records],
        "value": [each.value for each in records],
        "timestamp": [None if each.timestamp_ms is None else each.timestamp_ms * 1000 for each in records],
        "headers": [[{"key": key, "value": value} for key, value in each.headers] for each in records],
        "topic": [each.topic or stream.topic for each in records],
        "partition": [each.partition for each in records],
    }


def without_content(refused: RecordRefused) -> SourceRecord:
    return SourceRecord(None, headers=refused.raw.headers if refused.raw else ())


def refusal(found: Any) -> dict[str, Any] | None:
    if not isinstance(found, RecordRefused):
        return None
    key, value, _ = found.raw or RawRecord(None, None)
    return {"message": str(found), "key": key, "value": value}


def whole_batch(columns: Mapping[str, Any], rows: int, schema: StructType) -> pa.RecordBatch:
    """With every column of the schema; those that are missing are null."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema, timezone="UTC")
    arrays = []
    for field in wanted:
        given = columns.get(field.name)
        if given is None:
            arrays.append(pa.nulls(rows, field.type))
        elif isinstance(given, pa.Array):
            arrays.append(given if given.type == field.type else given.cast(field.type))
        else:
            arrays.append(pa.array(given, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)
