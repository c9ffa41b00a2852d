"""Kafka's variable-length primitives, read from a buffer at a position and written to a list of pieces.

Layout: a legacy string is int16 length + UTF-8, a compact one uvarint(length + 1) + UTF-8, null is -1 or 0; bytes use
int32 instead of int16; an array is int32 or uvarint(count + 1). Tagged fields are uvarint count, then (tag, size,
bytes) each. Every reader checks bounds and raises DecodeError: a slice past the end would silently come out short.

As in Apache Kafka, whose variable-length integers have 32 bits with a sign, any negative length is read as null, and
what is not UTF-8 in a string is replaced (U+FFFD). A compact string is no longer than a legacy one could be.
"""

from __future__ import annotations

from struct import Struct as Packer
from uuid import UUID

from moldau.wire.schema import ZERO_UUID, Buffer

INT16 = Packer(">h")
LONGEST_STRING_BYTES = 0x7FFF
INT32 = Packer(">i")
MAX_UVARINT_BYTES = 5
_32_BITS = 0xFFFFFFFF
_SIGN_BIT = 0x80000000


class DecodeError(ValueError):
    """The bytes are not a message of the promised kind and version."""


class EncodeError(ValueError):
    """The message cannot be written at this version."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    value = shift = 0
    for _ in range(MAX_UVARINT_BYTES):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _32_BITS, position
        shift += 7
    raise DecodeError("variable-length integer is too long")


def compact_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """A length or count that is written plus one; negative for null."""
    value, position = read_uvarint(buffer, position)
    return (-1 if value > _SIGN_BIT else value - 1), position


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
    return str(raw, "utf-8", "replace"), end


def read_string(buffer: Buffer, position: int, what: str) -> tuple[str | None, int]:
    (size,) = INT16.unpack_from(buffer, position)
    position += 2
    return (None, position) if size < 0 else text(buffer, position, size, what)


def read_compact_string(buffer: Buffer, position: int, what: str) -> tuple[str | None, int]:
    first = buffer[position]
    if first == 1:
        return "", position + 1
    if 0 < first < 0x80:  # most strings are short: without a call for each step
        end = position + first
        if end <= len(buffer):
            return str(buffer[position + 1 : end], "utf-8", "replace"), end
    size, position = compact_length(buffer, position)
    if size > LONGEST_STRING_BYTES:
        raise DecodeError(f"{what}: a string of {size} bytes is too long")
    return (None, position) if size < 0 else text(buffer, position, size, what)


def read_bytes(buffer: Buffer, position: int, what: str) -> tuple[Buffer | None, int]:
    (size,) = INT32.unpack_from(buffer, position)
    position += 4
    return (None, position) if size < 0 else take(buffer, position, size, what)


def read_compact_bytes(buffer: Buffer, position: int, what: str) -> tuple[Buffer | None, int]:
    size, position = compact_length(buffer, position)
    return (None, position) if size < 0 else take(buffer, position, size, what)


def read_count(buffer: Buffer, position: int, what: str) -> tuple[int, int]:
    (count,) = INT32.unpack_from(buffer, position)
    return checked_count(count, buffer, position + 4, what)


def read_compact_count(buffer: Buffer, position: int, what: str) -> tuple[int, int]:
    count, position = compact_length(buffer, position)
    return checked_count(count, buffer, position, what)


def checked_count(count: int, buffer: Buffer, position: int, what: str) -> tuple[int, int]:
    if count > len(buffer) - position:
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


# What writes is called by names that `codec` puts together: `compact_` and a kind of field.


def string(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    raw = value.encode()
    if len(raw) > LONGEST_STRING_BYTES:
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
