"""Batches built from records and taken apart again."""

from __future__ import annotations

import pytest

from moldau.kernels import BatchStatus, check_batch
from moldau.kernels.encode import append_varint
from moldau.wire.batch import CorruptBatchError, parse_header
from moldau.wire.compression import Codec
from moldau.wire.records import Record, build_batch, iter_batches, iter_records

RECORDS = [
    Record(b"value", b"key", 1000, (("h", b"1"), ("h", None), ("", b""))),
    Record(None, b"tombstone", 999),
    Record(b"", None, 1001),
    Record(b"x" * 300, b"", 1000),
]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_varints(value: int, encoded: str) -> None:
    output = bytearray()
    append_varint(output, value)
    assert output.hex() == encoded


def test_a_batch_byte_by_byte() -> None:
    batch = build_batch([Record(b"v", b"k", 1000, (("h", b"x"),))], base_offset=5, leader_epoch=2)
    assert batch[:8].hex() == "0000000000000005"
    assert batch[8:12] == (len(batch) - 12).to_bytes(4, "big")
    assert batch[12:17].hex() == "0000000202"
    assert batch[21:61].hex() == (
        "0000" + "00000000" + "00000000000003e8" * 2 + "ffffffffffffffff" + "ffff" + "ffffffff" + "00000001"
    )
    assert batch[61:].hex() == "18" + "00" + "00" + "00" + "026b" + "0276" + "02" + "0268" + "0278"


@pytest.mark.parametrize("codec", Codec)
def test_round_trip(codec: Codec) -> None:
    batch = build_batch(RECORDS, base_offset=40, codec=codec)
    expected = [
        Record(record.value, record.key, record.timestamp, record.headers, 40 + index)
        for index, record in enumerate(RECORDS)
    ]
    assert list(iter_records(batch)) == expected
    assert [list(iter_records(one)) for one in iter_batches(batch)] == [expected]


def test_log_append_time_replaces_every_timestamp() -> None:
    batch = build_batch(RECORDS, log_append_time=77)
    assert {record.timestamp for record in iter_records(batch)} == {77}


def test_compacted_batch_keeps_its_range() -> None:
    kept = RECORDS[1:3]
    batch = build_batch(kept, base_offset=10, offsets=[13, 17], last_offset=19, delete_horizon=50_000)
    header = parse_header(batch)
    assert (header.base_offset, header.last_offset, header.count, header.delete_horizon) == (10, 19, 2, 50_000)
    assert [(record.offset, record.timestamp) for record in iter_records(batch)] == [(13, 999), (17, 1001)]


def test_empty_batch_keeps_its_producer() -> None:
    batch = build_batch([], base_offset=10, last_offset=14, producer_id=3, producer_epoch=0, base_sequence=5)
    header = parse_header(batch)
    assert (header.count, header.last_offset, header.base_timestamp, header.last_sequence) == (0, 14, -1, 9)
    assert list(iter_records(batch)) == []


def test_what_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="needs its last offset"):
        build_batch([])
    with pytest.raises(ValueError, match="1 offsets for 4 records"):
        build_batch(RECORDS, offsets=[5])


def test_batches_one_after_the_other() -> None:
    first, second = build_batch(RECORDS), build_batch(RECORDS[:1], base_offset=4, codec=Codec.ZSTD)
    region = first + second
    assert [batch.header.base_offset for batch in iter_batches(region)] == [0, 4]
    assert [bytes(batch.data) for batch in iter_batches(region)] == [first, second]
    assert [batch.header.base_offset for batch in iter_batches(region[:-1])] == [0]
    assert list(iter_batches(b"")) == []


def test_damage_is_named() -> None:
    damaged = bytearray(build_batch(RECORDS) * 2)
    damaged[-1] ^= 1
    batches = iter_batches(damaged)
    assert next(batches).header.count == 4
    with pytest.raises(CorruptBatchError, match="BAD_CRC at position"):
        next(batches)
    assert len(list(iter_batches(damaged, verify=False))) == 2
    damaged[16] = 0
    with pytest.raises(CorruptBatchError, match="BAD_MAGIC at position 0"):
        next(iter_batches(damaged))
    with pytest.raises(CorruptBatchError, match="no whole record batch"):
        list(iter_records(b"short"))


def test_unreadable_records_are_named() -> None:
    batch = build_batch(RECORDS, base_offset=8, codec=Codec.GZIP)
    with pytest.raises(CorruptBatchError, match="batch at offset 8 cannot be read: the decompressed data"):
        list(iter_records(batch, limit=10))


def test_built_batches_pass_the_check() -> None:
    batch = build_batch(RECORDS)
    assert check_batch(batch, 0, len(batch))[0] == BatchStatus.OK
