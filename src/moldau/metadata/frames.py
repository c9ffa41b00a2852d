"""A commit as bytes, for stores that keep a log of commits, and the limit on its size that every store keeps.

Integers are big-endian.

    frame      magic "Mc" | form u8 = 1 | payload, compressed with zlib
    payload    writer u64 | number u64 | number of operations u32 | operations
    operation  kind u8 (1 put, 2 delete, 3 check) | path length u16 | path | expected version i64 (-2: any)
               and for a put: value length u32 | value

A writer is one session of a store; it numbers its commits from 1.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.metadata.store import (
    Check,
    Delete,
    InvalidOperationError,
    LaterReleaseError,
    Operation,
    Put,
    StoreError,
)
from moldau.work.slices import Work, pauses

MAGIC = b"Mc"
FORM = 1
MAX_FRAME_BYTES = 900_000
"""ZooKeeper refuses requests over 1 MB by closing the connection, again and again: we refuse before."""

MAX_PAYLOAD_BYTES = 256 << 20
COMPRESSION_LEVEL = 1
_CHUNK_BYTES = 64 << 10

_ANY_VERSION = -2
_PUT, _DELETE, _CHECK = 1, 2, 3
_HEAD = struct.Struct(">QQI")
_OPERATION = struct.Struct(">BH")
_VERSION = struct.Struct(">q")
_LENGTH = struct.Struct(">I")


class ForeignFrameError(StoreError):
    """Bytes that no store has written."""


class UnreadableFrameError(StoreError):
    """A frame that was damaged."""


@dataclass(frozen=True, slots=True)
class Commit:
    writer: int
    number: int
    operations: Sequence[Operation]


def encoding(commit: Commit) -> Work[bytes]:
    """Raises InvalidOperationError where the frame would be too large."""
    paused = pauses()
    packed = zlib.compressobj(COMPRESSION_LEVEL)
    frame = [MAGIC, bytes([FORM])]
    parts = [_HEAD.pack(commit.writer, commit.number, len(commit.operations))]
    size = 0
    for operation in commit.operations:
        if next(paused):
            yield
        path = operation.path.encode()
        expected = operation.expected_version
        kind = _PUT if type(operation) is Put else _DELETE if type(operation) is Delete else _CHECK
        parts += (
            _OPERATION.pack(kind, len(path)),
            path,
            _VERSION.pack(_ANY_VERSION if expected is None else expected),
        )
        if isinstance(operation, Put):
            parts += (_LENGTH.pack(len(operation.value)), operation.value)
            size += len(operation.value)
        size += len(path) + 16
        if size >= _CHUNK_BYTES:
            frame.append(packed.compress(b"".join(parts)))
            parts.clear()
            size = 0
            yield
    frame.append(packed.compress(b"".join(parts)))
    frame.append(packed.flush())
    whole = b"".join(frame)
    if len(whole) > MAX_FRAME_BYTES:
        raise InvalidOperationError(
            f"a commit of {len(commit.operations)} operations takes {len(whole)} bytes compressed, more than "
            f"{MAX_FRAME_BYTES}: make several of it"
        )
    return whole


def checking_size(operations: Sequence[Operation]) -> Work[None]:
    """Raises InvalidOperationError for a commit that does not fit into a frame; cheap for one that surely does."""
    size = sum(len(each.path) + 32 + (len(each.value) if isinstance(each, Put) else 0) for each in operations)
    if size > MAX_FRAME_BYTES:
        yield from encoding(Commit(0, 0, operations))


def decoding(frame: bytes) -> Work[Commit]:
    """Raises ForeignFrameError, UnreadableFrameError or LaterReleaseError."""
    if frame[: len(MAGIC)] != MAGIC or len(frame) <= len(MAGIC):
        raise ForeignFrameError(f"{len(frame)} bytes that are no commit")
    if frame[len(MAGIC)] != FORM:
        raise LaterReleaseError("a commit of the metadata", frame[len(MAGIC)], FORM)
    try:
        unpacked = zlib.decompressobj()
        payload = unpacked.decompress(frame[len(MAGIC) + 1 :], MAX_PAYLOAD_BYTES)
        if not unpacked.eof:
            raise UnreadableFrameError("a commit that is cut or too large")
        return (yield from _decoding_payload(payload))
    except (zlib.error, struct.error, UnicodeDecodeError, KeyError) as error:
        raise UnreadableFrameError(f"a commit that is damaged: {error}") from error


def _decoding_payload(payload: bytes) -> Work[Commit]:
    paused = pauses()
    writer, number, count = _HEAD.unpack_from(payload)
    position = _HEAD.size
    operations: list[Operation] = []
    for _ in range(count):
        if next(paused):
            yield
        kind, length = _OPERATION.unpack_from(payload, position)
        position += _OPERATION.size
        path = payload[position : position + length].decode()
        position += length
        (version,) = _VERSION.unpack_from(payload, position)
        position += _VERSION.size
        expected = None if version == _ANY_VERSION else version
        if kind == _PUT:
            (length,) = _LENGTH.unpack_from(payload, position)
            position += _LENGTH.size
            operations.append(Put(path, payload[position : position + length], expected))
            position += length
        elif kind == _DELETE:
            operations.append(Delete(path, expected))
        elif kind == _CHECK and expected is not None:
            operations.append(Check(path, expected))
        else:
            raise UnreadableFrameError(f"an operation of kind {kind}")
    if position != len(payload):
        raise UnreadableFrameError("a commit that is cut")
    return Commit(writer, number, operations)
