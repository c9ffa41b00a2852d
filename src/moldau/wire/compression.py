"""The codecs of record batches, as the Java client, librdkafka and the Python clients write and read them.

    gzip    one or more gzip members, one after the other
    snappy  xerial framing (Java, kafka-python): 82 'SNAPPY' 00, int32 version, int32 oldest reader, then blocks of
            int32 size and raw snappy, big-endian; or one raw snappy block (librdkafka, franz-go)
    lz4     one LZ4 frame with independent blocks: magic, FLG, BD, [content size], header checksum, then blocks of
            uint32 size (top bit: stored) and bytes, an end mark of 0, [content checksum], little-endian
    zstd    zstd frames: magic, descriptor, [window], [dictionary id], [content size], then blocks of 3 bytes
            (bit 0: last, bits 1-2: type, rest: size) and bytes, [checksum], little-endian

Bytes behind the last gzip member, the LZ4 frame or the last whole snappy block are passed over, as Kafka does.

Decompression never allocates more than its limit plus a constant: before anything is decompressed the frame's own block
heads give an upper bound of its output, and the output goes to a buffer no larger than bound and limit.
cramjam and zlib release the interpreter's lock while they work, but for one case that is marked.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct, error
from typing import TYPE_CHECKING, Final

import cramjam

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(ValueError):
    """The bytes are not what the codec writes."""


class DecompressedTooLargeError(DecompressionError):
    """What would come out is larger than the caller allows."""


_BIG_INT32: Final = Struct(">i")
_LITTLE_UINT32: Final = Struct("<I")

_GZIP_FORMAT: Final = 31
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_FIRST_PIECE: Final = 4096
_GZIP_LARGEST_PIECE: Final = 1 << 20

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_BEST_RATIO: Final = 32

_LZ4_MAGIC: Final = 0x184D2204
_LZ4_BLOCK: Final = 64 * 1024
# Version 1, independent blocks, no checksums, blocks of at most 64 KB, and the checksum of these two bytes.
_LZ4_HEAD: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_END: Final = b"\x00\x00\x00\x00"
_LZ4_STORED: Final = 0x80000000
_LZ4_BEST_RATIO: Final = 255
_LZ4_FAST_LEVEL: Final = 9
"""Kafka's default level: stands for the fast compressor, every other level for the high compression of that level."""
_LZ4_HIGHEST_LEVEL: Final = 12
"""The library's; Kafka's settings go on to 17, which mean the same."""

_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SKIPPABLE: Final = 0x184D2A50
_ZSTD_BLOCK: Final = 128 * 1024
_ZSTD_DEFAULT_LEVEL: Final = 3

_LARGEST_SCRATCH: Final = 2 << 20


class Scratch:
    """Memory that is used again: fresh memory would cost as much as what is done with it. For one thread."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = bytearray()


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Level: as in compression.gzip.level, compression.lz4.level, compression.zstd.level; None for Kafka's default."""
    view = memoryview(data)
    if codec == Codec.NONE:
        return bytes(view)
    if codec == Codec.GZIP:
        return zlib.compress(view, -1 if level is None else level, _GZIP_FORMAT)
    if codec == Codec.SNAPPY:
        return _compress_snappy(view)
    if codec == Codec.LZ4:
        return _compress_lz4(view, level)
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(view, level=_ZSTD_DEFAULT_LEVEL if level is None else level))
    raise ValueError(f"unknown compression codec {codec}")


def decompress(codec: int, data: Buffer, limit: int) -> bytes | bytearray:
    """Refuses, with DecompressedTooLargeError, what would be larger than `limit`."""
    view = memoryview(data)
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise DecompressionError(f"unknown compression codec {codec}")
    try:
        return decompressor(view, limit)
    except (cramjam.DecompressionError, zlib.error, error, IndexError) as cause:
        raise _damaged(codec, cause) from cause


def decompress_in_scratch(scratch: Scratch, codec: int, data: Buffer, limit: int) -> bytes | bytearray | memoryview:
    """Like `decompress`, for a look: what comes back is overwritten by the next call."""
    if codec != Codec.LZ4:
        return decompress(codec, data, limit)
    view = memoryview(data)
    try:
        bound, end = _lz4_frame_bound(view, limit)
        if bound > min(limit, _LARGEST_SCRATCH):
            return _decompress_lz4(view, limit)
        if len(scratch.buffer) < bound:
            scratch.buffer = bytearray(bound)
        room = memoryview(scratch.buffer)
        return room[: cramjam.lz4.decompress_into(view[:end], room)]
    except (cramjam.DecompressionError, error, IndexError) as cause:
        raise _damaged(codec, cause) from cause


def _damaged(codec: int, cause: Exception) -> DecompressionError:
    return DecompressionError(f"the {Codec(codec).name.lower()} data is damaged: {cause}")


def _uncompressed(view: memoryview, limit: int) -> bytes:
    _refuse_above(limit, len(view))
    return bytes(view)


def _refuse_above(limit: int, size: int) -> None:
    if size > limit:
        raise DecompressedTooLargeError(
            f"the decompressed data has at least {size} bytes, more than the {limit} allowed"
        )


def _decompress_gzip(view: memoryview, limit: int) -> bytes:
    pieces: list[bytes] = []
    total = position = 0
    while True:
        member = zlib.decompressobj(_GZIP_FORMAT)
        piece_size = _GZIP_FIRST_PIECE  # small first: each of many short members copies what follows it in the piece
        while not member.eof:
            if position == len(view):
                raise DecompressionError("the gzip data is damaged: it ends early")
            piece = view[position : position + piece_size]
            pieces.append(member.decompress(piece, limit - total + 1))
            total += len(pieces[-1])
            _refuse_above(limit, total)
            position += len(piece) - len(member.unused_data)
            piece_size = min(2 * piece_size, _GZIP_LARGEST_PIECE)
        if view[position : position + len(_GZIP_MAGIC)].tobytes() != _GZIP_MAGIC:
            return b"".join(pieces)


def _compress_snappy(view: memoryview) -> bytes:
    parts = [_XERIAL_HEAD]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_BIG_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(view: memoryview, limit: int) -> bytearray:
    blocks = _xerial_blocks(view) if _starts_with_xerial_magic(view, 0) else [view]
    sizes: list[int] = []
    total = 0
    for block in blocks:
        size: int = cramjam.snappy.decompress_raw_len(block)
        if size > _SNAPPY_BEST_RATIO * len(block):
            raise DecompressionError(f"the snappy data is damaged: {len(block)} bytes cannot hold {size}")
        sizes.append(size)
        total += size
        _refuse_above(limit, total)
    output = bytearray(total)
    with memoryview(output) as target:
        position = 0
        for block, size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, target[position : position + size])
            position += size
    return output


def _starts_with_xerial_magic(view: memoryview, position: int) -> bool:
    return bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def _xerial_blocks(view: memoryview) -> list[memoryview]:
    blocks: list[memoryview] = []
    position = 0
    while len(view) - position >= _BIG_INT32.size:
        if _starts_with_xerial_magic(view, position):  # also between blocks: streams were joined
            position += len(_XERIAL_HEAD)
            continue
        (size,) = _BIG_INT32.unpack_from(view, position)
        position += _BIG_INT32.size
        if size <= 0 or size > len(view) - position:
            raise DecompressionError(f"the snappy data is damaged: a block claims {size} bytes")
        blocks.append(view[position : position + size])
        position += size
    if position > len(view):
        raise DecompressionError("the snappy data is damaged: its head is cut off")
    return blocks


def _compress_lz4(view: memoryview, level: int | None) -> bytes:
    if level is not None and level != _LZ4_FAST_LEVEL:
        return _compress_lz4_high(view, level)
    parts = [_LZ4_HEAD]
    for start in range(0, len(view), _LZ4_BLOCK):
        plain = view[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LITTLE_UINT32.pack(len(block)), block)
        else:
            parts += (_LITTLE_UINT32.pack(len(plain) | _LZ4_STORED), bytes(plain))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _compress_lz4_high(view: memoryview, level: int) -> bytes:
    """cramjam takes a level in its streams only, and these keep the interpreter's lock: here for a block at a time."""
    stream = cramjam.lz4.Compressor(min(level, _LZ4_HIGHEST_LEVEL), content_checksum=False, block_linked=False)
    for start in range(0, len(view), _LZ4_BLOCK):
        stream.compress(bytes(view[start : start + _LZ4_BLOCK]))
    return bytes(stream.finish())


def _decompress_lz4(view: memoryview, limit: int) -> bytearray:
    bound, end = _lz4_frame_bound(view, limit)
    return _decompress_within(cramjam.lz4.decompress_into, view[:end], bound, limit)


def _lz4_frame_bound(view: memoryview, limit: int) -> tuple[int, int]:
    """Upper bound of what the frame holds, and where it ends."""
    (magic,) = _LITTLE_UINT32.unpack_from(view, 0)
    flags, block_descriptor = view[4], view[5]
    block_size_code = block_descriptor >> 4
    if (
        magic != _LZ4_MAGIC
        or flags >> 6 != 1
        or flags & 0x03
        or block_descriptor & 0x0F
        or not 4 <= block_size_code <= 7
    ):
        raise DecompressionError("the lz4 data is damaged: it does not start with a known frame head")
    if not flags & 0x20:
        raise DecompressionError("the lz4 frame has linked blocks, which Kafka's readers refuse")
    largest_block = 1 << (8 + 2 * block_size_code)
    may_fill = largest_block // _LZ4_BEST_RATIO
    checksum = 4 if flags & 0x10 else 0
    position = 6 + (8 if flags & 0x08 else 0) + 1
    stored = compressed = 0
    word_at = _LITTLE_UINT32.unpack_from
    while True:
        (word,) = word_at(view, position)
        if word == 0:
            break
        size = word & ~_LZ4_STORED
        if size > largest_block:
            raise DecompressionError(f"the lz4 data is damaged: a block claims {size} bytes")
        if word & _LZ4_STORED:
            stored += size
            _refuse_above(limit, stored)
        else:
            compressed += largest_block if size > may_fill else size * _LZ4_BEST_RATIO
        position += 4 + size + checksum
    position += 4
    position += 4 if flags & 0x04 else 0
    return stored + compressed, position


def _decompress_zstd(view: memoryview, limit: int) -> bytearray:
    bound = position = 0
    while position < len(view):
        (magic,) = _LITTLE_UINT32.unpack_from(view, position)
        if magic & ~0xF == _ZSTD_SKIPPABLE:
            position += 8 + int(_LITTLE_UINT32.unpack_from(view, position + 4)[0])
        elif magic == _ZSTD_MAGIC:
            frame_bound, position = _zstd_frame_bound(view, position + 4, limit)
            bound += frame_bound
        else:
            raise DecompressionError("the zstd data is damaged: it does not start with a frame")
    if position != len(view):
        raise DecompressionError("the zstd data is damaged: it ends early")
    return _decompress_within(cramjam.zstd.decompress_into, view, bound, limit) if position else bytearray()


def _zstd_frame_bound(view: memoryview, position: int, limit: int) -> tuple[int, int]:
    """Upper bound of what the frame holds, and where it ends."""
    descriptor = view[position]
    single_segment = bool(descriptor & 0x20)
    position += 1 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3]
    content_size_length = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    content_size = int.from_bytes(view[position : position + content_size_length], "little")
    position += content_size_length
    if content_size_length:
        content_size += 256 if content_size_length == 2 else 0
        _refuse_above(limit, content_size)
    certain = possible = 0
    last = False
    while not last:
        head = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
        if kind == 3 or size > _ZSTD_BLOCK:
            raise DecompressionError(f"the zstd data is damaged: a block of kind {kind} claims {size} bytes")
        if kind == 2:
            possible += _ZSTD_BLOCK
        else:
            certain += size
        _refuse_above(limit, certain)
        position += 3 + (1 if kind == 1 else size)
    position += 4 if descriptor & 0x04 else 0
    bound = certain + possible
    return (min(content_size, bound) if content_size_length else bound), position


def _decompress_within(
    decompress_into: Callable[[memoryview, bytearray], int], view: memoryview, bound: int, limit: int
) -> bytearray:
    output = bytearray(min(bound, limit))
    try:
        size = decompress_into(view, output)
    except cramjam.DecompressionError as cause:
        if bound > limit and _OUTPUT_FULL in str(cause):
            _refuse_above(limit, limit + 1)
        raise
    del output[size:]
    return output


_OUTPUT_FULL: Final = "failed to write whole buffer"

_DECOMPRESSORS: Final[dict[int, Callable[[memoryview, int], bytes | bytearray]]] = {
    Codec.NONE: _uncompressed,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
