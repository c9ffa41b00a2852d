"""Rows in Arrow's columns become records: the kernels and their twin agree, and what they write is read back."""

from __future__ import annotations

from array import array
from functools import partial
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from moldau.kernels import _native, encode
from moldau.kernels.signatures import RowSources
from moldau.spark.writing.columns import bytes_source, headers_source, numbers_source
from moldau.wire.records import Record, assemble_batch, iter_records
from tests.support import kernel_twins

INT64 = st.integers(-(2**63), 2**63 - 1)
MICROSECONDS = st.integers(-(2**60), 2**60)
TEXT = st.text(max_size=5)
HEADERS = st.lists(st.tuples(TEXT, st.none() | st.binary(max_size=5)), max_size=3)
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int | None]
ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=40),
        st.none() | HEADERS,
        st.none() | MICROSECONDS,
    ),
    max_size=20,
)


agreed = partial(kernel_twins.agreed, encode)


def sources(rows: list[Row], sliced: bool, wide: bool) -> RowSources:
    """As Spark may hand them over: also a slice of larger arrays, also with 64 bit offsets."""
    padded = [*rows[:1] * 3, *rows, *rows[:1]] if sliced else rows
    binary = pa.large_binary() if wide else pa.binary()
    keys, values, headers, times = (
        pa.array([row[column] for row in padded], kind)
        for column, kind in enumerate((binary, binary, HEADERS_TYPE, pa.timestamp("us", "UTC")))
    )
    if sliced and rows:
        keys, values, headers, times = (column.slice(3, len(rows)) for column in (keys, values, headers, times))
    return bytes_source(keys), bytes_source(values), headers_source(headers), numbers_source(times)


def expected(row: Row, offset: int, default_timestamp: int) -> Record:
    key, value, headers, time = row
    return Record(value, key, default_timestamp if time is None else time // 1000, tuple(headers or ()), offset)


@given(st.binary(max_size=50))
def test_murmur2(data: bytes) -> None:
    assert -(2**31) <= agreed("murmur2", data) < 2**31


@given(ROWS, st.booleans(), st.booleans(), st.integers(0, 2**42), st.integers(0, 300), st.randoms())
def test_records_are_read_back(
    rows: list[Row], sliced: bool, wide: bool, default_timestamp: int, room: int, random: Any
) -> None:
    columns = sources(rows, sliced, wide)
    places = list(range(len(rows)))
    random.shuffle(places)
    order = array("i", places)
    position = 0
    while position < len(rows):
        payload, taken, base, latest = agreed(
            "encode_records", columns, len(rows), order, position, len(rows), default_timestamp, None, 0, room
        )
        assert taken >= 1
        assert taken == 1 or len(payload) <= room
        batch = assemble_batch(
            payload,
            base_offset=0,
            leader_epoch=-1,
            attributes=0,
            last_offset_delta=taken - 1,
            base_timestamp=base,
            max_timestamp=latest,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            count=taken,
        )
        wanted = [expected(rows[places[position + i]], i, default_timestamp) for i in range(taken)]
        assert list(iter_records(batch)) == wanted
        assert latest == max(record.timestamp for record in wanted)
        position += taken


@given(ROWS, st.integers(0, 2**31 - 30), st.none() | INT64, INT64, st.integers(0, 200))
def test_a_batch_goes_on_where_it_ended(
    rows: list[Row], delta: int, base: int | None, default_timestamp: int, room: int
) -> None:
    order = array("i", range(len(rows)))
    agreed(
        "encode_records",
        sources(rows, True, False),
        len(rows),
        order,
        0,
        len(rows),
        default_timestamp,
        base,
        delta,
        room,
    )


@given(ROWS, st.lists(st.integers(1, 7), min_size=1, max_size=3), st.data())
def test_routes(rows: list[Row], counts: list[int], choice: st.DataObject) -> None:
    topics = choice.draw(st.lists(st.integers(0, len(counts) - 1), min_size=len(rows), max_size=len(rows)))
    named = choice.draw(st.lists(st.none() | st.integers(-1, 7), min_size=len(rows), max_size=len(rows)))
    key, *_ = sources(rows, choice.draw(st.booleans()), False)
    started = choice.draw(st.integers(0, 2**40))
    results = []
    for module in (_native, encode):
        seen = array("q", [started] * len(counts))
        try:
            routes: Any = module.route_rows(
                len(rows),
                key,
                array("i", topics),
                array("i", counts),
                numbers_source(pa.array(named, pa.int32())),
                seen,
            )
        except ValueError as error:
            routes = str(error)
        results.append((routes, seen))
    assert results[0] == results[1]
    routes, _ = results[0]
    if isinstance(routes, str):
        assert any(p is not None and not 0 <= p < counts[t] for p, t in zip(named, topics, strict=True))
        return
    order, ends = agreed("order_rows", routes, sum(counts))
    places = list(memoryview(order).cast("i"))
    assert sorted(places) == list(range(len(rows)))
    assert ends[-1] == len(rows)
    route_of = memoryview(routes).cast("i")
    assert [route_of[row] for row in places] == sorted(route_of)


@given(ROWS, st.randoms(), st.integers(0, 20))
def test_digests_ignore_the_order_and_add_up(rows: list[Row], random: Any, cut: int) -> None:
    salts = array("Q", [7])
    whole = agreed("digest_rows", sources(rows, True, False), len(rows), None, salts, None)
    shuffled = list(rows)
    random.shuffle(shuffled)
    parts = [
        agreed("digest_rows", sources(part, False, True), len(part), None, salts, None)
        for part in (shuffled[:cut], shuffled[cut:])
    ]
    assert sum(parts) % 2**64 == whole


@given(ROWS.filter(bool), st.data())
def test_another_row_is_another_digest(rows: list[Row], choice: st.DataObject) -> None:
    salts = array("Q", [7, 1 << 40])
    changed = list(rows)
    place = choice.draw(st.integers(0, len(rows) - 1))
    changed[place] = (b"another key", *rows[place][1:])
    topics = array("i", [0] * len(rows))
    digests = [
        agreed("digest_rows", sources(rows, False, False), len(rows), topics, salts, None),
        agreed("digest_rows", sources(changed, False, False), len(rows), topics, salts, None),
        agreed("digest_rows", sources(rows, False, False), len(rows), array("i", [1] * len(rows)), salts, None),
        agreed("digest_rows", sources(rows, False, False), len(rows), topics, salts, (None, topics, 0)),
        agreed("digest_rows", sources(rows[1:], False, False), len(rows) - 1, topics, salts, None),
    ]
    assert len(set(digests)) == len(digests)


@given(
    st.lists(st.integers(-3, 30), min_size=1, max_size=8),
    st.binary(max_size=20),
    st.none() | st.binary(max_size=2),
    st.integers(0, 3),
    st.integers(0, 8),
)
def test_senseless_columns_are_refused(
    offsets: list[int], data: bytes, validity: bytes | None, first: int, length: int
) -> None:
    column = (validity, array("i", offsets), data, first, False)
    headers = (validity, array("i", offsets), first, False, column, column)
    order = array("i", [*range(length), length])
    for stop in (length, length + 1):
        for rows in ((column, column, None, None), (None, None, headers, None), (None, column, headers, None)):
            agreed("encode_records", rows, length, order, 0, stop, 0, None, 0, 1000)
            agreed("digest_rows", rows, length, None, array("Q", [1]), None)
    agreed("route_rows", length, column, None, array("i", [3]), None, array("q", [0]))
