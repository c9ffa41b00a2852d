"""Templates and JSON lines of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.records.record_format import FormatError, Record, from_json, json_line, template, unescape

RECORD = Record("orders", 3, 42, 1_714_566_600_250, 1, b"k\xff", b'va"l', [("h1", b"x"), ("h2", None)])


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%k\t%v\n", b'k\xff\tva"l\n'),
        ("%s %S %K %V", b'va"l 4 2 4'),
        ("%t-%p@%o", b"orders-3@42"),
        ("%T %d", b"1714566600250 2024-05-01T12:30:00.250Z"),
        ("%d{%Y/%m}", b"2024/05"),
        ("%h %H %h{h1}", b"h1=x,h2=- 2 x"),
        ("%k{hex} %v{base64} %v{json}", b'6bff dmEibA== "va\\"l"'),
        (r"100%%\x41\\", b"100%A\\"),
    ],
)
def test_templates(text: str, printed: bytes) -> None:
    assert template(text, null=b"-")(RECORD) == printed


def test_null_is_told_apart_from_empty() -> None:
    printer = template("[%k][%v] %K %V", null=b"NULL")
    assert printer(Record(key=None, value=b"")) == b"[NULL][] -1 0"


@pytest.mark.parametrize("text", ["%q", "50%", "%v{rot13}", "%o{x}"])
def test_what_is_no_template_is_said(text: str) -> None:
    with pytest.raises(FormatError):
        template(text)


def test_unknown_escapes_stay() -> None:
    assert unescape(r"\d\xZZ") == rb"\d\xZZ"


names = st.text(min_size=1)
data = st.none() | st.binary()


@given(data, data, st.lists(st.tuples(names, data)), st.integers(-1, 2**62))
def test_what_is_printed_as_json_is_read_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> None:
    record = Record("t", 1, 7, timestamp, 1, key, value, headers)
    found = from_json(json_line(record))
    assert (found.key, found.value, list(found.headers), found.timestamp) == (key, value, headers, timestamp)


def test_json_values_become_json_text() -> None:
    found = from_json(b'{"value": {"a": 1}, "headers": {"h": "x"}}')
    assert (found.key, found.value, found.headers) == (None, b'{"a": 1}', [("h", b"x")])


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"headers": [1]}', b'{"value_base64": "?"}', b'{"partition": "x"}'])
def test_what_is_no_record_is_said(line: bytes) -> None:
    with pytest.raises(FormatError):
        from_json(line)
