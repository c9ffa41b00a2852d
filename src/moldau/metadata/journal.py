"""The byte format of the embedded store's files, without I/O.

Both kinds of file are a sequence of frames (integers big-endian):

    frame      magic "MJf1" | payload length u32 | crc32 of length and payload u32 | payload

Journal `journal-<revision, 20 digits>`: the commits after that revision. A payload is one write: all commits that were
made durable by one fsync, so that a frame that is not whole was never acknowledged and no later frame can be whole.

    payload    first revision u64 | number of commits u32 | commits
    commit     number of changes u32 | changes
    change     1 | path length u16 | path | version u32 | created u64 | value length u32 | value      (put)
               0 | path length u16 | path                                                            (deleted)

Snapshot `snapshot-<revision, 20 digits>`: every durable entry at that revision, in frames of about 128 KB. The first
payload is the head; the entries follow as in a commit, each with the revision that last changed it.

    head       format version u16 | revision u64 | number of entries u32
    payload    number of entries u32 | entries
    entry      path length u16 | path | version u32 | created u64 | revision u64 | value length u32 | value
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from moldau.metadata.store import Change, CorruptStoreError, Revision, Versioned
from moldau.work.slices import Work, pauses

MAGIC = b"MJf1"
FORMAT_VERSION = 1
SNAPSHOT_FRAME_BYTES = 128 << 10

_FRAME = struct.Struct(">4sII")
_LENGTH = struct.Struct(">I")
_GROUP = struct.Struct(">QI")
_HEAD = struct.Struct(">HQI")
_CHANGE_HEAD = struct.Struct(">BH")
_PUT = struct.Struct(">IQI")
_PATH = struct.Struct(">H")
_ENTRY = struct.Struct(">IQQI")

FRAME_HEAD_BYTES = _FRAME.size

Commit: TypeAlias = Sequence[Change]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a journal file holds: its commits by revision, and where the whole frames end."""

    commits: list[tuple[Revision, list[Change]]]
    valid_bytes: int


def frame(payload: bytes) -> bytes:
    length = _LENGTH.pack(len(payload))
    return _FRAME.pack(MAGIC, len(payload), zlib.crc32(payload, zlib.crc32(length))) + payload


def encode_group(first_revision: Revision, commits: Sequence[Commit]) -> Work[bytes]:
    """One frame with all commits of one write."""
    paused = pauses()
    parts = [_GROUP.pack(first_revision, len(commits))]
    for changes in commits:
        parts.append(_LENGTH.pack(len(changes)))
        for change in changes:
            if next(paused):
                yield
            path = change.path.encode()
            entry = change.entry
            if entry is None:
                parts += (_CHANGE_HEAD.pack(0, len(path)), path)
            else:
                parts += (
                    _CHANGE_HEAD.pack(1, len(path)),
                    path,
                    _PUT.pack(entry.version, entry.created, len(entry.value)),
                    entry.value,
                )
    return frame(b"".join(parts))


def decode_group(payload: bytes) -> list[tuple[Revision, list[Change]]]:
    first, count = _GROUP.unpack_from(payload)
    position = _GROUP.size
    commits = []
    for revision in range(first, first + count):
        (size,) = _LENGTH.unpack_from(payload, position)
        position += _LENGTH.size
        changes = []
        for _ in range(size):
            kind, length = _CHANGE_HEAD.unpack_from(payload, position)
            position += _CHANGE_HEAD.size
            path = payload[position : position + length].decode()
            position += length
            if not kind:
                changes.append(Change(path, None))
                continue
            version, created, length = _PUT.unpack_from(payload, position)
            position += _PUT.size
            changes.append(Change(path, Versioned(payload[position : position + length], version, created, revision)))
            position += length
        commits.append((revision, changes))
    return commits


def encode_snapshot(revision: Revision, entries: Mapping[str, Versioned]) -> Iterator[bytes]:
    """The frames of a snapshot, one at a time."""
    yield frame(_HEAD.pack(FORMAT_VERSION, revision, len(entries)))
    parts: list[bytes] = []
    count = size = 0
    for path, entry in entries.items():
        name = path.encode()
        parts += (
            _PATH.pack(len(name)),
            name,
            _ENTRY.pack(entry.version, entry.created, entry.revision, len(entry.value)),
            entry.value,
        )
        count += 1
        size += len(name) + len(entry.value) + _ENTRY.size
        if size >= SNAPSHOT_FRAME_BYTES:
            yield frame(_LENGTH.pack(count) + b"".join(parts))
            parts = []
            count = size = 0
    if count:
        yield frame(_LENGTH.pack(count) + b"".join(parts))


def decode_snapshot(data: bytes, file: str) -> tuple[Revision, dict[str, Versioned]]:
    """Raises CorruptStoreError unless every frame is whole: a snapshot gets its name only when it is durable."""
    frames = iter(_whole_frames(data))
    head = next(frames, None)
    if head is None or len(head[1]) != _HEAD.size:
        raise CorruptStoreError(file, 0, "no valid head")
    version, revision, count = _HEAD.unpack(head[1])
    if version != FORMAT_VERSION:
        raise CorruptStoreError(
            file, FRAME_HEAD_BYTES, f"format version {version}, this release reads {FORMAT_VERSION}"
        )
    entries: dict[str, Versioned] = {}
    end = FRAME_HEAD_BYTES + _HEAD.size
    for position, payload in frames:
        entries.update(_decode_entries(payload))
        end = position + FRAME_HEAD_BYTES + len(payload)
    if len(entries) != count or end != len(data):
        raise CorruptStoreError(file, end, f"{len(entries)} of {count} entries are readable")
    return revision, entries


def replay(data: bytes, file: str, *, last: bool) -> Replayed:
    """Reads a journal file. A torn end is left out if this is the last file; any other damage is corruption."""
    commits: list[tuple[Revision, list[Change]]] = []
    end = 0
    for position, payload in _whole_frames(data):
        commits += decode_group(payload)
        end = position + FRAME_HEAD_BYTES + len(payload)
    if end < len(data):
        if not last:
            raise CorruptStoreError(file, end, "a frame is not whole, and later files follow")
        found = _next_whole_frame(data, end + 1)
        if found is not None:
            raise CorruptStoreError(file, end, f"a frame is not whole, but a whole one follows at byte {found}")
    return Replayed(commits, end)


def _decode_entries(payload: bytes) -> Iterable[tuple[str, Versioned]]:
    (count,) = _LENGTH.unpack_from(payload)
    position = _LENGTH.size
    for _ in range(count):
        (length,) = _PATH.unpack_from(payload, position)
        position += _PATH.size
        path = payload[position : position + length].decode()
        position += length
        version, created, revision, length = _ENTRY.unpack_from(payload, position)
        position += _ENTRY.size
        yield path, Versioned(payload[position : position + length], version, created, revision)
        position += length


def _frame_at(data: bytes, position: int) -> bytes | None:
    if len(data) - position < FRAME_HEAD_BYTES:
        return None
    magic, length, crc = _FRAME.unpack_from(data, position)
    begin = position + FRAME_HEAD_BYTES
    if magic != MAGIC or length > len(data) - begin:
        return None
    payload = data[begin : begin + length]
    return payload if zlib.crc32(payload, zlib.crc32(_LENGTH.pack(length))) == crc else None


def _whole_frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while (payload := _frame_at(data, position)) is not None:
        yield position, payload
        position += FRAME_HEAD_BYTES + len(payload)


def _next_whole_frame(data: bytes, position: int) -> int | None:
    while (position := data.find(MAGIC, position)) >= 0:
        if _frame_at(data, position) is not None:
            return position
        position += 1
    return None
