"""Keys go where Kafka's Java client sends them."""

from __future__ import annotations

import pytest

from moldau.kernels import encode, murmur2

# From Apache Kafka's UtilsTest.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), KNOWN.items())
def test_murmur2_as_kafka(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed
    assert encode.murmur2(key) == hashed
