"""Partition logs for tests: settings by name, batches by value, and a plain way to put in and get out."""

from collections.abc import Callable, Iterable

from moldau.config.broker import BrokerConfig
from moldau.config.topic import TopicConfig
from moldau.kernels import check_batch
from moldau.storage import opening
from moldau.storage.batch_info import BatchInfo, Origin
from moldau.storage.compaction.swap import announce
from moldau.storage.files import FileSystem, OsFiles
from moldau.storage.log import PartitionLog
from moldau.storage.segment import Segment
from moldau.types.ids import TopicPartition
from moldau.wire.records import Record, build_batch, iter_batches, iter_records

NOW = 1_700_000_000_000
TOPIC_PARTITION = TopicPartition("events", 0)
DAY_MS = 86_400_000

_BROKER = BrokerConfig.load({"log.dirs": "/nowhere"})


def settings(**values: object) -> TopicConfig:
    """Topic settings by their names with underscores; `segment_bytes` may be as small as a test likes."""
    named = {
        name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }
    if "segment.bytes" in named:
        named["internal.segment.bytes"] = named.pop("segment.bytes")
    return TopicConfig.resolve(named, _BROKER)


def open_log(
    directory: str,
    *,
    files: FileSystem | None = None,
    config: TopicConfig | None = None,
    clean_shutdown: bool = False,
    now: Callable[[], int] = lambda: NOW,
    **options: object,
) -> PartitionLog:
    return opening.open_log(
        files or OsFiles(),
        directory,
        TOPIC_PARTITION,
        config or settings(),
        clean_shutdown=clean_shutdown,
        wall_ms=now,
        producer_expiry_ms=DAY_MS,
        **options,  # type: ignore[arg-type]
    )


def replace_segments(log: PartitionLog, files: FileSystem, new: list[Segment], old: list[Segment]) -> None:
    """The steps of a compaction's end, with the folder synced after each."""
    for segment in new:
        announce(files, log.folder, segment)
    log.swap_in_segments(new, old)
    files.sync_directory(log.folder)
    log.finish_swap(new)
    files.sync_directory(log.folder)


def batch(*values: bytes, timestamp: int = NOW, **options: object) -> bytearray:
    """A batch of these values as a producer sends it."""
    records = [Record(key=b"key", value=value, timestamp=timestamp) for value in values or (b"value",)]
    return bytearray(build_batch(records, **options))  # type: ignore[arg-type]


def info_of(data: bytearray | bytes) -> BatchInfo:
    return BatchInfo._make(check_batch(data, 0, len(data)))


def stage(log: PartitionLog, data: bytearray, *, epoch: int = 0, origin: Origin = Origin.CLIENT) -> int:
    return log.stage(data, info_of(data), epoch, origin)


def append(log: PartitionLog, *values: bytes, epoch: int = 0, origin: Origin = Origin.CLIENT, **options: object) -> int:
    base_offset = stage(log, batch(*values, **options), epoch=epoch, origin=origin)  # type: ignore[arg-type]
    log.commit()
    return base_offset


def read_bytes(log: PartitionLog, offset: int, *, max_bytes: int = 1 << 20, max_offset: int | None = None) -> bytes:
    """What one fetch from an offset gets."""
    part = log.read(offset, max_bytes, log.log_end_offset if max_offset is None else max_offset)
    data = log._files.pread(part.file.fileno, part.length, part.position) if part.length else b""
    assert len(data) == part.length
    return data


def records_from(log: PartitionLog, offset: int, *, max_bytes: int = 1 << 20) -> Iterable[Record]:
    """All records from an offset to the end of the log, fetched piece by piece as a consumer does."""
    while offset < log.log_end_offset:
        data = read_bytes(log, offset, max_bytes=max_bytes)
        if not data:
            return
        for found in iter_batches(data):
            yield from (record for record in iter_records(found) if record.offset >= offset)
            next_offset = found.header.next_offset
        assert next_offset > offset
        offset = next_offset


def values_from(log: PartitionLog, offset: int = 0, **options: int) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in records_from(log, offset, **options)]
