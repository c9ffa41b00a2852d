"""Topics to files and back without a worker: layouts, formats, crashes at every write, rivals, damage."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from moldau.config.definition import ConfigError
from moldau.connect.connectors import archive_manifest
from moldau.connect.connectors.archive_manifest import ArchiveDamaged, ArchiveTaken, Book
from moldau.connect.connectors.archive_paths import strftime_of
from moldau.connect.connectors.archive_sink import ArchiveSink, TopicAnew
from moldau.connect.connectors.archive_source import ArchiveSource
from moldau.connect.connectors.archive_stores import ArchiveAway, Bucket, Folder, Taken
from moldau.connect.connectors.s3_sink import S3Sink
from moldau.connect.connectors.s3_source import S3Source
from moldau.connect.definitions import ConfigRefused
from moldau.connect.interface import Connector, RecordRefused, SinkRecord, SourceRecord, StreamsChanged
from moldau.connect.plugins import find
from moldau.types.ids import TopicPartition
from tests.support.deaths import Deaths
from tests.support.s3 import s3_server, send, signatures_checked

PLACE = TopicPartition("t", 0)
NOON = 1_709_208_000_000
"""2024-02-29, 12:00 UTC."""
HOUR = 3_600_000
FORMATS = ("ParquetFormat", "OrcFormat", "JsonFormat")


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as url:
        send("PUT", f"{url}/archive")
        yield url


@pytest.fixture(params=["folder", "bucket"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    if request.param == "folder":
        return {"url": f"file://{tmp_path}/archive"}
    address: str = request.getfixturevalue("s3")
    return {**bucket(address), "topics.dir": tmp_path.name}


def bucket(address: str, name: str = "archive") -> dict[str, str]:
    keys = {"aws.access.key.id": "me", "aws.secret.access.key": "secret", "s3.part.retries": "0"}
    return {"s3.bucket.name": name, "store.url": address, "s3.region": "us-east-1", **keys}


def made(kind: type[Connector], config: dict[str, str]) -> Any:
    given = {"name": "archive", **config}
    return kind({**given, **kind.CONFIG.checked(given)})


def sink(where: dict[str, str], **more: str) -> ArchiveSink:
    config = {**where, **{name.replace("_", "."): value for name, value in more.items()}}
    found: ArchiveSink = made(S3Sink if "s3.bucket.name" in where else ArchiveSink, config)
    return found


def source(where: dict[str, str], **more: str) -> ArchiveSource:
    config = {**where, **{name.replace("_", "."): value for name, value in more.items()}}
    found: ArchiveSource = made(S3Source if "s3.bucket.name" in where else ArchiveSource, config)
    return found


def restored(reading: ArchiveSource, partition: int = 0) -> list[SourceRecord]:
    """As the worker does it, to the end."""
    stream = next(each for each in reading.streams() if each.partition["partition"] == partition)
    position, found = None, []
    while (end := reading.latest(stream, position)) != position:
        assert end is not None
        for each in reading.read(stream, position, end):
            found += rows(each) if isinstance(each, pa.RecordBatch) else [each]
        position = end
    return found


def rows(batch: pa.RecordBatch) -> list[SourceRecord]:
    return [
        SourceRecord(
            row["value"], row["key"], None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
            tuple((each["key"], each["value"]) for each in row["headers"]), None, row["partition"],
        )
        for row in batch.to_pylist()
    ]  # fmt: skip


def record(offset: int, value: Any = b"v", key: Any = b"k", at: int | None = NOON, partition: int = 0) -> SinkRecord:
    return SinkRecord("t", partition, offset, at, key, value, (("h", b"\xff"), ("h", None)))


def some(first: int, last: int) -> Iterator[SinkRecord]:
    return (record(offset, f"{offset}".encode(), at=NOON + offset) for offset in range(first, last))


def offsets_of(where: dict[str, str]) -> list[int]:
    return [int(each.value) for each in restored(source(where))]


# -- what goes in comes out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", FORMATS)
def test_records_come_back_as_they_were(where: dict[str, str], chosen: str) -> None:
    records = [
        record(0, b"\x00\xff", b"\xfe"),
        record(3, None, b"gone"),
        SinkRecord("t", 0, 4, None, None, b"", ()),
        SinkRecord("t", 0, 7, -5, b"", b"late", (("\u00e4", b""),)),
        record(2, b"other", None, partition=1),
    ]
    sink(where, format_class=chosen).write(iter(records))
    for partition in (0, 1):
        assert restored(source(where), partition) == [
            SourceRecord(each.value, each.key, each.timestamp_ms, tuple(each.headers), None, each.partition)
            for each in records
            if each.partition == partition
        ]


@pytest.mark.parametrize("chosen", FORMATS)
def test_typed_columns_come_back_typed(where: dict[str, str], chosen: str) -> None:
    stamp = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    value = {"id": 1, "name": "a", "price": Decimal("1.50"), "at": stamp, "tags": ["x"], "in": {"b": b"\xff"}}
    writing = sink(where, format_class=chosen)
    writing.write(iter([record(0, value, {"id": 1}), record(1, None, {"id": 2})]))
    writing.write(iter([record(2, {**value, "id": 2, "name": None, "more": True}, {"id": 3})]))
    reading = source(where)
    (stream,) = reading.streams()
    found = restored(reading)
    assert [each.key for each in found] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert found[1].value is None
    if chosen == "JsonFormat":
        value |= {"price": "1.50", "at": stamp.isoformat(), "in": {"b": "/w=="}}
    assert found[0].value == value
    assert found[2].value == {**value, "id": 2, "name": None, "more": True}
    times, bytes_kind, price = "timestamp", "binary", "decimal(38,2)"
    if chosen == "JsonFormat":
        times = bytes_kind = price = "string"
    assert stream.value == (
        f"struct<`id`: bigint, `name`: string, `price`: {price}, `at`: {times}, `tags`: array<string>, "
        f"`in`: struct<`b`: {bytes_kind}>, `more`: boolean>"
    )
    assert stream.key == "struct<`id`: bigint>"


def test_fields_and_partitions_that_are_archived_later_are_noticed(where: dict[str, str]) -> None:
    """The type of a stream is one; what it does not have would be left out silently."""
    writing = sink(where)
    writing.write(iter([record(0, {"a": 1}, {"id": 1})]))
    reading = source(where)
    (stream,) = reading.streams()
    position = reading.latest(stream, None)
    assert position == {"offset": 1}
    writing.write(iter([record(1, {"a": 2}, {"id": 1})]))
    assert reading.latest(stream, position) == {"offset": 2}
    writing.write(iter([record(2, {"a": 3, "b": "new"}, {"id": 1})]))
    for each in (reading, source(where)):
        with pytest.raises(StreamsChanged, match="t-0 has records of another type"):
            each.latest(stream, position)
    (wider,) = reading.streams()
    assert reading.latest(wider, position) == {"offset": 3}
    reading.committed([(wider, position)])
    writing.write(iter([record(0, {"a": 4}, {"id": 1}, partition=1)]))
    with pytest.raises(StreamsChanged, match="other topics or partitions"):
        reading.committed([(wider, position)])


def test_a_range_of_time_is_restored(where: dict[str, str]) -> None:
    sink(where, flush_size="3").write(some(0, 10))
    chosen = source(where, timestamp_from=str(NOON + 4), timestamp_to="2024-02-29T12:00:00.008Z", batch_records="1")
    assert [each.value for each in restored(chosen)] == [b"4", b"5", b"6", b"7"]


def test_a_position_may_lie_within_a_file(where: dict[str, str]) -> None:
    sink(where).write(some(0, 10))
    reading = source(where)
    (stream,) = reading.streams()
    batches = list(reading.read(stream, {"offset": 6}, {"offset": 8}))
    assert [row.value for batch in batches for row in rows(batch)] == [b"6", b"7"]


# -- where files lie -------------------------------------------------------------------------------------------------


def files(tmp_path: Path) -> list[str]:
    root = tmp_path / "archive" / "topics" / "t"
    return sorted(str(each.relative_to(root)) for each in root.rglob("*+*") if each.suffix != ".lock")


def test_files_have_confluents_names_and_end_with_their_number(tmp_path: Path) -> None:
    sink({"url": str(tmp_path / "archive")}, flush_size="2").write(some(10, 15))
    assert files(tmp_path) == [f"partition=0/t+0+00000000{first}.snappy.parquet" for first in (10, 12, 14)]


def test_files_lie_by_time_and_records_keep_their_order(tmp_path: Path) -> None:
    where = {"url": str(tmp_path / "archive")}
    times = [0, HOUR, 5, HOUR + 5, 12 * HOUR]
    mixed = [record(offset, b"%d" % offset, at=NOON + at) for offset, at in enumerate(times)]
    sink(where, partitioner_class="HourlyPartitioner", timezone="Europe/Prague", format_class="json").write(iter(mixed))
    day = "year=2024/month=02/day=29"
    assert files(tmp_path) == [
        f"{day}/hour=13/t+0+0000000000.json",
        f"{day}/hour=14/t+0+0000000001.json",
        "year=2024/month=03/day=01/hour=01/t+0+0000000004.json",
    ]
    assert offsets_of(where) == [0, 1, 2, 3, 4]


def test_files_end_with_an_interval_and_lie_by_a_field(tmp_path: Path) -> None:
    where = {"url": str(tmp_path / "archive")}
    values = [{"country": "cz"}, {"country": "a/b"}, {"country": "cz"}]
    typed = [record(offset, value, at=NOON + offset * 1000) for offset, value in enumerate(values)]
    more = {"partition_field_name": "country", "rotate_interval_ms": "2000"}
    sink(where, partitioner_class="FieldPartitioner", **more).write(iter(typed))
    assert files(tmp_path) == [
        "country=a%2Fb/t+0+0000000001.snappy.parquet",
        "country=cz/t+0+0000000000.snappy.parquet",
        "country=cz/t+0+0000000002.snappy.parquet",
    ]


def test_patterns_of_folders() -> None:
    assert strftime_of("'dt'=YYYY-MM-dd/HH'h'mm") == "dt=%Y-%m-%d/%Hh%M"
    with pytest.raises(ConfigError, match="q is none of"):
        strftime_of("YYYY/qq")


def test_old_files_move_into_pages(where: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_manifest, "PAGE", 3)
    for first in range(0, 20, 2):
        sink(where, flush_size="1").write(some(first, first + 2))
    assert offsets_of(where) == list(range(20))


# -- crashes ---------------------------------------------------------------------------------------------------------


class Died(Exception):
    """In the place of a kill."""


def dying(monkeypatch: pytest.MonkeyPatch, where: dict[str, str], moment: int, *, after: bool) -> None:
    """Dies at the n-th object that is written, before it is or when it is, but nobody learns."""
    kind, name = (Bucket, "_put") if "s3.bucket.name" in where else (Folder, "_write")
    write: Callable[..., str] = getattr(kind, name)
    steps = 0

    def step(*given: Any) -> str:
        nonlocal steps
        steps += 1
        if steps == moment and not after:
            raise Died
        tag = write(*given)
        if steps == moment:
            raise Died
        return tag

    monkeypatch.setattr(kind, name, step if kind is Bucket else staticmethod(step))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("moment", range(1, 7))
def test_a_crash_at_any_moment_neither_loses_nor_doubles(
    where: dict[str, str], moment: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch that is cut otherwise than before comes with another division into files."""
    hourly = {"partitioner_class": "HourlyPartitioner", "flush_size": "2"}

    def records(first: int, last: int) -> Iterator[SinkRecord]:
        return (record(offset, b"%d" % offset, at=NOON + offset % 2 * HOUR) for offset in range(first, last))

    sink(where, **hourly).write(records(0, 3))
    with monkeypatch.context() as patched:
        dying(patched, where, moment, after=after)
        with pytest.raises(Died):
            sink(where, **hourly).write(records(3, 11))
    for first, last in ((3, 5), (4, 8), (8, 12)):
        sink(where, **hourly).write(records(first, last))
    assert offsets_of(where) == list(range(12))
    assert sorted(in_all_files(where)) == list(range(12))


def test_twenty_deaths_in_a_row_neither_lose_nor_double(where: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    deaths = Deaths(most=14)
    monkeypatch.setattr(Bucket, "_put", deaths.around(Bucket._put))
    monkeypatch.setattr(Folder, "_write", staticmethod(deaths.around(Folder._write)))
    end = deaths.survived(lambda first, last: sink(where, flush_size="2").write(some(first, last)))
    assert offsets_of(where) == list(range(end))
    assert sorted(in_all_files(where)) == list(range(end))


def in_all_files(where: dict[str, str]) -> list[int]:
    """What somebody reads who does not know of manifests."""
    store = sink(where).made_store()
    found: list[int] = []

    def walk(path: str) -> None:
        for name in store.names(path):
            if name.startswith(("_", ".")):
                continue
            if name.endswith(".parquet"):
                blob = store.read(f"{path}/{name}")
                assert blob is not None
                found.extend(pa.parquet.read_table(pa.BufferReader(blob.content)).column("offset").to_pylist())
            else:
                walk(f"{path}/{name}")

    walk(f"{where.get('topics.dir', 'topics')}/t")
    return found


def test_of_two_writers_the_one_who_saw_the_past_is_refused(where: dict[str, str]) -> None:
    writing = sink(where)
    writing.write(some(0, 2))
    folder = where.get("topics.dir", "topics")
    late = Book(writing.made_store(), folder, PLACE)
    writing.write(some(2, 5))
    with pytest.raises(ArchiveTaken, match="another worker"):
        writing._write(late, list(some(2, 4)))
    assert offsets_of(where) == list(range(5))


def test_a_writer_that_stalls_within_its_batch_writes_over_nothing(
    where: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has said what it will write; another finishes that first; then it wakes up."""
    stalled = sink(where)
    original = Book._write

    def stall(self: Book, path: str, content: bytes, *, known: bool) -> None:
        monkeypatch.setattr(Book, "_write", original)
        sink(where).write(some(0, 6))
        original(self, path, content, known=known)

    monkeypatch.setattr(Book, "_write", stall)
    # A folder's lock would make the other one wait.
    monkeypatch.setattr(Folder, "locked", Bucket.locked)
    with pytest.raises(ArchiveTaken):
        stalled.write(some(0, 4))
    assert offsets_of(where) == list(range(6))


def test_records_that_come_again_are_left_out(where: dict[str, str]) -> None:
    sink(where).write(some(0, 4))
    sink(where).write(some(2, 6))
    sink(where).alter({PLACE: None})
    sink(where).write(some(0, 7))
    assert offsets_of(where) == list(range(7))


# -- what is wrong ---------------------------------------------------------------------------------------------------


def test_a_topic_that_was_made_anew_is_not_taken_for_the_old_one(where: dict[str, str]) -> None:
    sink(where).write(some(0, 4))
    with pytest.raises(TopicAnew, match="made anew"):
        sink(where).write(iter([record(0, b"new", at=NOON + HOUR)]))


def test_a_lost_manifest_does_not_cost_the_files(tmp_path: Path) -> None:
    where = {"url": str(tmp_path)}
    sink(where).write(some(0, 4))
    manifest = tmp_path / "topics/t/_manifest/partition=0.json"
    kept = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(ArchiveTaken, match="the manifest was lost"):
        sink(where).write(some(0, 2))
    manifest.write_bytes(kept)
    assert offsets_of(where) == list(range(4))


def test_damage_is_told(tmp_path: Path) -> None:
    where = {"url": str(tmp_path)}
    sink(where).write(some(0, 4))
    (path,) = tmp_path.rglob("*.parquet")
    content = path.read_bytes()
    path.write_bytes(content[:50] + b"?" + content[51:])
    with pytest.raises(ArchiveDamaged, match="length or checksum"):
        offsets_of(where)
    path.unlink()
    with pytest.raises(ArchiveDamaged, match="is missing"):
        offsets_of(where)
    manifest = tmp_path / "topics/t/_manifest/partition=0.json"
    for content in (b"{", b'{"format": 1}', b"[]"):
        manifest.write_bytes(content)
        with pytest.raises(ArchiveDamaged, match="is no manifest"):
            sink(where).write(some(4, 5))
    manifest.write_bytes(json.dumps({"format": 9}).encode())
    with pytest.raises(ArchiveDamaged, match="later Moldau"):
        sink(where).write(some(4, 5))


def test_a_bucket_that_cannot_be_used_is_told(s3: str) -> None:
    with pytest.raises(ArchiveAway, match=r"s3://nix cannot be used .*NoSuchBucket"):
        sink(bucket(s3, "nix")).write(some(0, 1))
    with signatures_checked(s3), pytest.raises(ArchiveAway, match="403 Forbidden"):
        sink(bucket(s3)).write(some(0, 1))
    with pytest.raises(ArchiveAway, match="error sending request"):
        sink(bucket("http://127.0.0.1:1")).write(some(0, 1))


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"url": str(tmp_path)}
    sink(where).write(some(0, 4))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            sink(where).write(some(4, 8))
    sink(where).write(some(4, 8))
    assert offsets_of(where) == list(range(8))


def test_an_archive_that_is_not_there_is_told(where: dict[str, str]) -> None:
    with pytest.raises(FileNotFoundError, match="has no archive of orders"):
        source(where, archive_topics="orders").streams()


def test_records_without_a_place_are_refused_and_tombstones_as_asked(where: dict[str, str]) -> None:
    with pytest.raises(RecordRefused, match="has no timestamp"):
        sink(where, partitioner_class="DailyPartitioner").write(iter([record(0, at=None)]))
    with pytest.raises(RecordRefused, match="is a tombstone"):
        sink(where, behavior_on_null_values="fail").write(iter([record(0, None)]))
    sink(where, behavior_on_null_values="ignore").write(iter([record(0, None), record(1, b"1"), record(2, None)]))
    assert offsets_of(where) == [1]
    with pytest.raises(RecordRefused, match="no name for a folder"):
        sink(where).write(iter([record(5)._replace(topic="..", source_topic="t")]))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}, "JsonFormat is expected"),
        ({"partitioner.class": "com.acme.Mine"}, "String must be one of"),
        ({"timestamp.extractor": "Wallclock"}, "String must be one of"),
        ({"timezone": "Mars"}, "no time zone"),
        ({"partitioner.class": "TimeBasedPartitioner"}, "needs path.format"),
        ({"partitioner.class": "FieldPartitioner"}, "needs partition.field.name"),
        ({"orc.codec": "brotli", "format.class": "OrcFormat"}, "is none of none, zstd"),
        ({"flush.size": "0"}, "at least 1"),
    ],
)
def test_settings_that_are_wrong_are_refused(config: dict[str, str], problem: str) -> None:
    with pytest.raises((ConfigRefused, ValueError), match=problem):
        made(ArchiveSink, {"url": "/tmp/x", **config})


def test_a_configuration_of_confluents_is_understood(s3: str) -> None:
    config = {
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        **bucket(s3),
        "topics.dir": "confluent",
        "s3.part.size": "5242880",
        "flush.size": "3",
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "s3.compression.type": "gzip",
        "schema.compatibility": "NONE",
        "partitioner.class": "io.confluent.connect.storage.partitioner.TimeBasedPartitioner",
        "path.format": "'year'=YYYY/'month'=MM",
        "partition.duration.ms": "86400000",
        "locale": "en-US",
        "timezone": "UTC",
        "timestamp.extractor": "Record",
    }
    found = made(find(config["connector.class"]), config)
    found.write(some(0, 4))
    names = found.made_store().names("confluent/t/year=2024/month=02")
    assert names == ["t+0+0000000000.json.gz", "t+0+0000000003.json.gz"]


def test_a_store_refuses_what_was_not_seen(where: dict[str, str]) -> None:
    store = sink(where).made_store()
    path = f"{where.get('topics.dir', 'topics')}/x"
    tag = store.create(path, b"1")
    assert store.tag(path) == tag
    with pytest.raises(Taken):
        store.create(path, b"2")
    newer = store.replace(path, b"3", tag)
    assert newer != tag
    with pytest.raises(Taken):
        store.replace(path, b"4", tag)
    blob = store.read(path)
    assert blob is not None and blob.content == b"3"
    assert store.read(f"{path}y") is None and store.tag(f"{path}y") is None
    assert store.names(f"{path}y") == []
