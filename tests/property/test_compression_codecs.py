"""Codecs: what goes in comes out, within any limit that allows it; damage gives an error of ours or other bytes, never
another exception and never more than the limit."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.compression import Codec, DecompressedTooLargeError, DecompressionError, compress, decompress

CODECS = st.sampled_from(Codec)
DATA = st.binary(max_size=2000) | st.builds(
    lambda unit, times: unit * times, st.binary(max_size=9), st.integers(0, 30_000)
)
LEVELS = {Codec.GZIP: st.integers(-1, 9), Codec.LZ4: st.integers(1, 9), Codec.ZSTD: st.integers(-10, 6)}


@given(CODECS, DATA, st.data())
def test_round_trip(codec: Codec, data: bytes, choice: st.DataObject) -> None:
    level = choice.draw(st.none() | LEVELS.get(codec, st.none()))
    packed = compress(codec, data, level)
    assert decompress(codec, packed, len(data)) == data
    limit = choice.draw(st.integers(0, 2 * len(data)))
    try:
        assert decompress(codec, packed, limit) == data
        assert limit >= len(data)
    except DecompressedTooLargeError:
        assert limit < len(data)


@given(CODECS, DATA, st.data())
def test_damage(codec: Codec, data: bytes, choice: st.DataObject) -> None:
    packed = bytearray(compress(codec, data))
    for _ in range(choice.draw(st.integers(1, 3))):
        place = choice.draw(st.integers(0, min(len(packed), 40)) | st.integers(0, len(packed)))
        packed[place : place + choice.draw(st.integers(0, 4))] = choice.draw(st.binary(max_size=5))
    limit = len(data) + 100
    with contextlib.suppress(DecompressionError):
        assert len(decompress(codec, packed, limit)) <= limit


@given(st.integers(0, 7), st.binary(max_size=200), st.integers(0, 10_000))
def test_noise(codec: int, data: bytes, limit: int) -> None:
    with contextlib.suppress(DecompressionError):
        assert len(decompress(codec, data, limit)) <= limit
