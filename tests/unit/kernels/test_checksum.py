"""CRC-32C: published values, every length around the edges of the fast paths, every way to compute it."""

from __future__ import annotations

from types import ModuleType

import pytest
from crc32c import crc32c as reference

from moldau.kernels import _native, python

# RFC 3720, B.4, and the check value of the catalogue of CRC algorithms
PUBLISHED = {
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
    b"123456789": 0xE3069283,
    b"": 0,
}
LANES = [3 * 256, 3 * 4096]
LENGTHS = [*range(40), *(lane * n + d for lane in LANES for n in (1, 2) for d in (-9, -8, -1, 0, 1, 8, 9)), 40_000]
NOISE = bytes((i * i * 31 + i // 7) & 0xFF for i in range(41_000))


@pytest.mark.parametrize("data", PUBLISHED, ids=lambda data: data[:9].hex() or "empty")
def test_published_values(kernels: ModuleType, data: bytes) -> None:
    assert kernels.crc32c(data) == PUBLISHED[data]


def test_every_length_and_alignment(kernels: ModuleType) -> None:
    for length in LENGTHS:
        for start in (0, 1, 3):
            part = NOISE[start : start + length]
            assert kernels.crc32c(part) == reference(part), (length, start)


def test_portable_way_of_the_compiled_kernel() -> None:
    for length in LENGTHS:
        assert _native.crc32c_portable(NOISE[:length]) == reference(NOISE[:length]), length


def test_table_of_the_twin() -> None:
    for length in (0, 1, 9, 300):
        assert python._crc32c_by_table(memoryview(NOISE[:length]), 0) == reference(NOISE[:length])


def test_continues_from_an_earlier_value(kernels: ModuleType) -> None:
    whole = kernels.crc32c(NOISE)
    for cut in (0, 1, 700, 20_000, len(NOISE)):
        assert kernels.crc32c(NOISE[cut:], kernels.crc32c(NOISE[:cut])) == whole
    assert kernels.crc32c(b"abc", 2**32 + 5) == kernels.crc32c(b"abc", 5)


def test_a_faster_instruction_is_used_where_the_processor_has_one() -> None:
    assert _native.CRC32C_BY in ("sse4.2", "armv8", "portable")
