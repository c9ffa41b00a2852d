"""Batches that the kernel encodes are those that the plain encoder makes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.wire.compression import Codec
from moldau.wire.records import Record, build_batch, build_keyed_batch

rows = st.lists(st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=300)), min_size=1, max_size=40)


@given(rows, st.integers(0, 2**41), st.booleans(), st.sampled_from([Codec.NONE, Codec.LZ4]))
def test_both_encoders_agree(
    rows: list[tuple[bytes, bytes | None]], timestamp: int, transactional: bool, codec: int
) -> None:
    plain = build_batch(
        [Record(key=key, value=value, timestamp=timestamp) for key, value in rows],
        codec=codec,
        transactional=transactional,
        producer_id=7,
        producer_epoch=1,
    )
    keys, values = [key for key, _ in rows], [value for _, value in rows]
    by_kernel = build_keyed_batch(
        keys, values, timestamp, codec=codec, transactional=transactional, producer_id=7, producer_epoch=1
    )
    assert by_kernel == plain
