"""How a coordinator's record is framed: int16 kind + the fields of its key; int16 version + the fields of its value.

Messages of `moldau.wire.schema` describe the fields, as they do for requests. A null value is a tombstone.
"""

from __future__ import annotations

from struct import Struct as Packer
from typing import TypeVar

from moldau.coordinators.machine import StateRecord
from moldau.wire.codec import DecodeError, decode, encode
from moldau.wire.schema import Message

M = TypeVar("M", bound=Message)

INT16 = Packer(">h")
KEY_VERSION = 0


def encode_record(kind: int, key: Message, value: Message | None, version: int = 0) -> StateRecord:
    raw_value = None if value is None else INT16.pack(version) + encode(value, version)
    return StateRecord(INT16.pack(kind) + encode(key, KEY_VERSION), raw_value)


def kind_of(key: bytes) -> int:
    if len(key) < INT16.size:
        raise DecodeError("the key of a coordinator's record needs two bytes at least")
    (kind,) = INT16.unpack_from(key)
    return int(kind)


def decode_key(cls: type[M], key: bytes) -> M:
    return decode(cls, KEY_VERSION, key, INT16.size)[0]


def decode_value(cls: type[M], value: bytes | None) -> M | None:
    """None for a tombstone. Raises DecodeError for a version of a later release."""
    if value is None:
        return None
    (version,) = INT16.unpack_from(value)
    if not cls.FIRST_VERSION <= version <= cls.LAST_VERSION:
        raise DecodeError(f"{cls.__name__} of version {version}")
    return decode(cls, version, value, INT16.size)[0]
