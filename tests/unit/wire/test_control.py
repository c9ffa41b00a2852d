"""Control records against the bytes that Apache Kafka writes."""

from __future__ import annotations

import pytest

from moldau.wire.batch import CorruptBatchError, parse_header
from moldau.wire.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_batch,
    decode_control_type,
    decode_end_transaction_marker,
    encode_control_key,
    encode_end_transaction_marker,
)
from moldau.wire.records import Record, iter_records


@pytest.mark.parametrize(("commit", "key"), [(True, "00000001"), (False, "00000000")])
def test_marker_bytes(commit: bool, key: str) -> None:
    record = encode_end_transaction_marker(EndTransactionMarker(commit, 258), timestamp=9)
    assert record.key is not None and record.key.hex() == key
    assert record.value is not None and record.value.hex() == "000000000102"
    assert decode_end_transaction_marker(record) == EndTransactionMarker(commit, 258)


def test_marker_batch() -> None:
    batch = build_end_transaction_batch(
        EndTransactionMarker(True, 4), producer_id=12, producer_epoch=3, timestamp=50, base_offset=7, leader_epoch=1
    )
    header = parse_header(batch)
    assert (header.is_control, header.is_transactional, header.count, header.base_sequence) == (True, True, 1, -1)
    assert (header.producer_id, header.producer_epoch, header.base_offset, header.leader_epoch) == (12, 3, 7, 1)
    (record,) = iter_records(batch)
    assert decode_end_transaction_marker(record) == EndTransactionMarker(True, 4)


def test_later_versions_are_readable() -> None:
    record = Record(key=b"\x00\x01\x00\x01\xff", value=b"\x00\x01\x00\x00\x00\x05\xff\xff")
    assert decode_end_transaction_marker(record) == EndTransactionMarker(True, 5)
    assert decode_control_type(b"\x00\x00\x00\x63") == ControlType.UNKNOWN


def test_other_control_records_are_no_markers() -> None:
    leader_change = Record(key=encode_control_key(ControlType.LEADER_CHANGE), value=b"")
    assert decode_end_transaction_marker(leader_change) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00\x00\x00", b""),
        (b"\xff\xff\x00\x00", b"\x00" * 6),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00" * 5),
        (b"\x00\x00\x00\x01", b"\xff\xff" + b"\x00" * 4),
    ],
)
def test_damaged_control_records(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatchError):
        decode_end_transaction_marker(Record(key=key, value=value))
