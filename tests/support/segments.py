"""Reads segment files from disk with a foreign parser (kafka-python's), so that our own code is not its own judge."""

from __future__ import annotations

import contextlib
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c
from kafka.record import MemoryRecords

LENGTH_AT = 8
LENGTH_END = 12
CRC_START = 21
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One batch as it lies in a segment file."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    codec: str
    log_append_time: bool
    max_timestamp: int
    producer_id: int
    crc_valid: bool
    values: tuple[bytes | None, ...]
    raw: bytes


def partition_folder(data: Path, topic: str, partition: int = 0) -> Path:
    return data / f"{topic}-{partition}"


def segment_files(folder: Path, suffix: str = ".log") -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


def stored_bytes(folder: Path) -> int:
    """Of all segments; one that is deleted at this moment counts no more."""
    total = 0
    for path in segment_files(folder):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def replace_logs(data: Path, source: Path, *topics: str) -> None:
    """Puts the records of another broker's topics in the place of a stopped broker's own, which then recovers them."""
    for topic in topics:
        for folder in source.glob(f"{topic}-*"):
            target = data / folder.name
            for path in target.glob("0*"):
                path.unlink()
            for path in segment_files(folder):
                shutil.copy(path, target)
    (data / ".kafka_cleanshutdown").unlink()
    (data / "recovery-point-offset-checkpoint").unlink()


def stored_batches(folder: Path) -> list[StoredBatch]:
    """Every batch of the partition in file order."""
    return [batch for path in segment_files(folder) for batch in map(_stored_batch, _frames(path.read_bytes()))]


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch of which only the frame and the checksum were looked at."""

    file: str
    base_offset: int
    last_offset: int
    crc_valid: bool


def checked_batches(folder: Path) -> Iterator[CheckedBatch]:
    """Every batch of the partition, its records unread: for logs that are too large for the foreign parser."""
    for path in segment_files(folder):
        for raw in _frames(path.read_bytes()):
            base_offset, _, _, _, crc, _, last_delta = struct.unpack_from(">qiibIhi", raw)
            yield CheckedBatch(path.name, base_offset, base_offset + last_delta, crc32c(raw[CRC_START:]) == crc)


def _frames(content: bytes) -> Iterator[bytes]:
    position = 0
    while position + LENGTH_END <= len(content):
        (length,) = struct.unpack_from(">i", content, position + LENGTH_AT)
        if length == 0:
            break  # the preallocated rest of a file is zeros
        raw = content[position : position + LENGTH_END + length]
        if len(raw) < LENGTH_END + length:
            raise AssertionError(f"the file ends in the middle of the batch at {position}")
        yield raw
        position += len(raw)
    if any(content[position:]):
        raise AssertionError(f"{len(content) - position} bytes after the last whole batch")


def _stored_batch(raw: bytes) -> StoredBatch:
    batch = MemoryRecords(raw).next_batch()
    crc_valid = batch.validate_crc()  # before the records are read: reading decompresses in place
    return StoredBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.leader_epoch,
        codec=CODEC_NAMES[batch.compression_type],
        log_append_time=batch.timestamp_type == 1,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        crc_valid=crc_valid,
        values=tuple(record.value for record in batch),
        raw=raw,
    )
