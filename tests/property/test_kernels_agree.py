"""The compiled kernels and their twin say the same of anything: good batches, damaged ones, plain noise."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from moldau.kernels import BatchStatus, _native, python
from moldau.wire.batch import HEADER_SIZE
from tests.support import kernel_twins
from tests.support.record_strategies import INT64, REGIONS, batches, damaged_batches

COUNT_AT = 57
COUNTS = st.integers(-2, 40) | st.just(2**31 - 1)
PAYLOADS = st.binary(max_size=60) | st.builds(lambda data: data[HEADER_SIZE:], batches() | damaged_batches())


agreed = partial(kernel_twins.agreed, python)


@given(batches())
def test_good_batches(data: bytes) -> None:
    status = agreed("check_batch", data, 0, len(data))[0]
    assert status in (BatchStatus.OK, BatchStatus.BAD_COUNT)  # the latter where offsets have gaps
    assert agreed("check_batch", data, 0, len(data), False)[0] == BatchStatus.OK


@given(damaged_batches() | st.binary(max_size=120))
def test_damaged_batches(data: bytes) -> None:
    agreed("check_batch", data, 0, len(data))
    agreed("check_batch", data, 0, len(data), False)


@given(REGIONS, st.data(), INT64)
def test_regions(data: bytes, choice: st.DataObject, target: int) -> None:
    position = choice.draw(st.integers(0, len(data)))
    limit = choice.draw(st.integers(position, len(data)))
    for start, end in ((0, len(data)), (position, limit)):
        places = agreed("scan_batches", data, start, end)
        for offset in (target, *(place[1] for place in places)):
            agreed("locate_batch", data, start, end, offset)
            agreed("seek_batch", data, start, end, offset)


@given(REGIONS, st.integers(-1, 2), st.integers(-1, 400), st.data())
def test_runs(data: bytes, leader_epoch: int, room: int, choice: st.DataObject) -> None:
    position = choice.draw(st.integers(0, len(data)))
    for place in (0, position):
        for next_offset in (-(2**63), 0, 7):
            end, _, _, _ = agreed("check_run", data, place, len(data), next_offset, leader_epoch, room)
            assert place <= end <= len(data)


@given(damaged_batches(), st.data())
def test_nothing_outside_the_window_matters(data: bytes, choice: st.DataObject) -> None:
    position = choice.draw(st.integers(0, 9))
    limit = choice.draw(st.integers(position, len(data)))
    part = data[position:limit]
    for name in ("check_batch", "scan_batches"):
        inside = getattr(_native, name)(data, position, limit)
        alone = getattr(_native, name)(part, 0, len(part))
        if name == "scan_batches":
            inside = [(*place[:2], place[2] - position, *place[3:]) for place in inside]
        assert inside == alone


@given(PAYLOADS, COUNTS, INT64, INT64, st.integers(0, 5))
def test_records(payload: bytes, count: int, base_timestamp: int, target: int, least: int) -> None:
    status = agreed("check_records", payload, count, base_timestamp)[0]
    decoded = agreed("decode_records", payload, count)
    spans = agreed("records_spans", payload, count)
    agreed("seek_timestamp", payload, count, base_timestamp, target, least)
    readable = isinstance(decoded, list)
    assert readable == isinstance(spans, list)
    if status in (BatchStatus.OK, BatchStatus.BAD_OFFSETS):
        assert readable and len(decoded) == count
    elif count > 0:
        assert not readable


@given(batches())
def test_records_of_good_batches(data: bytes) -> None:
    payload, count = data[HEADER_SIZE:], int.from_bytes(data[COUNT_AT:HEADER_SIZE], "big")
    decoded = agreed("decode_records", payload, count)
    spans = agreed("records_spans", payload, count)
    assert [(d[0], d[1], d[3], d[4] is not None, d[6], d[7]) for d in decoded] == spans
    assert [span[4] for span in spans] == [0, *(span[5] for span in spans)][:-1]
    assert spans[-1][5] == len(payload)


@given(st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_checksums(data: bytes, value: int) -> None:
    whole = agreed("crc32c", data, value)
    assert _native.crc32c_portable(data, value) == whole
    half = len(data) // 2
    assert agreed("crc32c", data[half:], agreed("crc32c", data[:half], value)) == whole
