"""Many batches by their headers, records as values, and the buffers and arguments that are taken."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import moldau.kernels
from moldau.kernels import BatchStatus
from moldau.wire.batch import HEADER_SIZE, MAGIC_AT
from moldau.wire.records import Record, build_batch

FIRST = build_batch([Record(b"a", timestamp=5), Record(b"b", timestamp=9)], base_offset=100, leader_epoch=1)
SECOND = build_batch([Record(b"c" * 500, timestamp=7)], base_offset=102, leader_epoch=2)
THIRD = build_batch([Record(b"d", timestamp=8)], base_offset=110, offsets=[112], last_offset=119, leader_epoch=2)
REGION = FIRST + SECOND + THIRD
AT_SECOND = len(FIRST)
AT_THIRD = len(FIRST + SECOND)
PLACES = [
    (100, 101, 0, len(FIRST), 9, 1),
    (102, 102, AT_SECOND, len(SECOND), 7, 2),
    (110, 119, AT_THIRD, len(THIRD), 8, 2),
]


def test_scan_lists_whole_batches(kernels: ModuleType) -> None:
    assert kernels.scan_batches(REGION, 0, len(REGION)) == PLACES
    assert kernels.scan_batches(REGION, AT_SECOND, len(REGION)) == PLACES[1:]
    assert kernels.scan_batches(REGION, 0, len(REGION) - 1) == PLACES[:2]
    assert kernels.scan_batches(REGION, 0, AT_THIRD + 30) == PLACES[:2]
    assert kernels.scan_batches(b"", 0, 0) == []


def test_scan_stops_at_what_is_no_batch(kernels: ModuleType) -> None:
    region = bytearray(REGION)
    region[AT_THIRD + MAGIC_AT] = 1
    assert kernels.scan_batches(region, 0, len(region)) == PLACES[:2]
    zeros = REGION + bytes(200)
    assert kernels.scan_batches(zeros, 0, len(zeros)) == PLACES


def plain(base_offset: int, *, epoch: int = 1, timestamp: int = 5, size: int = 1, **options: object) -> bytes:
    record = Record(b"v" * size, timestamp=timestamp)
    return build_batch([record], base_offset=base_offset, leader_epoch=epoch, **options)  # type: ignore[arg-type]


def test_a_run_of_plain_batches_is_checked_at_once(kernels: ModuleType) -> None:
    region = plain(3) + plain(4, timestamp=9) + plain(9, timestamp=9) + plain(10, timestamp=2)
    one = len(plain(3))
    assert kernels.check_run(region, 0, len(region), 3, 1, 10_000) == (len(region), 11, 9, 4)
    assert kernels.check_run(region, one, len(region) - 1, 0, 1, 10_000) == (3 * one, 10, 9, 4)
    assert kernels.check_run(region, 0, len(region), 0, 1, one) == (2 * one, 5, 9, 4)
    assert kernels.check_run(region, 0, len(region), 0, 1, one - 1) == (one, 4, 5, 3)
    assert kernels.check_run(region, 0, len(region), 0, 1, -1) == (0, 0, -1, -1)


@pytest.mark.parametrize(
    "other",
    [
        plain(4, epoch=2),
        plain(3),
        plain(4, producer_id=7, producer_epoch=0, base_sequence=0),
        plain(4, control=True),
        plain(4, size=5000),
        plain(4)[:-1] + b"!",
        plain(4)[:-1],
        bytes(100),
        b"",
    ],
)
def test_a_run_ends_before_anything_else(kernels: ModuleType, other: bytes) -> None:
    region = plain(3) + other
    assert kernels.check_run(region, 0, len(region), 0, 1, 10_000) == (len(plain(3)), 4, 5, 3)


@pytest.mark.parametrize(
    ("target", "position"),
    [(0, 0), (100, 0), (101, 0), (102, AT_SECOND), (103, AT_THIRD), (110, AT_THIRD), (119, AT_THIRD), (120, -1)],
)
def test_locate_finds_the_batch_that_reaches_an_offset(kernels: ModuleType, target: int, position: int) -> None:
    assert kernels.locate_batch(REGION, 0, len(REGION), target) == position
    assert kernels.seek_batch(REGION, 0, len(REGION), target) == (
        (True, position) if position >= 0 else (False, len(REGION))
    )


def test_locating_needs_headers_only(kernels: ModuleType) -> None:
    view = REGION[: AT_SECOND + HEADER_SIZE]
    assert kernels.locate_batch(view, 0, len(view), 102) == AT_SECOND
    assert kernels.locate_batch(view, 0, len(view), 103) == -1
    assert kernels.seek_batch(view, 0, len(view), 103) == (False, AT_THIRD)
    shorter = view[:-1]
    assert kernels.seek_batch(shorter, 0, len(shorter), 102) == (False, AT_SECOND)


def test_seeking_stays_at_what_is_no_batch(kernels: ModuleType) -> None:
    region = FIRST + bytes(100)
    assert kernels.seek_batch(region, 0, len(region), 102) == (False, AT_SECOND)


def test_records_as_values(kernels: ModuleType) -> None:
    headers = (("text ü", b"1"), ("none", None), ("text ü", b""))
    batch = build_batch([Record(b"v", None, 50, headers), Record(None, b"k", 40)], offsets=[0, 7])
    payload = batch[HEADER_SIZE:]
    first_end = payload[0] // 2 + 1
    assert kernels.decode_records(payload, 2) == [
        (0, 0, 0, None, b"v", headers, 0, first_end),
        (7, -10, 0, b"k", None, (), first_end, len(payload)),
    ]
    assert kernels.records_spans(payload, 2) == [
        (0, 0, None, True, 0, first_end),
        (7, -10, b"k", False, first_end, len(payload)),
    ]


def test_header_keys_that_are_not_utf8_come_back_unchanged(kernels: ModuleType) -> None:
    payload = build_batch([Record(b"v", headers=(("\udcff\udc80", b"x"),))])[HEADER_SIZE:]
    assert b"\xff\x80" in payload
    assert kernels.decode_records(payload, 1)[0][5] == (("\udcff\udc80", b"x"),)


def test_malformed_records_raise(kernels: ModuleType) -> None:
    payload = build_batch([Record(b"v"), Record(b"w")])[HEADER_SIZE:]
    for read in (kernels.decode_records, kernels.records_spans):
        assert len(read(payload, 2)) == 2
        assert read(b"", 0) == []
        with pytest.raises(ValueError, match="record 2 of 3 is malformed"):
            read(payload, 3)
        with pytest.raises(ValueError, match="bytes follow the last of 1 records"):
            read(payload, 1)
        with pytest.raises(ValueError, match="record 1 of 2 is malformed"):
            read(payload[:-1], 2)
    with pytest.raises(ValueError, match="malformed"):
        kernels.seek_timestamp(payload[:-1], 2, 0, 5)


def test_seek_timestamp(kernels: ModuleType) -> None:
    times = [100, 90, 120, 120, 80]
    payload = build_batch([Record(b"v", timestamp=time) for time in times])[HEADER_SIZE:]

    def seek(target: int, least: int = 0) -> tuple[int, int] | None:
        found: tuple[int, int] | None = kernels.seek_timestamp(payload, len(times), times[0], target, least)
        return found

    assert seek(0) == (0, 100)
    assert seek(101) == (2, 120)
    assert seek(120, 3) == (3, 120)
    assert seek(80, 4) == (4, 80)
    assert seek(121) is None
    assert kernels.seek_timestamp(payload, len(times), times[0], 90) == (0, 100)


def test_any_contiguous_buffer(kernels: ModuleType, tmp_path: Path) -> None:
    expected = kernels.check_batch(FIRST, 0, len(FIRST))
    path = tmp_path / "segment"
    path.write_bytes(FIRST)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert kernels.check_batch(mapped, 0, len(FIRST)) == expected
        assert kernels.crc32c(mapped) == kernels.crc32c(FIRST)
    wide = memoryview(FIRST + bytes(-len(FIRST) % 4)).cast("I")
    for data in (bytearray(FIRST), memoryview(FIRST), memoryview(bytearray(FIRST)).toreadonly(), wide):
        assert kernels.check_batch(data, 0, len(FIRST)) == expected
    with pytest.raises(BufferError):
        kernels.check_batch(memoryview(FIRST)[::2], 0, 10)
    with pytest.raises(TypeError):
        kernels.check_batch("text", 0, 4)


def test_a_buffer_is_free_again_after_the_call(kernels: ModuleType) -> None:
    data = bytearray(FIRST)
    kernels.check_batch(data, 0, len(data))
    kernels.scan_batches(data, 0, len(data))
    kernels.seek_batch(data, 0, len(data), 5)
    kernels.decode_records(data[HEADER_SIZE:], 2)
    kernels.crc32c(data)
    with pytest.raises(ValueError):
        kernels.check_batch(data, 0, len(data) + 1)
    data += b"can be resized"


@pytest.mark.parametrize(("position", "limit"), [(-1, 5), (0, len(REGION) + 1), (6, 5), (-5, -1)])
def test_windows_outside_the_buffer(kernels: ModuleType, position: int, limit: int) -> None:
    for call in (kernels.check_batch, kernels.scan_batches):
        with pytest.raises(ValueError, match=f"window {position}..{limit} lies outside the buffer"):
            call(REGION, position, limit)
    with pytest.raises(ValueError, match="lies outside"):
        kernels.locate_batch(REGION, position, limit, 0)


def test_wrong_arguments(kernels: ModuleType) -> None:
    for call, arguments in [
        (kernels.check_batch, (REGION,)),
        (kernels.check_batch, (REGION, 0, 5, True, 1)),
        (kernels.check_records, (REGION, 1)),
        (kernels.scan_batches, (REGION, 0)),
        (kernels.locate_batch, (REGION, 0, 5)),
        (kernels.decode_records, (REGION,)),
        (kernels.seek_timestamp, (REGION, 1, 2)),
        (kernels.crc32c, ()),
    ]:
        with pytest.raises(TypeError):
            call(*arguments)
    for call, arguments in [(kernels.check_batch, (REGION, "0", 5)), (kernels.decode_records, (REGION, "1"))]:
        with pytest.raises(TypeError):
            call(*arguments)


def test_the_compiled_kernels_are_in_use() -> None:
    assert moldau.kernels.NATIVE
    assert moldau.kernels.check_batch(REGION, 0, len(REGION))[0] == BatchStatus.OK


def test_the_twin_can_be_asked_for() -> None:
    program = "import moldau.kernels as k, sys; print(k.NATIVE, k.check_batch.__module__, 'crc32c' in sys.modules)"
    environment = {**os.environ, "MOLDAU_KERNELS": "python"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["False", "moldau.kernels.python", "False"]
