"""Hypothesis strategies for records and batches, valid and damaged."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from moldau.wire.batch import HEADER_SIZE, LENGTH_AT, LOG_OVERHEAD, rewrite_crc
from moldau.wire.records import Record, build_batch

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.integers(-1, 2**42) | st.just(-1)
NULLABLE_BYTES = st.none() | st.binary(max_size=80) | st.sampled_from([b"", b"x" * 63, b"y" * 64, b"z" * 8200])
HEADERS = st.lists(st.tuples(st.text(max_size=8), NULLABLE_BYTES), max_size=3).map(tuple)
RECORDS = st.builds(Record, value=NULLABLE_BYTES, key=NULLABLE_BYTES, timestamp=TIMESTAMPS, headers=HEADERS)
RECORD_LISTS = st.lists(RECORDS, min_size=1, max_size=12)


@st.composite
def batches(draw: st.DrawFn, codecs: tuple[int, ...] = (0,)) -> bytes:
    records = draw(RECORD_LISTS)
    base_offset = draw(st.integers(0, 2**40))
    offsets = None
    if draw(st.integers(0, 4)) == 0:
        steps = draw(st.lists(st.integers(1, 300), min_size=len(records), max_size=len(records)))
        offsets = [base_offset + sum(steps[:index]) for index in range(len(records))]
    return build_batch(
        records,
        base_offset=base_offset,
        offsets=offsets,
        leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        codec=draw(st.sampled_from(codecs)),
        transactional=draw(st.booleans()),
        control=draw(st.booleans()),
        producer_id=draw(st.integers(-1, 2**62)),
        producer_epoch=draw(st.integers(-1, 2**15 - 1)),
        base_sequence=draw(st.integers(-1, 2**31 - 1)),
        log_append_time=draw(st.none() | st.integers(0, 2**42)),
        delete_horizon=draw(st.none() | st.integers(0, 2**42)),
    )


@st.composite
def damaged_batches(draw: st.DrawFn) -> bytes:
    """A batch with a few bytes changed, added or taken away; most times length and CRC are then made right again, so
    that the damage reaches what lies behind these two."""
    data = bytearray(draw(batches()))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        removed = draw(st.integers(0, 3))
        data[place : place + removed] = draw(st.binary(max_size=6) | st.sampled_from([b"\xff", b"\x80" * 6, b"\x01"]))
    if draw(st.integers(0, 4)) and len(data) >= HEADER_SIZE:
        struct.pack_into(">i", data, LENGTH_AT, len(data) - LOG_OVERHEAD)
        rewrite_crc(data)
    return bytes(data)


REGIONS = st.lists(batches((0, 1, 4)) | damaged_batches() | st.binary(max_size=90), max_size=4).map(b"".join)
