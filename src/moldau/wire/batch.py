"""The head of a record batch, format v2 (magic 2), and its attribute bits.

    offset  type    field                      offset  type   field
         0  int64   base offset                    27  int64  base timestamp (or the delete horizon, bit 6)
         8  int32   length of all that follows     35  int64  max timestamp
        12  int32   partition leader epoch         43  int64  producer id
        16  int8    magic = 2                      51  int16  producer epoch
        17  uint32  CRC-32C of all that follows    53  int32  base sequence
        21  int16   attributes                     57  int32  count of records
        23  int32   last offset delta              61         records, compressed as a whole if bits 0-2 say so

    attributes: bits 0-2 codec, 3 timestamp type (1: log append time), 4 transactional, 5 control, 6 has delete horizon

The CRC leaves out base offset and leader epoch, so that a broker may set both without computing it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from moldau.kernels import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

BASE_OFFSET_AT: Final = 0
LENGTH_AT: Final = 8
LOG_OVERHEAD: Final = 12
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
HEADER_SIZE: Final = 61
MAGIC_V2: Final = 2

HEADER: Final = Struct(">qiibIhiqqqhii")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
UINT32: Final = Struct(">I")
INT64: Final = Struct(">q")

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

MAX_SEQUENCE: Final = 0x7FFFFFFF


class CorruptBatchError(ValueError):
    """Bytes that should be a record batch are none."""


@dataclass(frozen=True, slots=True)
class BatchHeader:
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        return -1 if self.base_sequence == -1 else add_to_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> int:
        return timestamp_type_of(self.attributes)

    @property
    def is_transactional(self) -> bool:
        return is_transactional(self.attributes)

    @property
    def is_control(self) -> bool:
        return is_control(self.attributes)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0

    @property
    def delete_horizon(self) -> int | None:
        return self.base_timestamp if has_delete_horizon(self.attributes) else None


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The 61 bytes as they stand; nothing is checked."""
    return BatchHeader(*HEADER.unpack_from(buffer, position))


def codec_of(attributes: int) -> int:
    return attributes & CODEC_MASK


def timestamp_type_of(attributes: int) -> int:
    return LOG_APPEND_TIME if attributes & LOG_APPEND_TIME_BIT else CREATE_TIME


def is_transactional(attributes: int) -> bool:
    return bool(attributes & TRANSACTIONAL_BIT)


def is_control(attributes: int) -> bool:
    return bool(attributes & CONTROL_BIT)


def has_delete_horizon(attributes: int) -> bool:
    return bool(attributes & DELETE_HORIZON_BIT)


def add_to_sequence(sequence: int, increment: int) -> int:
    """Sequence numbers go from 0 to 2^31 - 1 and start again at 0."""
    return (sequence + increment) & MAX_SEQUENCE


def set_base_offset(buffer: bytearray | memoryview, position: int, base_offset: int) -> None:
    INT64.pack_into(buffer, position + BASE_OFFSET_AT, base_offset)


def set_leader_epoch(buffer: bytearray | memoryview, position: int, leader_epoch: int) -> None:
    INT32.pack_into(buffer, position + LEADER_EPOCH_AT, leader_epoch)


def set_max_timestamp(buffer: bytearray | memoryview, position: int, timestamp_type: int, max_timestamp: int) -> None:
    """Rewrites the timestamp type, the max timestamp and so the CRC."""
    (attributes,) = INT16.unpack_from(buffer, position + ATTRIBUTES_AT)
    if timestamp_type == LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME_BIT
    else:
        attributes &= ~LOG_APPEND_TIME_BIT
    INT16.pack_into(buffer, position + ATTRIBUTES_AT, attributes)
    INT64.pack_into(buffer, position + MAX_TIMESTAMP_AT, max_timestamp)
    rewrite_crc(buffer, position)


def rewrite_crc(buffer: bytearray | memoryview, position: int = 0) -> None:
    (length,) = INT32.unpack_from(buffer, position + LENGTH_AT)
    end = position + LOG_OVERHEAD + length
    if length < HEADER_SIZE - LOG_OVERHEAD or end > len(buffer):
        raise CorruptBatchError(f"no whole record batch at position {position}: its length field says {length}")
    with memoryview(buffer) as view, view[position + ATTRIBUTES_AT : end] as covered:
        crc = crc32c(covered)
    UINT32.pack_into(buffer, position + CRC_AT, crc)
