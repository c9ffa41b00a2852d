"""Topics to files, in a folder or a bucket: key, value, headers, timestamp, partition and offset of every record.

The settings are those of Confluent's S3 sink. `url` is a folder, or `s3://bucket/prefix`, `gs://…`, `az://…`; what is
given as `store.options.<name>` goes to the store (obstore's names, such as `store.options.aws_endpoint`). A file is
`<topics.dir>/<topic>/<partitioner's folder>/<topic>+<partition>+<first offset>.<ending>`.

It ends with its batch: `flush.size` and `rotate.interval.ms` divide what one batch brings, and a batch that brings less
makes a smaller file. Beside the files lies a manifest of each partition, `<topics.dir>/<topic>/_manifest/`, with files,
offsets, checksums and up to where the partition is archived. Records below that are left out, whoever brings them
again: offsets that are set back change nothing. A topic that was deleted and made anew is noticed by its timestamps:
the connector fails, and wants another folder.

With `ByteArrayConverter` the bytes are kept as they are; with a converter that knows types (JSON with schemas) Parquet
and ORC have typed columns `key` and `value`, whole numbers with 64 bits. Differences to Confluent's: the file has the
whole record and not only the value; tombstones are written (`behavior.on.null.values`); partitioners take the time of
the record, never the clock's; Avro is not written.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connectors.archive_formats import FORMATS, Format, empty_file, table_of
from moldau.connect.connectors.archive_manifest import Book, Entry, Fresh, manifest_path
from moldau.connect.connectors.archive_paths import place_of, simple_name
from moldau.connect.connectors.archive_stores import S3, Store, check_options, store_of
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, one_of, refusals
from moldau.connect.interface import RecordRefused, SinkConnector, SinkRecord

if TYPE_CHECKING:
    from moldau.types.ids import TopicPartition

CHUNK: Final = 100_000
"""Records that are written at once, at most."""
OPTIONS: Final = "store.options."
CODECS: Final = ("none", "snappy", "gzip", "zstd", "lz4", "brotli")


class TopicAnew(Exception):
    """The offsets of a topic begin again."""


def options_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Of the store."""
    return {name.removeprefix(OPTIONS): value for name, value in config.items() if name.startswith(OPTIONS)}


def format_name(java: str) -> str:
    return simple_name(java).removesuffix("Format").lower()


def check_format(name: str, value: Any) -> None:
    if format_name(value or "") not in FORMATS:
        raise ConfigError(name, value, "ParquetFormat, OrcFormat or JsonFormat is expected")


def check_partitioner(name: str, value: Any) -> None:
    known = ("DefaultPartitioner", "TimeBasedPartitioner", "HourlyPartitioner", "DailyPartitioner", "FieldPartitioner")
    one_of(*known)(name, simple_name(value or ""))


def check_zone(name: str, value: Any) -> None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(value or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        raise ConfigError(name, value, "it is no time zone") from None


LAYOUT: Final = ConfigDef(
    Key("topics.dir", default="topics", doc="The folder of all topics.", importance="HIGH", check=not_empty),
    Key("directory.delim", default="/", doc="Between folders: / alone.", check=one_of("/")),
    Key("file.delim", default="+", doc="Between the parts of a file's name.", check=not_empty),
    Key("filename.offset.zero.pad.width", ConfigType.INT, "10", "The digits of offsets.", check=at_least(0)),
)
FILES: Final = LAYOUT + ConfigDef(
    Key(
        "flush.size",
        ConfigType.INT,
        "50000",
        "The most records of a file; here it has a default.",
        "HIGH",
        at_least(1),
    ),
    Key("flush.bytes", ConfigType.LONG, "67108864", "The most bytes of keys and values of a file.", check=at_least(1)),
    Key(
        "rotate.interval.ms",
        ConfigType.LONG,
        "-1",
        "The longest time between the timestamps of a file's first record and its others.",
        "HIGH",
    ),
    Key("rotate.schedule.interval.ms", ConfigType.LONG, "-1", "Accepted: every batch is written at once."),
    Key(
        "format.class",
        default="ParquetFormat",
        doc="io.confluent.connect.s3.format.parquet.ParquetFormat, ….json.JsonFormat, or OrcFormat.",
        importance="HIGH",
        check=check_format,
    ),
    Key("parquet.codec", default="snappy", doc="Of Parquet.", check=one_of(*CODECS)),
    Key("orc.codec", default="zstd", doc="Of ORC: none, snappy, zstd, lz4.", check=one_of("none", *CODECS)),
    Key(
        "partitioner.class",
        default="io.confluent.connect.storage.partitioner.DefaultPartitioner",
        doc="DefaultPartitioner, HourlyPartitioner, DailyPartitioner, TimeBasedPartitioner or FieldPartitioner.",
        importance="HIGH",
        check=check_partitioner,
    ),
    Key("path.format", default="", doc="The folders of TimeBasedPartitioner, such as 'year'=YYYY/'month'=MM."),
    Key("partition.duration.ms", ConfigType.LONG, "-1", "The time that a folder of TimeBasedPartitioner stands for."),
    Key("partition.field.name", ConfigType.LIST, "", "Fields of the value that FieldPartitioner takes."),
    Key("timezone", default="UTC", doc="Of the folders.", check=check_zone),
    Key("locale", default="", doc="Accepted: the folders have numbers alone."),
    Key("timestamp.extractor", default="Record", doc="Record or RecordField.", check=one_of("Record", "RecordField")),
    Key("timestamp.field", default="timestamp", doc="The field for RecordField."),
    Key(
        "behavior.on.null.values",
        default="write",
        doc="Tombstones: write, ignore, or fail, which makes dead letters of them.",
        check=one_of("write", "ignore", "fail"),
    ),
)


class ArchiveSink(SinkConnector):
    EXACT: ClassVar = "a manifest of each partition says up to which offset it is archived, and which files count"
    CONFIG: ClassVar = FILES + ConfigDef(
        Key("url", default=REQUIRED, doc="A folder, file://…, s3://…, gs://… or az://….", importance="HIGH"),
        Key("store.retries", ConfigType.INT, "3", "How often a request to a bucket is repeated.", check=at_least(0)),
    )

    OPEN: ClassVar = (OPTIONS,)

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        yield from refusals("partitioner.class", lambda: place_of(config))
        chosen = FORMATS[format_name(config["format.class"])]
        yield from refusals(f"{chosen.name}.codec", lambda: cls.codec_of(chosen, config))
        yield from refusals("url", lambda: check_options(config.get("url") or S3, options_of(config)))

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._format = FORMATS[format_name(config["format.class"])]
        self._codec = self.codec_of(self._format, config)
        self._place = place_of(config)
        self._store: Store | None = None

    @classmethod
    def codec_of(cls, chosen: Format, config: Mapping[str, Any]) -> str:
        codec = str(config.get(f"{chosen.name}.codec", "none"))
        if codec not in chosen.codecs:
            raise ValueError(f"{chosen.name}.codec={codec} is none of {', '.join(chosen.codecs)}")
        return codec

    def made_store(self) -> Store:
        return store_of(self.config["url"], options_of(self.config), self.config["store.retries"])

    def write(self, records: Iterator[SinkRecord]) -> None:
        if self._store is None:
            self._store = self.made_store()
        folder = self.config["topics.dir"]
        for place, several in groupby(records, lambda record: record.source):
            for chunk in self._chunks(several):
                with self._store.locked(manifest_path(folder, place)):
                    self._write(Book(self._store, folder, place), chunk)

    def _chunks(self, records: Iterable[SinkRecord]) -> Iterator[list[SinkRecord]]:
        found: list[SinkRecord] = []
        held = 0
        for record in records:
            found.append(record)
            held += size_of(record)
            if len(found) == CHUNK or held >= self.config["flush.bytes"]:
                yield found
                found, held = [], 0
        if found:
            yield found

    def _write(self, book: Book, records: Sequence[SinkRecord]) -> None:
        begin = book.manifest.next
        fresh = [record for record in records if record.offset >= begin]
        if len(fresh) < len(records):
            check_repeated(book, records[: len(records) - len(fresh)])
        if fresh:
            files = [self._file(path, several) for path, several in self._divided(fresh).items()]
            book.add(files, fresh[-1].offset + 1, empty_file)

    def _divided(self, records: Iterable[SinkRecord]) -> dict[str, list[SinkRecord]]:
        """Files and what belongs into them."""
        found: dict[str, list[SinkRecord]] = {}
        open_files: dict[str, OpenFile] = {}
        for record in records:
            try:
                folder = self._folder(record)
            except RecordRefused as problem:
                self.refuse(record, problem)
                continue
            if record.value is None and self.config["behavior.on.null.values"] == "ignore":
                continue
            current = open_files.get(folder)
            if current is None or self._is_full(current, record):
                path = f"{folder}/{self._name(record)}"
                current = open_files[folder] = OpenFile(record.timestamp_ms)
                found[path] = current.records
            current.records.append(record)
        return found

    def _folder(self, record: SinkRecord) -> str:
        if record.value is None and self.config["behavior.on.null.values"] == "fail":
            raise RecordRefused(f"{record.source} at offset {record.offset} is a tombstone")
        if "/" in record.topic or record.topic in ("", ".", ".."):
            raise RecordRefused(f"{record.source} at offset {record.offset}: {record.topic!r} is no name for a folder")
        return f"{self.config['topics.dir']}/{record.topic}/{self._place(record)}"

    def _is_full(self, current: OpenFile, record: SinkRecord) -> bool:
        if len(current.records) >= self.config["flush.size"]:
            return True
        interval = self.config["rotate.interval.ms"]
        times = current.first_timestamp, record.timestamp_ms
        return bool(interval > 0 and None not in times and abs(times[1] - times[0]) >= interval)  # type: ignore[operator]

    def _name(self, record: SinkRecord) -> str:
        offset = str(record.offset).zfill(self.config["filename.offset.zero.pad.width"])
        parts = record.source.topic, str(record.partition), offset
        return str(self.config["file.delim"]).join(parts) + self._format.codecs[self._codec]

    def _file(self, path: str, records: Sequence[SinkRecord]) -> Fresh:
        table, kinds = table_of(records, plain=self._format.name == "json")
        content = self._format.write(table, self._codec)
        times = [record.timestamp_ms for record in records if record.timestamp_ms is not None]
        entry = Entry(
            path, self._format.name, records[0].offset, records[-1].offset, len(records), len(content),
            zlib.crc32(content), records[0].timestamp_ms, min(times, default=None), max(times, default=None),
            kinds["key"], kinds["value"],
        )  # fmt: skip
        return Fresh(entry, content)

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """What is archived stays archived; where to read from is the group's affair."""


@dataclass(slots=True)
class OpenFile:
    first_timestamp: int | None
    records: list[SinkRecord] = field(default_factory=list)


def size_of(record: SinkRecord) -> int:
    """About."""
    return sum(len(each) if isinstance(each, bytes | str) else 100 for each in (record.key, record.value))


def check_repeated(book: Book, records: Sequence[SinkRecord]) -> None:
    """Records that are there already are the ones that are there: else nothing may be left out."""
    times = {record.offset: record.timestamp_ms for record in records}
    for entry in book.entries(records[0].offset):
        if entry.first > records[-1].offset:
            continue
        if entry.first in times and times[entry.first] != entry.first_timestamp:
            raise TopicAnew(
                f"{records[0].source} has another record at offset {entry.first} than {entry.path}: the topic was "
                "deleted and made anew. Move its folder away, or archive to another topics.dir"
            )
