"""What the look at one batch finds. Most of the accepted and refused records below were also sent to Apache Kafka 4.3,
which took and refused the same ones; it differs in BAD_OFFSETS, which it takes in uncompressed batches."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest
from crc32c import crc32c as reference

from moldau.kernels import BatchCheck, BatchStatus
from moldau.kernels.encode import append_varint
from moldau.wire.batch import HEADER_SIZE, LENGTH_AT, MAGIC_AT, rewrite_crc
from moldau.wire.records import Record, assemble_batch, build_batch

BASE_TIMESTAMP = 1_700_000_000_000
LAST_OFFSET_DELTA_AT, COUNT_AT = 23, 57


def check(kernels: ModuleType, data: bytes | bytearray) -> BatchCheck:
    return BatchCheck(*kernels.check_batch(data, 0, len(data)))


def varint(value: int) -> bytes:
    output = bytearray()
    append_varint(output, value)
    return bytes(output)


def raw_record(
    *,
    attributes: bytes = b"\x00",
    timestamp_delta: bytes = b"\x00",
    offset_delta: bytes = b"\x00",
    key: bytes = b"\x01",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    length: int | None = None,
) -> bytes:
    body = attributes + timestamp_delta + offset_delta + key + value + headers
    return varint(len(body) if length is None else length) + body


def raw_batch(payload: bytes, count: int = 1, last_offset_delta: int | None = None, attributes: int = 0) -> bytes:
    return assemble_batch(
        payload,
        base_offset=0,
        leader_epoch=-1,
        attributes=attributes,
        last_offset_delta=count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp=BASE_TIMESTAMP,
        max_timestamp=BASE_TIMESTAMP,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def test_fields_of_a_good_batch(kernels: ModuleType) -> None:
    records = [Record(b"a", b"k", 1000), Record(b"b", None, 1005), Record(None, b"k", 1005), Record(b"d", None, 999)]
    data = build_batch(
        records,
        base_offset=2**40,
        leader_epoch=7,
        producer_id=99,
        producer_epoch=3,
        base_sequence=12,
        transactional=True,
        log_append_time=5000,
    )
    assert check(kernels, data) == BatchCheck(
        status=BatchStatus.OK,
        size=len(data),
        base_offset=2**40,
        leader_epoch=7,
        attributes=0x18,
        last_offset_delta=3,
        base_timestamp=1000,
        max_timestamp=5000,
        producer_id=99,
        producer_epoch=3,
        base_sequence=12,
        record_count=4,
        walk_max_timestamp=1005,
        walk_offset_of_max_timestamp=1,
        first_null_key_index=1,
    )


def test_every_truncation_is_seen(kernels: ModuleType) -> None:
    data = build_batch([Record(b"value", b"key", 5, (("h", b"v"),))])
    for limit in range(len(data)):
        found = BatchCheck(*kernels.check_batch(data, 0, limit))
        assert found.status == BatchStatus.TRUNCATED
        assert found.size == (0 if limit < 12 else len(data))
        assert set(found[2:]) == {-1}


def test_bytes_outside_the_window_are_not_looked_at(kernels: ModuleType) -> None:
    data = build_batch([Record(b"value")])
    surrounded = b"\xff" * 70 + data + b"\xff" * 70
    assert kernels.check_batch(surrounded, 70, 70 + len(data)) == kernels.check_batch(data, 0, len(data))
    assert kernels.check_batch(surrounded, 70, len(surrounded)) == kernels.check_batch(data, 0, len(data))
    assert kernels.check_batch(surrounded, 70, 70 + len(data) - 1)[0] == BatchStatus.TRUNCATED


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (-(2**31), BatchStatus.BAD_LENGTH),
        (-1, BatchStatus.BAD_LENGTH),
        (0, BatchStatus.BAD_LENGTH),
        (48, BatchStatus.BAD_LENGTH),
        (2**31 - 1, BatchStatus.TRUNCATED),
    ],
)
def test_length_field(kernels: ModuleType, length: int, status: BatchStatus) -> None:
    data = bytearray(build_batch([Record(b"value")]))
    struct.pack_into(">i", data, LENGTH_AT, length)
    assert check(kernels, data).status == status


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats_are_refused(kernels: ModuleType, magic: int) -> None:
    data = bytearray(build_batch([Record(b"value")]))
    data[MAGIC_AT] = magic
    found = check(kernels, data)
    assert (found.status, found.size, found.base_offset) == (BatchStatus.BAD_MAGIC, len(data), -1)


def test_an_old_message_shorter_than_a_batch_head_is_an_old_message(kernels: ModuleType) -> None:
    old = struct.pack(">qiIbb", 0, 16, 0, 1, 0) + bytes(10)
    assert check(kernels, old).status == BatchStatus.BAD_MAGIC


def test_every_changed_byte_behind_the_crc_is_seen(kernels: ModuleType) -> None:
    data = build_batch([Record(b"value", b"key", 5)], leader_epoch=3)
    for place in range(17, len(data)):
        changed = bytearray(data)
        changed[place] ^= 0x10
        assert check(kernels, changed).status == BatchStatus.BAD_CRC, place


def test_offset_and_epoch_may_be_patched_in_place(kernels: ModuleType) -> None:
    data = bytearray(build_batch([Record(b"value")]))
    struct.pack_into(">q", data, 0, 123)
    struct.pack_into(">i", data, 12, 9)
    found = check(kernels, data)
    assert (found.status, found.base_offset, found.leader_epoch) == (BatchStatus.OK, 123, 9)


@pytest.mark.parametrize(
    ("count", "delta"), [(0, -1), (0, 0), (-1, -2), (2, 0), (1, 1), (1, -1), (-(2**31), 2**31 - 1)]
)
def test_count_against_last_offset_delta(kernels: ModuleType, count: int, delta: int) -> None:
    for attributes in (0, 1):
        data = raw_batch(raw_record(), count, delta, attributes)
        assert check(kernels, data).status == BatchStatus.BAD_COUNT


@pytest.mark.parametrize("count", [2, 3, 2**31 - 1])
def test_fewer_records_than_counted(kernels: ModuleType, count: int) -> None:
    assert check(kernels, raw_batch(raw_record(), count)).status == BatchStatus.BAD_COUNT


def test_compressed_records_are_left_alone(kernels: ModuleType) -> None:
    for codec in range(1, 8):
        found = check(kernels, raw_batch(b"no records at all", attributes=codec))
        assert (found.status, found.record_count, found[-3:]) == (BatchStatus.COMPRESSED, 1, (-1, -1, -1))


def test_without_records_only_length_magic_and_crc_count(kernels: ModuleType) -> None:
    compacted = build_batch([Record(b"x")], offsets=[4], last_offset=9)
    assert kernels.check_batch(compacted, 0, len(compacted), False)[0] == BatchStatus.OK
    assert kernels.check_batch(compacted, 0, len(compacted), True)[0] == BatchStatus.BAD_COUNT
    empty = build_batch([], last_offset=9)
    assert kernels.check_batch(empty, 0, len(empty), False)[0] == BatchStatus.OK
    compacted = bytearray(compacted)
    compacted[-1] ^= 1
    assert kernels.check_batch(compacted, 0, len(compacted), False)[0] == BatchStatus.BAD_CRC


ACCEPTED = {
    "plain": raw_record(),
    "record attributes": raw_record(attributes=b"\xff"),
    "key length -2": raw_record(key=varint(-2)),
    "value length -5": raw_record(value=varint(-5)),
    "header value length -3": raw_record(headers=varint(1) + varint(1) + b"h" + varint(-3)),
    "header key is not UTF-8": raw_record(headers=varint(1) + varint(1) + b"\xff" + varint(-1)),
    "empty header key": raw_record(headers=varint(1) + varint(0) + varint(0)),
    "varint of 5 bytes": raw_record(offset_delta=b"\x80\x80\x80\x80\x00"),
    "varint with bits that do not fit": raw_record(offset_delta=b"\x80\x80\x80\x80\x70"),
    "varlong of 10 bytes": raw_record(timestamp_delta=b"\x80" * 9 + b"\x00"),
    "varlong with bits that do not fit": raw_record(timestamp_delta=b"\x80" * 9 + b"\x7e"),
    "long form of the length": b"\x8e\x80\x80\x80\x00" + raw_record()[1:],
}
REFUSED = {
    "header count -1": raw_record(headers=varint(-1)),
    "header count too large": raw_record(headers=varint(2**31 - 1)),
    "header without key": raw_record(headers=varint(1) + varint(-1) + varint(-1)),
    "header key too long": raw_record(headers=varint(1) + varint(9) + b"h" + varint(-1)),
    "bytes behind the headers": raw_record(headers=b"\x00x"),
    "length too short": raw_record(length=5),
    "length too long": raw_record(length=50),
    "length 0": b"\x00",
    "length negative": varint(-5) + raw_record()[1:],
    "length largest": varint(2**31 - 1) + raw_record()[1:],
    "length smallest": varint(-(2**31)) + raw_record()[1:],
    "length cut off": b"\x80",
    "varint of 6 bytes": raw_record(offset_delta=b"\x80\x80\x80\x80\x80\x00"),
    "varlong of 11 bytes": raw_record(timestamp_delta=b"\x80" * 10 + b"\x00"),
    "key too long": raw_record(key=varint(100)),
    "key of the largest length": raw_record(key=varint(2**31 - 1)),
    "value too long": raw_record(value=varint(3) + b"v"),
    "nothing but attributes": b"\x02\x00",
    "byte behind the records": raw_record() + b"\x00",
    "record behind the records": raw_record() + raw_record(offset_delta=b"\x02"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted_records(kernels: ModuleType, name: str) -> None:
    assert check(kernels, raw_batch(ACCEPTED[name])).status == BatchStatus.OK
    assert kernels.check_records(ACCEPTED[name], 1, BASE_TIMESTAMP)[0] == BatchStatus.OK


@pytest.mark.parametrize("name", REFUSED)
def test_refused_records(kernels: ModuleType, name: str) -> None:
    found = check(kernels, raw_batch(REFUSED[name]))
    assert (found.status, found[-3:]) == (BatchStatus.BAD_RECORD, (-1, -1, -1))
    assert kernels.check_records(REFUSED[name], 1, BASE_TIMESTAMP)[0] == BatchStatus.BAD_RECORD


@pytest.mark.parametrize("deltas", [(1,), (-1,), (1, 0), (0, 0), (0, 2)])
def test_offset_deltas_out_of_order_are_told_apart(kernels: ModuleType, deltas: tuple[int, ...]) -> None:
    payload = b"".join(raw_record(offset_delta=varint(delta)) for delta in deltas)
    found = check(kernels, raw_batch(payload, len(deltas)))
    assert found.status == BatchStatus.BAD_OFFSETS
    assert (found.walk_max_timestamp, found.first_null_key_index) == (BASE_TIMESTAMP, 0)


def test_timestamps_wrap_around_as_in_java(kernels: ModuleType) -> None:
    payload = raw_record(timestamp_delta=varint(2**63 - 1)) + raw_record(offset_delta=b"\x02")
    assert kernels.check_records(payload, 2, 5) == (BatchStatus.OK, 5, 1, 0)
    assert kernels.check_records(payload, 2, -1) == (BatchStatus.OK, 2**63 - 2, 0, 0)


def test_no_timestamp_leaves_the_maximum_unset(kernels: ModuleType) -> None:
    found = check(kernels, build_batch([Record(b"a"), Record(b"b", b"k")]))
    assert (found.status, found[-3:]) == (BatchStatus.OK, (-1, -1, 0))


@pytest.mark.parametrize("count", [0, -1, 3])
def test_records_that_do_not_number_the_count(kernels: ModuleType, count: int) -> None:
    payload = raw_record() + raw_record(offset_delta=b"\x02")
    assert kernels.check_records(payload, count, 0) == (BatchStatus.BAD_COUNT, -1, -1, -1)


@pytest.mark.parametrize("count", [100, 1100])
def test_sizes_where_the_lock_of_the_interpreter_is_released(kernels: ModuleType, count: int) -> None:
    data = bytearray(build_batch([Record(bytes(1000), b"k", index) for index in range(count)]))
    lying = bytearray(data)
    struct.pack_into(">i", lying, COUNT_AT, count + 1)
    struct.pack_into(">i", lying, LAST_OFFSET_DELTA_AT, count)
    rewrite_crc(lying)
    payload = bytes(data[HEADER_SIZE:])

    def look() -> list[object]:
        return [
            check(kernels, data),
            check(kernels, lying).status,
            kernels.check_records(payload, count, 0),
            kernels.crc32c(payload),
            kernels.seek_timestamp(payload, count, 0, count - 1),
        ]

    with ThreadPoolExecutor(2) as threads:
        answers = [look(), *(future.result() for future in [threads.submit(look) for _ in range(4)])]
    found = check(kernels, data)
    assert (found.status, found.walk_max_timestamp, found.first_null_key_index) == (BatchStatus.OK, count - 1, -1)
    walked = (BatchStatus.OK, count - 1, count - 1, -1)
    expected = [found, BatchStatus.BAD_COUNT, walked, reference(payload), (count - 1, count - 1)]
    assert answers == [expected] * 5
