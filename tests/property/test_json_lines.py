"""Rows of JSON as lines: the compiled kernel and its twin agree, and no row can disturb another."""

from __future__ import annotations

import json
import struct

from hypothesis import example, given
from hypothesis import strategies as st

from moldau.kernels import _native, json_lines
from moldau.kernels.json_rows import json_lines as twin
from moldau.kernels.signatures import BytesSource

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.builds(
    lambda value, indent: json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    st.dictionaries(st.text(max_size=3), JSON, max_size=3),
    st.none() | st.integers(0, 2),
)
NOISE = st.lists(st.sampled_from([*b'{}[]",:\\ \n\t1a\xc3\xa9\xff']), max_size=12).map(bytes) | st.binary(max_size=8)
ROWS = st.lists(st.none() | OBJECTS | NOISE, max_size=6)


def column(rows: list[bytes | None]) -> BytesSource:
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row or b""))
    bits = sum(1 << index for index, row in enumerate(rows) if row is not None)
    validity = bits.to_bytes(len(rows) // 8 + 1, "little")
    return validity, struct.pack(f"{len(ends)}i", *ends), b"".join(row or b"" for row in rows), 0, False


def is_object(row: bytes) -> bool:
    try:
        return isinstance(json.loads(row.decode()), dict)
    except ValueError:
        return False


@given(ROWS)
@example(['{"\\é"}'.encode(), b'{"\\\xa9"}', b'{"\\', b'{"\\"}'])
def test_kernel_and_twin_agree_and_rows_keep_their_place(rows: list[bytes | None]) -> None:
    lines, refused = _native.json_lines(column(rows), len(rows))
    assert (bytes(lines), refused) == twin(column(rows), len(rows))
    assert json_lines(column(rows), len(rows))[1] == refused
    expected = [b"{}" if row is None or index in refused else row for index, row in enumerate(rows)]
    assert bytes(lines) == b"".join(line + b"\n" for line in expected)
    for index, row in enumerate(rows):
        if row is not None and is_object(row):
            assert index not in refused


@given(ROWS.filter(bool), st.integers(0, 3))
def test_a_slice_of_a_column(rows: list[bytes | None], first: int) -> None:
    first = min(first, len(rows) - 1)
    validity, offsets, data, _, wide = column(rows)
    part: BytesSource = (validity, offsets, data, first, wide)
    found = _native.json_lines(part, len(rows) - first)
    whole = _native.json_lines(column(rows[first:]), len(rows) - first)
    assert (bytes(found[0]), found[1]) == (bytes(whole[0]), whole[1])


def test_two_objects_or_half_of_one_are_no_row() -> None:
    rows: list[bytes | None] = [
        b'{"a":1}{"a":2}',
        b'{"a":1',
        b"}",
        b'{"a":1}],"w":[1',
        b"",
        b" ",
        b"5",
        b'{"a":"}"} ',
        None,
    ]
    lines, refused = _native.json_lines(column(rows), len(rows))
    assert refused == (0, 1, 2, 3, 4, 5, 6)
    assert bytes(lines).split(b"\n")[7] == b'{"a":"}"} '
