"""Batches of any records: round trips of our own, and both ways with the record code of aiokafka and kafka-python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records

from moldau.kernels import BatchStatus, check_batch, check_records
from moldau.wire.batch import HEADER_SIZE, parse_header
from moldau.wire.compression import Codec
from moldau.wire.records import Record, build_batch, iter_batches, iter_records
from tests.support.record_strategies import HEADERS, NULLABLE_BYTES, RECORD_LISTS

CODECS = st.sampled_from(Codec)
# Below 0 the two Python clients write the current time instead.
DATED = st.lists(
    st.builds(Record, value=NULLABLE_BYTES, key=NULLABLE_BYTES, timestamp=st.integers(0, 2**41), headers=HEADERS),
    min_size=1,
    max_size=8,
)
FOREIGN = [aiokafka_records, kafka_python_records]


def placed(records: Sequence[Record], offsets: Sequence[int]) -> list[Record]:
    return [Record(r.value, r.key, r.timestamp, r.headers, offset) for r, offset in zip(records, offsets, strict=True)]


@given(RECORD_LISTS, CODECS, st.integers(0, 2**62))
def test_round_trip(records: list[Record], codec: Codec, base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    status, size, *_ = check_batch(batch, 0, len(batch))
    assert (status, size) == (BatchStatus.COMPRESSED if codec else BatchStatus.OK, len(batch))
    expected = placed(records, range(base_offset, base_offset + len(records)))
    assert list(iter_records(batch)) == expected

    (one,) = iter_batches(batch)
    walked = check_records(one.payload(), one.header.count, one.header.base_timestamp)
    newest = max(record.timestamp for record in records)
    assert walked == (
        BatchStatus.OK,
        newest,
        [record.timestamp for record in records].index(newest) if newest >= 0 else -1,
        next((index for index, record in enumerate(records) if record.key is None), -1),
    )


@given(RECORD_LISTS, CODECS, st.data())
def test_round_trip_with_gaps(records: list[Record], codec: Codec, choice: st.DataObject) -> None:
    steps = choice.draw(st.lists(st.integers(1, 10**6), min_size=len(records) + 1, max_size=len(records) + 1))
    offsets = [sum(steps[: index + 1]) for index in range(len(records))]
    last_offset = offsets[-1] + steps[-1]
    horizon = choice.draw(st.none() | st.integers(0, 2**42))
    batch = build_batch(records, codec=codec, offsets=offsets, last_offset=last_offset, delete_horizon=horizon)
    assert list(iter_records(batch)) == placed(records, offsets)
    header = parse_header(batch)
    assert (header.last_offset, header.count, header.delete_horizon) == (last_offset, len(records), horizon)


@pytest.mark.parametrize("foreign", FOREIGN, ids=["aiokafka", "kafka-python"])
@given(records=DATED, codec=CODECS, transactional=st.booleans(), sequence=st.integers(-1, 2**31 - 1))
def test_we_read_what_others_write(
    foreign: Any, records: list[Record], codec: Codec, transactional: bool, sequence: int
) -> None:
    builder = foreign.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=int(transactional),
        producer_id=42,
        producer_epoch=3,
        base_sequence=sequence,
        batch_size=10**6,
    )
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())
    header = parse_header(theirs)
    assert check_batch(theirs, 0, len(theirs))[0] == (BatchStatus.COMPRESSED if header.codec else BatchStatus.OK)
    assert list(iter_records(theirs)) == placed(records, range(len(records)))
    assert (header.is_transactional, header.producer_id, header.base_sequence) == (transactional, 42, sequence)

    ours = build_batch(
        records,
        codec=header.codec,  # they leave small batches uncompressed
        leader_epoch=header.leader_epoch,
        transactional=transactional,
        producer_id=42,
        producer_epoch=3,
        base_sequence=sequence,
    )
    if header.codec == Codec.NONE:
        assert ours == theirs


@pytest.mark.parametrize("foreign", FOREIGN, ids=["aiokafka", "kafka-python"])
@given(records=DATED, codec=CODECS, base_offset=st.integers(0, 2**60))
def test_others_read_what_we_write(foreign: Any, records: list[Record], codec: Codec, base_offset: int) -> None:
    ours = build_batch(records, base_offset=base_offset, codec=codec, leader_epoch=0)
    batch = foreign.DefaultRecordBatch(bytearray(ours))
    assert batch.validate_crc()
    read = [Record(r.value, r.key, r.timestamp, tuple(r.headers), r.offset) for r in batch]
    assert read == placed(records, range(base_offset, base_offset + len(records)))


@given(RECORD_LISTS, st.integers(0, 2**42))
def test_log_append_time(records: list[Record], time: int) -> None:
    batch = build_batch(records, log_append_time=time)
    assert [record.timestamp for record in iter_records(batch)] == [time] * len(records)
    assert len(batch) > HEADER_SIZE
