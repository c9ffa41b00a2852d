"""Record batches written by hand, so that each part of one can be made wrong, and read back for comparison.

Batch (magic 2): int64 base offset, int32 length of the rest, int32 partition leader epoch, int8 magic, uint32 CRC-32C
of the rest, int16 attributes, int32 last offset delta, int64 base timestamp, int64 max timestamp, int64 producer id,
int16 producer epoch, int32 base sequence, int32 record count, records (compressed as one block if the attributes name
a codec).
Record: varint length, int8 attributes, varlong timestamp delta, varint offset delta, varint key length and key, varint
value length and value, varint header count, per header varint length and key, varint length and value. A length of -1
is null.
"""

import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import cramjam
from crc32c import crc32c

HEAD: Final = struct.Struct(">qiibIhiqqqhii")
LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CRC_AT: Final = 17
CRC_FROM: Final = 21
NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    timestamp_delta: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset_delta: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A valid batch; every header field may be overridden with a lie."""

    records: tuple[Record, ...]
    base_timestamp: int
    codec: int = NONE
    flags: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    count: int | None = None
    last_offset_delta: int | None = None
    max_timestamp: int | None = None
    payload: bytes | None = None
    length_error: int = 0
    crc_error: int = 0

    def encode(self) -> bytes:
        payload = self.payload
        if payload is None:
            payload = compress(self.codec, b"".join(encode_record(r, i) for i, r in enumerate(self.records)))
        max_timestamp = self.base_timestamp + max((r.timestamp_delta for r in self.records), default=0)
        head = HEAD.pack(
            self.base_offset,
            HEAD.size - 12 + len(payload) + self.length_error,
            self.leader_epoch,
            self.magic,
            0,
            self.codec | self.flags,
            len(self.records) - 1 if self.last_offset_delta is None else self.last_offset_delta,
            self.base_timestamp,
            max_timestamp if self.max_timestamp is None else self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            len(self.records) if self.count is None else self.count,
        )
        encoded = bytearray(head + payload)
        struct.pack_into(">I", encoded, CRC_AT, crc32c(bytes(encoded[CRC_FROM:])) ^ self.crc_error)
        return bytes(encoded)

    def but(self, **changes: Any) -> "Batch":
        return replace(self, **changes)


def records(*values: str, key: str | None = "k") -> tuple[Record, ...]:
    """One record per value, a second apart."""
    encoded_key = None if key is None else key.encode()
    return tuple(Record(encoded_key, value.encode(), index * 1000) for index, value in enumerate(values))


def legacy_message_set(value: bytes, magic: int, timestamp: int) -> bytes:
    """One message in the format of magic 0 or 1: int64 offset, int32 size, uint32 CRC-32, int8 magic, attributes, …"""
    time_field = struct.pack(">q", timestamp) if magic == 1 else b""
    body = struct.pack(">bb", magic, 0) + time_field + struct.pack(">i", -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def encode_record(record: Record, index: int) -> bytes:
    offset_delta = index if record.offset_delta is None else record.offset_delta
    body = b"\x00" + varint(record.timestamp_delta) + varint(offset_delta)
    body += _sized(record.key) + _sized(record.value) + varint(len(record.headers))
    for name, value in record.headers:
        body += _sized(name.encode()) + _sized(value)
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def compress(codec: int, data: bytes) -> bytes:
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data))
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == LZ4:
        return _lz4_frame(data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    return data


def _lz4_frame(data: bytes) -> bytes:
    """With independent blocks: Java's reader knows no others."""
    stream = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    stream.compress(data)
    return bytes(stream.finish())


def decompress(codec: int, data: bytes) -> bytes:
    if codec == SNAPPY:
        return _unsnappy(data)
    packages: Mapping[int, Any] = {GZIP: cramjam.gzip, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}
    return bytes(packages[codec].decompress(data)) if codec else data


def describe(data: bytes, sent_crcs: Collection[int]) -> Sequence[Mapping[str, Any]]:
    """What a reader sees in the records of a fetch answer; one that carries the CRC of a sent batch is `as sent`."""
    return list(_describe_batches(data, sent_crcs))


def _describe_batches(data: bytes, sent_crcs: Collection[int]) -> Iterator[Mapping[str, Any]]:
    position = 0
    while position < len(data):
        if len(data) - position < HEAD.size:
            yield {"incomplete batch": len(data) - position}
            return
        head = HEAD.unpack_from(data, position)
        (
            base_offset,
            length,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_delta,
            base_time,
            max_time,
            pid,
            epoch,
            sequence,
            count,
        ) = head
        end = position + 12 + length
        if end > len(data):
            yield {"incomplete batch": len(data) - position, "base_offset": base_offset}
            return
        body = data[position + CRC_FROM : end]
        valid = "valid" if crc32c(body) == crc else "wrong"
        codec = attributes & 7
        yield {
            "base_offset": base_offset,
            "leader_epoch": leader_epoch,
            "magic": magic,
            "crc": "as sent" if crc in sent_crcs else valid,
            "codec": CODEC_NAMES[codec],
            "flags": attributes & ~7,
            "last_offset_delta": last_delta,
            "base_timestamp": base_time,
            "max_timestamp": max_time,
            "producer_id": pid,
            "producer_epoch": epoch,
            "base_sequence": sequence,
            "records": _describe_payload(codec, data[position + HEAD.size : end], count),
        }
        position = end


def _describe_payload(codec: int, payload: bytes, count: int) -> Sequence[Any] | str:
    """Brokers let some broken payloads pass, and then a reader finds them."""
    try:
        return _describe_records(decompress(codec, payload), count)
    except (cramjam.DecompressionError, IndexError, UnicodeDecodeError):
        return f"{len(payload)} unreadable bytes"


def _describe_records(data: bytes, count: int) -> Sequence[Any]:
    described = []
    position = 0
    for _ in range(count):
        length, position = _read_varint(data, position)
        end = position + length
        timestamp_delta, cursor = _read_varint(data, position + 1)
        offset_delta, cursor = _read_varint(data, cursor)
        key, cursor = _read_sized(data, cursor)
        value, cursor = _read_sized(data, cursor)
        header_count, cursor = _read_varint(data, cursor)
        headers = []
        for _ in range(header_count):
            name, cursor = _read_sized(data, cursor)
            header_value, cursor = _read_sized(data, cursor)
            headers.append([_text(name), _text(header_value)])
        described.append([offset_delta, timestamp_delta, _text(key), _text(value), *([headers] if headers else [])])
        position = end
    return described


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    return data.decode("latin-1") if len(data) <= 64 else f"{len(data)} bytes"


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position


def _read_sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _read_varint(data, position)
    return (None, position) if length < 0 else (data[position : position + length], position + length)


def _unsnappy(data: bytes) -> bytes:
    """Raw snappy, or Java's framing of it: 8 bytes magic, two int32 versions, then int32 size and raw block each."""
    if not data.startswith(b"\x82SNAPPY\x00"):
        return bytes(cramjam.snappy.decompress_raw(data))
    blocks = []
    position = 16
    while position < len(data):
        size = struct.unpack_from(">i", data, position)[0]
        blocks.append(bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + size])))
        position += 4 + size
    return b"".join(blocks)
