"""Kafka's producer snapshots: the state of all producers up to an offset, in `<offset>.snapshot`. Big-endian:

int16   version = 1
uint32  CRC-32C of everything after this field
int32   number of entries, then per producer:
  int64   producer id
  int16   producer epoch
  int32   last sequence
  int64   last offset
  int32   last offset - first offset of its last batch
  int64   timestamp
  int32   epoch of the transaction coordinator
  int64   first offset of its open transaction, -1 if none
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from struct import Struct
from typing import TYPE_CHECKING

from moldau.kernels import crc32c
from moldau.storage.files import FileSystem, read_file, remove_if_exists, write_file
from moldau.storage.layout import SNAPSHOT_SUFFIX, offset_name, offsets_with_suffix
from moldau.storage.producer_state import BatchMark, ProducerEntry

if TYPE_CHECKING:
    from moldau.storage.producer_state import ProducerStates

_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1


class CorruptSnapshotError(Exception):
    pass


def encode_snapshot(entries: Iterable[tuple[int, ProducerEntry]]) -> bytes:
    packed = [_encode_entry(producer_id, entry) for producer_id, entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def _encode_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    offset_delta = entry.batches[-1].offset_delta if entry.batches else 0
    return _ENTRY.pack(
        producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_offset,
        offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )


def decode_snapshot(data: bytes) -> list[tuple[int, ProducerEntry]]:
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshotError(f"{len(data)} bytes are too few")
    version, checksum = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshotError(f"unknown version {version}")
    if crc32c(memoryview(data)[_HEAD.size :]) != checksum:
        raise CorruptSnapshotError("the checksum does not fit")
    (count,) = _COUNT.unpack_from(data, _HEAD.size)
    body = memoryview(data)[_HEAD.size + _COUNT.size :]
    if len(body) != count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} entries do not make {len(body)} bytes")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(body)]


def _decode_entry(fields: tuple[int, ...]) -> tuple[int, ProducerEntry]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = fields
    batches = (BatchMark(last_sequence, last_offset, delta, timestamp),) if last_offset >= 0 else ()
    return producer_id, ProducerEntry(epoch, coordinator_epoch, timestamp, txn_first_offset, batches)


class SnapshotFiles:
    """The snapshots in a partition's folder."""

    __slots__ = ("_files", "folder", "offsets")

    def __init__(self, files: FileSystem, folder: str, names: list[str]) -> None:
        self._files = files
        self.folder = folder
        self.offsets = offsets_with_suffix(names, SNAPSHOT_SUFFIX)

    def path(self, offset: int) -> str:
        return f"{self.folder}/{offset_name(offset, SNAPSHOT_SUFFIX)}"

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def take(self, producers: ProducerStates) -> str | None:
        """Write the state down unless that offset has a snapshot already. Returns the file, not yet synced."""
        offset = producers.end_offset
        if self.offsets and offset <= self.offsets[-1]:
            return None
        path = self.path(offset)
        write_file(self._files, path, encode_snapshot(producers.items()), sync=False)
        self.offsets.append(offset)
        return path

    def load_latest(self, producers: ProducerStates, log_start_offset: int, now_ms: int) -> None:
        """Put the newest readable snapshot into the state; unreadable ones are removed."""
        while self.offsets:
            offset = self.offsets[-1]
            try:
                producers.load(decode_snapshot(read_file(self._files, self.path(offset))), offset, now_ms)
            except (CorruptSnapshotError, FileNotFoundError):
                self._remove(offset)
            else:
                return
        producers.clear(log_start_offset)

    def remove_outside(self, log_start_offset: int, log_end_offset: int) -> None:
        for offset in list(self.offsets):
            if offset > log_end_offset or offset <= log_start_offset:
                self._remove(offset)

    def remove_strays(self, segment_bases: Collection[int]) -> None:
        """Keep the snapshots that belong to segments, and one behind the last segment: that of a clean shutdown."""
        last_base = max(segment_bases, default=-1)
        strays = [offset for offset in self.offsets if offset not in segment_bases]
        keep = strays[-1] if strays and strays[-1] >= last_base else None
        for offset in strays:
            if offset != keep:
                self._remove(offset)

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self._remove(offset)

    def remove_all(self) -> None:
        for offset in list(self.offsets):
            self._remove(offset)

    def _remove(self, offset: int) -> None:
        self.offsets.remove(offset)
        remove_if_exists(self._files, self.path(offset))
