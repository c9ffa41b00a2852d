"""What `ArchiveSink` has written, back into topics: each record with its key, value, headers, timestamp and partition,
in the order of its partition, tombstones too.

Each archived partition is a stream; the position is the offset in the topic that was archived. An archive that grows
is followed. `timestamp.from` and `timestamp.to` choose by the records' timestamps; files that have none of them are
not read. Every file is held against length and checksum of the manifest. Bytes come back as they were with
`ByteArrayConverter` on both ways; columns with types are written by whatever converter is configured. Offsets are those
of the new topic, which needs as many partitions as the archived one. Partitions and topics that are added to the
archive are found, and so are fields that its records did not have before.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connectors.archive_formats import BINARY, rows_of
from moldau.connect.connectors.archive_manifest import FOLDER, Book, Entry
from moldau.connect.connectors.archive_paths import EPOCH
from moldau.connect.connectors.archive_sink import LAYOUT, OPTIONS, options_of
from moldau.connect.connectors.archive_stores import S3, Store, check_options, store_of
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, refusals
from moldau.connect.interface import Position, SourceConnector, SourceRecord, Stream, StreamsChanged
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType

VOID: Final = '"void"'
ROWS: Final = 50_000


def millis_given(name: str, text: str | None) -> int | None:
    """Milliseconds, or a time in ISO 8601."""
    if not text:
        return None
    try:
        if text.lstrip("-").isdigit():
            return int(text)
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(name, text, "milliseconds or a time such as 2026-11-19T02:00:00+00:00 is expected") from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
    return (aware - EPOCH) // dt.timedelta(milliseconds=1)


def check_time(name: str, value: Any) -> None:
    millis_given(name, value)


READING: Final = LAYOUT + ConfigDef(
    Key("archive.topics", ConfigType.LIST, "", "The archived topics to read; all by default.", "HIGH"),
    Key(
        "topic.format",
        default="${topic}-restored",
        doc="Where an archived topic goes. ${topic} alone sends it to where it came from, beside what is there.",
        importance="HIGH",
        check=not_empty,
    ),
    Key("timestamp.from", default="", doc="The earliest timestamp: milliseconds, or ISO 8601.", check=check_time),
    Key("timestamp.to", default="", doc="The timestamp before which to end.", check=check_time),
    Key("batch.records", ConfigType.INT, "100000", "About how many records a batch has.", "LOW", at_least(1)),
)


class ArchiveSource(SourceConnector):
    CONFIG: ClassVar = READING + ConfigDef(
        Key("url", default=REQUIRED, doc="A folder, file://…, s3://…, gs://… or az://….", importance="HIGH"),
        Key("store.retries", ConfigType.INT, "3", "How often a request to a bucket is repeated.", check=at_least(0)),
    )

    OPEN: ClassVar = (OPTIONS,)

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        yield from refusals("url", lambda: check_options(config.get("url") or S3, options_of(config)))
        first, last = (millis_given(name, config[name]) for name in ("timestamp.from", "timestamp.to"))
        if first is not None and last is not None and first >= last:
            yield "timestamp.to", "timestamp.to has to be later than timestamp.from"

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._from = millis_given("timestamp.from", config["timestamp.from"])
        self._to = millis_given("timestamp.to", config["timestamp.to"])
        self._store: Store | None = None
        self._fitting: dict[TopicPartition, set[tuple[str, str]]] = {}
        """Types of keys and values that are known to be part of a stream's."""

    def made_store(self) -> Store:
        return store_of(self.config["url"], options_of(self.config), self.config["store.retries"])

    def _open(self) -> Store:
        if self._store is None:
            self._store = self.made_store()
        return self._store

    def _book(self, stream: Stream) -> Book:
        return Book(self._open(), self.config["topics.dir"], place_of(stream))

    def streams(self) -> Sequence[Stream]:
        folder = self.config["topics.dir"]
        found = [self._stream(place) for place in self._places()]
        if not found:
            wanted = ", ".join(self.config["archive.topics"]) or "any topic"
            raise FileNotFoundError(f"{self._open().name} has no archive of {wanted} in {folder}: no manifest is there")
        return found

    def _places(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition)
            for topic in self.config["archive.topics"] or self._open().names(self.config["topics.dir"])
            for partition in self._partitions(topic)
        ]

    def committed(self, streams: Sequence[tuple[Stream, Position | None]]) -> None:
        """Asked for the sake of looking at what there is again."""
        if set(self._places()) != {place_of(stream) for stream, _ in streams}:
            raise StreamsChanged("the archive has other topics or partitions")

    def _partitions(self, topic: str) -> list[int]:
        names = self._open().names(f"{self.config['topics.dir']}/{topic}/{FOLDER}")
        ends = [name.removeprefix("partition=").removesuffix(".json") for name in names if name.endswith(".json")]
        return sorted(int(each) for each in ends if each.isdigit())

    def _stream(self, place: TopicPartition) -> Stream:
        entries = list(Book(self._open(), self.config["topics.dir"], place).entries())
        key, value = (type_of({getattr(entry, side) for entry in entries}) for side in ("key", "value"))
        topic = self.config["topic.format"].replace("${topic}", place.topic)
        return Stream({"topic": place.topic, "partition": place.partition}, topic, value, key)

    def latest(self, stream: Stream, position: Position | None) -> Position | None:
        begin = 0 if position is None else position["offset"]
        book = self._book(stream)
        end, count, kinds = begin, 0, set()
        for entry in book.entries(begin) if book.manifest.next > begin else ():
            end = max(end, entry.last + 1)
            kinds.add((entry.key, entry.value))
            count += entry.records if self._has_some(entry) else 0
            if count >= self.config["batch.records"]:
                break
        if not kinds <= self._fitting.get(place_of(stream), set()):
            self._check_types(stream, book)
        return position if end == begin else {"offset": end}

    def _check_types(self, stream: Stream, book: Book) -> None:
        """Fields that the stream's type does not have would be left out."""
        now = self._stream(place_of(stream))
        if (now.key, now.value) != (stream.key, stream.value):
            raise StreamsChanged(f"the archive of {place_of(stream)} has records of another type")
        self._fitting[place_of(stream)] = {(entry.key, entry.value) for entry in book.entries()}

    def _has_some(self, entry: Entry) -> bool:
        """Whether a file may have records of the time that was chosen."""
        least, greatest = entry.least_timestamp, entry.greatest_timestamp
        if self._from is not None and (greatest is None or greatest < self._from):
            return False
        return self._to is None or (least is not None and least < self._to)

    def read(
        self, stream: Stream, begin: Position | None, end: Position
    ) -> Iterator[SourceRecord] | Iterator[pa.RecordBatch]:
        import pyarrow as pa

        first = 0 if begin is None else begin["offset"]
        entries = [
            entry
            for entry in self._book(stream).entries(first)
            if entry.first < end["offset"] and self._has_some(entry)
        ]
        if not entries:
            return
        tables = [self._rows(entry, first, end["offset"]) for entry in entries]
        if all(kind in (BINARY, VOID) for entry in entries for kind in (entry.key, entry.value)):
            whole = pa.concat_tables(tables).sort_by("offset")
            yield from whole.select(["key", "value", "timestamp", "headers", "partition"]).to_batches(ROWS)
            return
        rows = [row for table in tables for row in table.to_pylist()]
        for row in sorted(rows, key=lambda row: int(row["offset"])):
            yield record_of(row)

    def _rows(self, entry: Entry, first: int, end: int) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        blob = self._open().read(entry.path)
        content = entry.checked(None if blob is None else blob.content)
        table = rows_of(entry.format, content, {"key": entry.key, "value": entry.value})
        offsets = table.column("offset")
        chosen = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end))
        stamps = table.column("timestamp").cast(pa.timestamp("ms", "UTC"))
        table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", stamps)
        if self._from is not None:
            chosen = pc.and_(chosen, pc.fill_null(pc.greater_equal(stamps.cast(pa.int64()), self._from), False))
        if self._to is not None:
            chosen = pc.and_(chosen, pc.fill_null(pc.less(stamps.cast(pa.int64()), self._to), False))
        return table.filter(chosen)

    def validate_position(self, partition: Mapping[str, Any], position: Mapping[str, Any] | None) -> None:
        if set(partition) != {"topic", "partition"}:
            raise ValueError("Partition objects should contain the keys 'topic' and 'partition'")
        if position is not None and not is_offset(position.get("offset")):
            raise ValueError("Offset objects should either be null or contain the key 'offset', a non-negative number")


def place_of(stream: Stream) -> TopicPartition:
    """That was archived."""
    return TopicPartition(stream.partition["topic"], int(stream.partition["partition"]))


def is_offset(found: Any) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def record_of(row: Mapping[str, Any]) -> SourceRecord:
    stamp = row["timestamp"]
    return SourceRecord(
        row["value"],
        row["key"],
        None if stamp is None else (stamp - EPOCH) // dt.timedelta(milliseconds=1),
        tuple((each["key"], each["value"]) for each in row["headers"]),
        None,
        row["partition"],
    )


# -- types -----------------------------------------------------------------------------------------------------------


def type_of(kinds: set[str]) -> str:
    """What holds all of them, in Spark's notation."""
    from pyspark.sql.types import NullType, _parse_datatype_json_string

    from moldau.connect.schemas import merged

    found: DataType = NullType()
    for kind in sorted(kinds):
        found = merged(found, _parse_datatype_json_string(kind))
    return "binary" if isinstance(found, NullType) else ddl(found)


def ddl(kind: DataType) -> str:
    from pyspark.sql.types import ArrayType, DecimalType, NullType, StructType

    match kind:
        case StructType():
            fields = ", ".join(f"`{each.name.replace('`', '``')}`: {ddl(each.dataType)}" for each in kind)
            return f"struct<{fields}>"
        case ArrayType():
            return f"array<{ddl(kind.elementType)}>"
        case DecimalType():
            return f"decimal(38,{kind.scale})"
        case NullType():
            return "string"
    return str(kind.simpleString())
