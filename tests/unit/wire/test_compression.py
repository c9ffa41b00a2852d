"""The codecs against what others write, against damage and against bombs.

The files in data/ are batches as two real producers sent them to Apache Kafka 4.3: 1,200 records of one repeated text,
150 KB uncompressed, so that every codec has several blocks. `java` is Kafka's ProducerPerformance, `librdkafka` is
confluent-kafka.
"""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cramjam
import lz4.frame
import pytest

from moldau.kernels import BatchStatus, check_batch, check_records
from moldau.wire import compression
from moldau.wire.compression import (
    Codec,
    DecompressedTooLargeError,
    DecompressionError,
    Scratch,
    compress,
    decompress_in_scratch,
)
from moldau.wire.records import iter_batches, iter_records

DATA = Path(__file__).parent / "data"
TEXT = b"".join(b'{"city": "Praha", "level_cm": %d}' % (number % 37) for number in range(6000))
NOISE = b"".join(struct.pack(">I", number * 2654435761 % 2**32) for number in range(50_000))
COMPRESSING = [codec for codec in Codec if codec != Codec.NONE]
ROOM = 1 << 22
SCRATCH = Scratch()


def decompress(codec: int, data: bytes, limit: int) -> bytes:
    """In both ways, which must agree: in memory of its own, and in memory that is used again."""
    try:
        plain = bytes(compression.decompress(codec, data, limit))
    except DecompressionError as refused:
        with pytest.raises(type(refused)):
            decompress_in_scratch(SCRATCH, codec, data, limit)
        raise
    assert bytes(decompress_in_scratch(SCRATCH, codec, data, limit)) == plain
    return plain


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"a", TEXT[:100], TEXT, NOISE, TEXT[:65536], NOISE[:65536], NOISE[:32768]])
def test_round_trip_within_the_exact_limit(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(bytearray(packed)), ROOM) == data
    assert compress(codec, memoryview(bytearray(data))) == packed
    if data:
        with pytest.raises(DecompressedTooLargeError):
            decompress(codec, packed, len(data) - 1)
        with pytest.raises(DecompressedTooLargeError):
            decompress(codec, packed, 0)


@pytest.mark.parametrize("writer", ["java", "librdkafka"])
@pytest.mark.parametrize("codec", COMPRESSING)
def test_batches_of_real_producers(writer: str, codec: Codec) -> None:
    data = (DATA / f"{writer}-{codec.name.lower()}.batch").read_bytes()
    (batch,) = iter_batches(data)
    assert check_batch(data, 0, len(data))[0] == BatchStatus.COMPRESSED
    assert batch.header.codec == codec
    status, max_timestamp, _, first_null_key = check_records(
        batch.payload(200_000), batch.header.count, batch.header.base_timestamp
    )
    assert (status, max_timestamp) == (BatchStatus.OK, batch.header.max_timestamp)
    assert first_null_key == (0 if writer == "java" else -1)
    records = list(iter_records(batch))
    assert [record.offset for record in records] == list(range(1200))
    assert {(record.value or b"")[:34] for record in records} == {b'{"city": "Praha", "river": "Moldau'}
    if writer == "librdkafka":
        assert records[100].headers == (("trace", b"x"), ("none", None))


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 3, 9, 12, 17)), (Codec.ZSTD, (-131072, 1, 3, 19, 22))],
)
def test_levels(codec: Codec, levels: tuple[int, ...]) -> None:
    sizes = []
    for level in levels:
        packed = compress(codec, TEXT, level)
        assert decompress(codec, packed, len(TEXT)) == TEXT
        assert decompress(codec, compress(codec, b"", level), 0) == b""
        sizes.append(len(packed))
    assert len(set(sizes)) > 1


def test_heads_are_those_that_java_writes() -> None:
    assert compress(Codec.LZ4, TEXT).startswith(bytes.fromhex("04224d18604082"))
    assert compress(Codec.SNAPPY, TEXT).startswith(b"\x82SNAPPY\x00" + bytes.fromhex("0000000100000001"))
    assert compress(Codec.LZ4, b"") == bytes.fromhex("04224d1860408200000000")


def test_foreign_libraries_read_what_we_write() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    for level in (None, 12):
        packed = compress(Codec.LZ4, TEXT + NOISE, level)
        assert lz4.frame.decompress(packed) == TEXT + NOISE
        assert lz4.frame.get_frame_info(packed)["block_linked"] is False
    assert bytes(cramjam.zstd.decompress(compress(Codec.ZSTD, TEXT))) == TEXT


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("checksums", [False, True])
def test_lz4_frames_of_every_shape(block_size: int, checksums: bool) -> None:
    for store_size in (False, True):
        packed = lz4.frame.compress(
            TEXT,
            block_size=block_size,
            block_linked=False,
            content_checksum=checksums,
            block_checksum=checksums,
            store_size=store_size,
        )
        assert decompress(Codec.LZ4, packed, len(TEXT)) == TEXT


def test_lz4_frames_that_kafka_refuses() -> None:
    good = compress(Codec.LZ4, TEXT)
    with pytest.raises(DecompressionError, match="linked blocks"):
        decompress(Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True), ROOM)
    for damaged in (
        b"\x05" + good[1:],
        good[:4] + b"\xa0" + good[5:],  # version
        good[:4] + b"\x61" + good[5:],  # dictionary
        good[:5] + b"\x30" + good[6:],  # block size
        good[:5] + b"\x41" + good[6:],  # reserved bit
        good[:6] + b"\x00" + good[7:],  # checksum of the head
        good[:7] + b"\xff\xff\xff\x7f" + good[11:],  # size of a block
        good[:-4],  # end mark
    ):
        with pytest.raises(DecompressionError):
            decompress(Codec.LZ4, damaged, ROOM)


def test_zstd_frames_of_every_shape() -> None:
    sized = bytes(cramjam.zstd.compress(TEXT))
    stream = cramjam.zstd.Compressor()
    for start in range(0, len(TEXT), 50_000):
        stream.compress(TEXT[start : start + 50_000])
    unsized = bytes(stream.finish())
    assert sized[4] != unsized[4]
    skippable = struct.pack("<II", 0x184D2A55, 3) + b"abc"
    assert decompress(Codec.ZSTD, unsized, len(TEXT)) == TEXT
    assert decompress(Codec.ZSTD, skippable + sized + skippable + unsized, 2 * len(TEXT)) == 2 * TEXT
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.ZSTD, sized + unsized, 2 * len(TEXT) - 1)
    for damaged in (sized[:-1], sized + b"x", sized + skippable[:-1], b"x" * 20, sized[:5]):
        with pytest.raises(DecompressionError):
            decompress(Codec.ZSTD, damaged, ROOM)


def test_snappy_of_every_shape() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    framed = compress(Codec.SNAPPY, TEXT)
    assert decompress(Codec.SNAPPY, raw, len(TEXT)) == TEXT
    assert decompress(Codec.SNAPPY, framed + compress(Codec.SNAPPY, b"more"), ROOM) == TEXT + b"more"
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.SNAPPY, raw, len(TEXT) - 1)
    for damaged in (b"", raw[:-1], raw + b"xx", framed[:-1], framed + bytes(4), framed[:12], framed[:16] + b"\xff" * 9):
        with pytest.raises(DecompressionError):
            decompress(Codec.SNAPPY, damaged, ROOM)


def test_gzip_members_one_after_the_other() -> None:
    members = b"".join(gzip.compress(TEXT[start : start + 7]) for start in range(0, 7000, 7))
    assert decompress(Codec.GZIP, members, 7000) == TEXT[:7000]
    with pytest.raises(DecompressedTooLargeError):
        decompress(Codec.GZIP, members, 6999)
    whole = compress(Codec.GZIP, NOISE)
    assert decompress(Codec.GZIP, whole + members, len(NOISE) + 7000) == NOISE + TEXT[:7000]
    for damaged in (b"", whole[:-1], whole[:5], b"x" + whole, whole[:-8] + bytes(8), members[:-3], zlib.compress(TEXT)):
        with pytest.raises(DecompressionError):
            decompress(Codec.GZIP, damaged, ROOM)


@pytest.mark.parametrize(("codec", "tail"), [(Codec.GZIP, bytes(30)), (Codec.LZ4, b"tail"), (Codec.SNAPPY, b"xx")])
def test_bytes_that_kafka_passes_over(codec: Codec, tail: bytes) -> None:
    assert decompress(codec, compress(codec, TEXT) + tail, len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("way", [compression.decompress, partial(decompress_in_scratch, SCRATCH)])
def test_bombs_are_refused_without_being_unpacked(codec: Codec, way: Callable[[int, bytes, int], object]) -> None:
    packed = compress(codec, bytes(64 << 20))
    limit = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLargeError):
            way(codec, packed, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit


def test_small_data_cannot_claim_a_large_output() -> None:
    claims_a_gigabyte = bytes.fromhex("8080808004") + b"abc"
    with pytest.raises(DecompressionError, match="cannot hold"):
        decompress(Codec.SNAPPY, claims_a_gigabyte, 1 << 31)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(ValueError, match="unknown compression codec"):
        compress(codec, b"")
    with pytest.raises(DecompressionError, match="unknown compression codec"):
        decompress(codec, b"", 10)


def test_what_was_looked_at_makes_room_for_what_comes_next() -> None:
    first = decompress_in_scratch(SCRATCH, Codec.LZ4, compress(Codec.LZ4, TEXT), ROOM)
    assert bytes(first) == TEXT
    second = decompress_in_scratch(SCRATCH, Codec.LZ4, compress(Codec.LZ4, NOISE[:1000]), ROOM)
    assert bytes(second) == NOISE[:1000]
    assert bytes(memoryview(first)[:1000]) == NOISE[:1000]
