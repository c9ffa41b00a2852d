"""Columns out of record batches: the compiled kernel, its twin and the reading of whole records say the same."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from moldau.kernels import Column, RunEnd, _native, columns
from moldau.wire.batch import HEADER_SIZE, parse_header
from moldau.wire.records import Batch, Record, build_batch, iter_records
from tests.support.record_strategies import REGIONS, batches, damaged_batches

FAR = 2**63 - 1
MOST = 2**31 - 1
WANTS = st.integers(0, 63) | st.just(63)
ROOMS = st.integers(0, 400) | st.just(MOST)


def plain(taken: Any) -> Any:
    """What `take` gave, with its buffers as bytes."""
    if isinstance(taken, tuple):
        return tuple(plain(part) for part in taken)
    return taken if taken is None or isinstance(taken, int) else bytes(taken)


class Twins:
    """Both implementations, asked the same; fails where they differ."""

    def __init__(self, *arguments: int) -> None:
        self.both = (_native.RecordColumns(*arguments), columns.RecordColumns(*arguments))

    def agreed(self, name: str, *arguments: Any) -> Any:
        answers: list[Any] = []
        for one in self.both:
            try:
                answers.append(getattr(one, name)(*arguments))
            except ValueError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]
        return answers[0]

    def take(self) -> Any:
        native, python = self.both
        assert (native.rows, native.bytes) == (python.rows, python.bytes)
        taken = [plain(one.take()) for one in self.both]
        assert taken[0] == taken[1]
        assert native.rows == python.rows == native.bytes == python.bytes == 0
        return taken[0]


def bytes_rows(column: Any, rows: int) -> list[bytes | None]:
    validity, offsets, data, nulls = column
    ends = struct.unpack(f"{rows + 1}i", offsets)
    present = [validity is None or bool(validity[row >> 3] >> (row & 7) & 1) for row in range(rows)]
    assert nulls == present.count(False)
    return [data[ends[row] : ends[row + 1]] if present[row] else None for row in range(rows)]


def records_of(taken: Any) -> list[Record]:
    """All columns read back, timestamps in microseconds."""
    rows, key, value, offset, timestamp, _, headers = taken
    keys, values = bytes_rows(key, rows), bytes_rows(value, rows)
    offsets, timestamps = struct.unpack(f"{rows}q", offset), struct.unpack(f"{rows}q", timestamp)
    validity, list_offsets, null_lists, count, header_keys, header_values = headers
    names, contents = bytes_rows(header_keys, count), bytes_rows(header_values, count)
    pairs = [(name.decode(), content) for name, content in zip(names, contents, strict=True) if name is not None]
    ends = struct.unpack(f"{rows + 1}i", list_offsets)
    assert null_lists == sum(ends[row] == ends[row + 1] for row in range(rows))
    assert (validity is None) == (null_lists == 0)
    return [
        Record(values[row], keys[row], timestamps[row], tuple(pairs[ends[row] : ends[row + 1]]), offsets[row])
        for row in range(rows)
    ]


def expected(data: bytes, start: int = 0, stop: int = FAR) -> list[Record]:
    return [
        Record(record.value, record.key, record.timestamp * 1000, record.headers, record.offset)
        for record in iter_records(data)
        if start <= record.offset < stop
    ]


@given(st.lists(batches(), max_size=3), st.data(), ROOMS)
def test_a_run_of_batches_holds_their_records_once(parts: list[bytes], choice: st.DataObject, room: int) -> None:
    """Whatever the room, going on from where a full one ended gives every record of the range once."""
    heads = [parse_header(part) for part in parts]
    start = choice.draw(st.integers(0, 2**40 + 20) | st.sampled_from([0, *(head.base_offset + 1 for head in heads)]))
    stop = choice.draw(st.just(FAR) | st.sampled_from([0, *(head.last_offset for head in heads)]))
    found: list[Record] = []
    wanted: list[Record] = []
    position, next_offset = 0, start
    for part, head in zip(parts, heads, strict=True):
        if head.base_offset >= stop:
            break
        wanted += expected(part, start, stop) if head.last_offset >= start and not head.is_control else []
        start = max(start, head.last_offset + 1)
    region = b"".join(parts) + b"cut off"
    twins = Twins(63)
    while True:
        answer = twins.agreed("append_run", region, position, len(region), next_offset, stop, room, True, False)
        position, next_offset, how = answer
        rows = records_of(twins.take())
        assert len(rows) <= 1 or room == MOST or how != RunEnd.FULL or sum(map(row_size, rows)) <= room
        found += rows
        if how == RunEnd.SPECIAL:
            size = parse_header(region, position).size
            next_offset = parse_header(region, position).last_offset + 1
            position += size
        elif how != RunEnd.FULL:
            break
    assert found == wanted


def row_size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + 32


@given(batches((0, 1, 2, 3, 4)), st.data(), ROOMS)
def test_one_batch_of_any_codec(data: bytes, choice: st.DataObject, room: int) -> None:
    head = parse_header(data)
    start = choice.draw(st.integers(head.base_offset, head.last_offset + 1))
    stop = choice.draw(st.integers(start, head.last_offset + 1))
    payload = bytes(Batch(head, memoryview(data)).payload())
    wanted = expected(data, start, stop)
    twins, found = Twins(63), []
    while start <= head.last_offset:
        start = twins.agreed("append_batch", data[:HEADER_SIZE], payload, start, stop, room)
        found += records_of(twins.take())
    assert found == wanted


@given(REGIONS | damaged_batches(), st.data(), WANTS, ROOMS, st.booleans(), st.booleans())
def test_hostile_regions(
    data: bytes, choice: st.DataObject, want: int, room: int, check_crc: bool, transactional: bool
) -> None:
    position = choice.draw(st.integers(0, len(data)) | st.just(0))
    limit = choice.draw(st.integers(position, len(data)) | st.just(len(data)))
    start, stop = choice.draw(st.integers(-1, 9) | st.just(0)), choice.draw(st.just(FAR) | st.integers(-1, 2**40))
    twins = Twins(want, 10)
    answer = twins.agreed("append_run", data, position, limit, start, stop, room, check_crc, transactional)
    if isinstance(answer, tuple):
        twins.take()


@given(REGIONS, st.integers(0, 90))
def test_skimming(data: bytes, position: int) -> None:
    position = min(position, len(data))
    skimmed = _native.skim_batches(data, position, len(data))
    assert skimmed == columns.skim_batches(data, position, len(data))
    assert skimmed[2] == len(_native.scan_batches(data, position, len(data)))


@given(damaged_batches() | st.binary(min_size=61, max_size=200), st.binary(max_size=60) | st.none(), WANTS, ROOMS)
def test_hostile_records(data: bytes, payload: bytes | None, want: int, room: int) -> None:
    records = data[HEADER_SIZE:] if payload is None else payload
    twins = Twins(want)
    if isinstance(twins.agreed("append_batch", data, records, 0, FAR, room), int):
        twins.take()


@given(batches(), st.integers(-1, 2**42), st.integers(-1, 2**42))
def test_timestamps_leave_rows_out(data: bytes, low: int, high: int) -> None:
    twins = Twins(63, 0, low * 1000, high * 1000 + 999)
    twins.agreed("append_batch", data, data[HEADER_SIZE:], 0, FAR, MOST)
    assert records_of(twins.take()) == [record for record in expected(data) if low <= record.timestamp // 1000 <= high]


@given(st.binary(max_size=12))
@example(b"\xe2\x82\xac\xe2\x82\xf0\x9f\x98\x80\xed\xa0\x80\xc0\x80\xf4\x90")
def test_header_keys_that_are_no_text(name: bytes) -> None:
    record = Record(value=b"", headers=((name.decode("utf-8", "surrogateescape"), b"x"),))
    data = build_batch([record, record])
    twins = Twins(Column.HEADERS)
    twins.agreed("append_run", data, 0, len(data), 0, FAR, MOST, True, True)
    assert bytes_rows(twins.take()[6][4], 2) == [name.decode("utf-8", "replace").encode()] * 2
