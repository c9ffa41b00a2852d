"""What stands before a registered value: Confluent's wire format.

    0x00, schema id (4 bytes, big-endian), [message indexes], payload
    0x01, schema GUID (16 bytes), [message indexes]                        in a header, before a bare payload

Protobuf has message indexes, which say which message of the file it is: zig-zag varints, their count first; the first
message alone, [0], is the single byte 0x00. Headers are called `__key_schema_id` and `__value_schema_id`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

PREFIX: Final = Struct(">bI")
BY_ID: Final = 0
BY_GUID: Final = 1
GUID_SIZE: Final = 17
MOST_INDEXES: Final = 100
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"


class FramingError(ValueError):
    """The bytes do not begin as a registered value does."""


class Framed(NamedTuple):
    schema: int | UUID
    """The id, or the GUID."""
    begins: int
    """Where what follows begins: the indexes of Protobuf, or the payload."""


def framed_by_id(schema_id: int, payload: bytes, indexes: tuple[int, ...] | None = None) -> bytes:
    return PREFIX.pack(BY_ID, schema_id) + (b"" if indexes is None else written_indexes(indexes)) + payload


def header_of(guid: UUID, indexes: tuple[int, ...] | None = None) -> bytes:
    return bytes([BY_GUID]) + guid.bytes + (b"" if indexes is None else written_indexes(indexes))


def read_frame(value: bytes) -> Framed:
    if len(value) >= PREFIX.size and value[0] == BY_ID:
        return Framed(PREFIX.unpack_from(value)[1], PREFIX.size)
    if len(value) >= GUID_SIZE and value[0] == BY_GUID:
        return Framed(UUID(bytes=bytes(value[1:GUID_SIZE])), GUID_SIZE)
    raise FramingError(f"no schema id before it: it begins with {bytes(value[:5]).hex() or 'nothing'}")


def head_of(value: bytes) -> bytes:
    """The part of a value that names its schema, whether it does so or not."""
    return value[: GUID_SIZE if value[:1] == bytes([BY_GUID]) else PREFIX.size]


def written_indexes(indexes: tuple[int, ...]) -> bytes:
    if indexes == (0,):
        return b"\0"
    return b"".join(varint(number) for number in (len(indexes), *indexes))


def read_indexes(value: bytes, begins: int) -> tuple[tuple[int, ...], int]:
    """The indexes, and where the payload begins."""
    count, at = read_varint(value, begins)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST_INDEXES:
        raise FramingError(f"{count} message indexes")
    found = []
    for _ in range(count):
        number, at = read_varint(value, at)
        found.append(number)
    return tuple(found), at


def varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def read_varint(value: bytes, at: int) -> tuple[int, int]:
    found = 0
    for shift in range(0, 70, 7):
        if at >= len(value):
            break
        byte = value[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
    raise FramingError("the message indexes are cut off")
