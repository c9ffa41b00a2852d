"""Head of a batch: fields, attribute bits, patches in place."""

from __future__ import annotations

import pytest

from moldau.kernels import BatchStatus, check_batch
from moldau.wire import batch as layout
from moldau.wire.batch import BatchHeader, CorruptBatchError, parse_header
from moldau.wire.records import Record, build_batch


def test_header_fields() -> None:
    data = build_batch(
        [Record(b"a", timestamp=1000), Record(b"b", timestamp=900)],
        base_offset=50,
        leader_epoch=4,
        codec=1,
        transactional=True,
        producer_id=7,
        producer_epoch=2,
        base_sequence=30,
    )
    header = parse_header(b"....." + data, 5)
    assert header == BatchHeader(50, len(data) - 12, 4, 2, header.crc, 0x11, 1, 1000, 1000, 7, 2, 30, 2)
    assert (header.size, header.last_offset, header.next_offset, header.last_sequence) == (len(data), 51, 52, 31)
    assert (header.codec, header.timestamp_type, header.is_transactional, header.is_control) == (1, 0, True, False)
    assert (header.has_producer, header.delete_horizon) == (True, None)


def test_attribute_bits() -> None:
    control = parse_header(build_batch([Record()], control=True, log_append_time=5))
    assert (control.is_control, control.is_transactional, control.timestamp_type) == (True, False, 1)
    assert (control.max_timestamp, control.has_producer, control.last_sequence) == (5, False, -1)
    horizon = parse_header(build_batch([Record(timestamp=7)], delete_horizon=99))
    assert (horizon.delete_horizon, horizon.base_timestamp, horizon.max_timestamp) == (99, 99, 7)


def test_sequences_start_again_at_zero() -> None:
    assert layout.add_to_sequence(2**31 - 1, 1) == 0
    assert layout.add_to_sequence(2**31 - 2, 5) == 3
    header = parse_header(build_batch([Record()] * 4, base_sequence=2**31 - 2))
    assert header.last_sequence == 1


def test_offset_and_epoch_are_patched_without_touching_the_crc() -> None:
    data = bytearray(b"--" + build_batch([Record(b"v")]))
    layout.set_base_offset(data, 2, 2**50)
    layout.set_leader_epoch(memoryview(data), 2, 9)
    assert check_batch(data, 2, len(data))[:4] == (BatchStatus.OK, len(data) - 2, 2**50, 9)


def test_log_append_time_is_written_and_taken_back() -> None:
    original = build_batch([Record(b"v", timestamp=10), Record(b"w", timestamp=30)])
    data = bytearray(b"-" + original)
    layout.set_max_timestamp(data, 1, layout.LOG_APPEND_TIME, 500)
    header = parse_header(data, 1)
    assert (header.timestamp_type, header.max_timestamp) == (layout.LOG_APPEND_TIME, 500)
    assert check_batch(data, 1, len(data))[0] == BatchStatus.OK
    layout.set_max_timestamp(data, 1, layout.CREATE_TIME, 30)
    assert data[1:] == original


def test_rewriting_the_crc_needs_a_whole_batch() -> None:
    data = bytearray(build_batch([Record(b"v")]))
    data[17:21] = b"abcd"
    layout.rewrite_crc(data)
    assert check_batch(data, 0, len(data))[0] == BatchStatus.OK
    data.append(0)  # no view is left over that would forbid it
    with pytest.raises(CorruptBatchError, match="no whole record batch"):
        layout.rewrite_crc(data[:-5])
    data[8:12] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptBatchError, match="length field says -1"):
        layout.rewrite_crc(data)
