"""JSON to columns: Arrow's reader and Python's say the same, and what was written is read back."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.spark.values.encoding import encode_batch
from moldau.spark.values.json_values import JsonDecoder
from moldau.spark.values.plan import write_plan
from moldau.spark.values.raw_types import arrow_type

PLAIN = st.sampled_from(
    [BooleanType(), ByteType(), IntegerType(), LongType(), FloatType(), DoubleType(), StringType(), DateType(),
     TimestampType(), TimestampNTZType(), DecimalType(8, 2)]
)  # fmt: skip
KINDS = st.recursive(
    PLAIN,
    lambda inner: st.builds(ArrayType, inner) | st.builds(lambda kind: struct_of([kind]), inner),
    max_leaves=3,
)
WORDS = st.sampled_from(
    ["2024-01-02", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05.123456789+02:00", "2024-01-02T03:04", "12.50", "1e3",
     "NaN", "x", ""]
)  # fmt: skip
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-200, 200)
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=True)
    | WORDS
    | st.text(max_size=3)
)
NAMES = ("a", "b", "c")
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*NAMES, "z"]), inner, max_size=3),
    max_leaves=5,
)
NOISE = st.sampled_from(
    [b"", b" ", b"null", b"5", b"{", b"}", b'{"a":1}{"a":2}', b'{"a":1}],"w":[1', b'{"a":1,"a":2}', b'{"a":"\xff"}',
     b'{"a":1e999}', b'{"a":tru}', b'{"a":01}', b'{"a":"\\ud800"}', b'[{"a":1}]', b'{"a":"\n"}', b'\xef\xbb\xbf{}']
)  # fmt: skip


def struct_of(kinds: list[DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in zip(NAMES, kinds, strict=False)])


@st.composite
def fitting(draw: st.DrawFn, kind: DataType) -> Any:
    """A parsed JSON value that mostly fits a type."""
    if draw(st.integers(0, 9)) == 0:
        return draw(ANYTHING)
    if isinstance(kind, StructType):
        return {field.name: draw(fitting(field.dataType)) for field in kind if draw(st.integers(0, 5))}
    if isinstance(kind, ArrayType):
        return [draw(fitting(kind.elementType)) for _ in range(draw(st.integers(0, 2)))]
    if isinstance(kind, BooleanType):
        return draw(st.booleans())
    if isinstance(kind, FloatType | DoubleType):
        return draw(st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-5, 5))
    if isinstance(kind, StringType):
        return draw(st.text(max_size=4))
    if isinstance(kind, DateType | TimestampType | TimestampNTZType | DecimalType):
        return draw(WORDS)
    return draw(st.integers(-128, 127))


@given(st.lists(KINDS, min_size=1, max_size=3), st.data())
def test_both_readers_say_the_same(kinds: list[DataType], data: st.DataObject) -> None:
    kind = struct_of(kinds)
    rows: list[bytes | None] = []
    for _ in range(data.draw(st.integers(0, 4))):
        value = data.draw(fitting(kind))
        rows.append(data.draw(NOISE | st.none() | st.just(json.dumps(value).encode())))
    column = pa.array(rows, pa.binary())
    decoder = JsonDecoder(kind)
    array, errors = decoder.decode(column)
    by_python, reasons = decoder._decode_by_python(column)
    array.validate(full=True)
    assert array.type == arrow_type(kind)
    assert errors.keys() == reasons.keys()
    assert repr(array.to_pylist()) == repr(by_python.to_pylist()), "repr, since NaN is not equal to itself"
    for row, text in enumerate(rows):
        if row in errors or text is None:
            assert array[row].as_py() is None


def test_one_bad_row_among_many_spoils_no_other() -> None:
    kind = StructType([StructField("n", IntegerType())])
    rows: list[bytes | None] = [b'{"n":%d}' % number for number in range(5000)]
    bad = {17: b'{"n":"x"}', 1999: b"{", 2000: b'{"n":1.5}', 4999: b'{"n":99999999999}'}
    for row, text in bad.items():
        rows[row] = text
    rows[100] = None
    array, errors = JsonDecoder(kind).decode(pa.array(rows, pa.binary()))
    assert errors.keys() == bad.keys()
    assert errors[17] == 'n: "x" is no int'
    found = array.to_pylist()
    assert [row for row, value in enumerate(found) if value is None] == [17, 100, 1999, 2000, 4999]
    assert all(value is None or value["n"] == row for row, value in enumerate(found))


ROUND_TRIP = struct_of([StringType(), DoubleType(), ArrayType(MapType(StringType(), LongType()))])


@given(
    st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "a": st.none() | st.text(max_size=5),
                "b": st.none() | st.floats(),
                "c": st.none()
                | st.lists(
                    st.dictionaries(st.text(max_size=3), st.integers(-5, 5), max_size=2).map(lambda m: list(m.items())),
                    max_size=2,
                ),
            }
        ),
        max_size=4,
    )
)
def test_what_was_written_is_read_back(rows: list[Any]) -> None:
    column = pa.array(rows, arrow_type(ROUND_TRIP))
    batch = pa.RecordBatch.from_arrays([column], names=["value"])
    written = encode_batch(batch, write_plan({"value.format": "json"})).column(0)
    read, errors = JsonDecoder(ROUND_TRIP).decode(written)
    assert errors == {}
    assert repr(read.to_pylist()) == repr(column.to_pylist())
