"""Kafka's variable-length primitives, read from a buffer at a position and written to a list of pieces.

Layout: a legacy string is int16 length + UTF-8, a compact one uvarint(length + 1) + UTF-8, null is -1 or 0; bytes use
int32 instead of int16; an array is int32 or uvarint(count + 1). Tagged fields are uvarint count, then (tag, size,
bytes) each. Every reader checks bounds and raises DecodeError: a slice past the end would silently come out short.
"""

from __future__ import annotations

from struct import Struct as Packer
from uuid import UUID

from moldau.wire.schema import ZERO_UUID, Buffer

INT16 = Packer(">h")
INT32 = Packer(">i")
MAX_UVARINT_BYTES = 5


class DecodeError(ValueError):
    """The bytes are not a message of the promised kind and version."""


class EncodeError(ValueError):
    """The message cannot be written at this version."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = shift = 0
    for _ in range(MAX_UVARINT_BYTES):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise DecodeError("variable-length integer is too long")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def take(buffer: Buffer, position: int, size: int, what: str) -> tuple[Buffer, int]:
    end = position + size
    if size < 0 or end > len(buffer):
        raise DecodeError(f"{what}: {size} bytes announced, {len(buffer) - position} left")
    return buffer[position:end], end


def text(buffer: Buffer, position: int, size: int, what: str) -> tuple[str, int]:
    raw, end = take(buffer, position, size, what)
    try:
        return str(raw, "utf-8"), end
    except UnicodeDecodeError as error:
        raise DecodeError(f"{what}: not UTF-8") from error


def read_string(buffer: Buffer, position: int, what: str) -> tuple[str | None, int]:
    (size,) = INT16.unpack_from(buffer, position)
    position += 2
    return (None, position) if size == -1 else text(buffer, position, size, what)


def read_compact_string(buffer: Buffer, position: int, what: str) -> tuple[str | None, int]:
    size, position = read_uvarint(buffer, position)
    return (None, position) if size == 0 else text(buffer, position, size - 1, what)


def read_bytes(buffer: Buffer, position: int, what: str) -> tuple[Buffer | None, int]:
    (size,) = INT32.unpack_from(buffer, position)
    position += 4
    return (None, position) if size == -1 else take(buffer, position, size, what)


def read_compact_bytes(buffer: Buffer, position: int, what: str) -> tuple[Buffer | None, int]:
    size, position = read_uvarint(buffer, position)
    return (None, position) if size == 0 else take(buffer, position, size - 1, what)


def read_count(buffer: Buffer, position: int, what: str) -> tuple[int, int]:
    (count,) = INT32.unpack_from(buffer, position)
    return checked_count(count, buffer, position + 4, what)


def read_compact_count(buffer: Buffer, position: int, what: str) -> tuple[int, int]:
    count, position = read_uvarint(buffer, position)
    return checked_count(count - 1, buffer, position, what)


def checked_count(count: int, buffer: Buffer, position: int, what: str) -> tuple[int, int]:
    if count < -1 or count > len(buffer) - position:
        raise DecodeError(f"{what}: {count} elements announced, {len(buffer) - position} bytes left")
    return count, position


def read_uuid(buffer: Buffer, position: int, what: str) -> tuple[UUID, int]:
    raw, end = take(buffer, position, 16, what)
    value = bytes(raw)
    return (ZERO_UUID if value == ZERO_UUID.bytes else UUID(bytes=value)), end


def skip_tagged(buffer: Buffer, position: int) -> int:
    count, position = read_uvarint(buffer, position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        _, position = take(buffer, position, size, "tagged field")
    return position


def string(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    raw = value.encode()
    if len(raw) > 0x7FFF:
        raise EncodeError(f"string of {len(raw)} bytes is too long")
    return INT16.pack(len(raw)) + raw


def compact_string(value: str | None) -> bytes:
    if value is None:
        return b"\x00"
    raw = value.encode()
    return uvarint(len(raw) + 1) + raw


def data(value: Buffer | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else INT32.pack(len(value)) + bytes(value)


def compact_data(value: Buffer | None) -> bytes:
    return b"\x00" if value is None else uvarint(len(value) + 1) + bytes(value)


def count(value: int) -> bytes:
    return INT32.pack(value)


def compact_count(value: int) -> bytes:
    return uvarint(value + 1)
