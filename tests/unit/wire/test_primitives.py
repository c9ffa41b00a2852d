"""How lengths and texts are read that a well-behaved client does not send."""

from __future__ import annotations

import struct

import pytest

from moldau.wire import primitives
from moldau.wire.primitives import DecodeError, uvarint


@pytest.mark.parametrize("size", [-1, -2, -(2**15)])
def test_a_string_of_any_negative_length_is_null(size: int) -> None:
    assert primitives.read_string(struct.pack(">h", size), 0, "field") == (None, 2)


@pytest.mark.parametrize("size", [-1, -2, -(2**31)])
def test_bytes_and_arrays_of_any_negative_length_are_null(size: int) -> None:
    raw = struct.pack(">i", size)
    assert primitives.read_bytes(raw, 0, "field") == (None, 4)
    assert primitives.read_count(raw, 0, "field")[0] < 0


@pytest.mark.parametrize("written", [0, 2**31 + 1, 2**32 - 1])
def test_a_compact_length_with_a_sign_is_null(written: int) -> None:
    raw = uvarint(written)
    assert primitives.read_compact_string(raw, 0, "field") == (None, len(raw))
    assert primitives.read_compact_bytes(raw, 0, "field") == (None, len(raw))
    assert primitives.read_compact_count(raw, 0, "field")[0] < 0


def test_the_largest_compact_length_is_not_null() -> None:
    with pytest.raises(DecodeError):
        primitives.read_compact_string(uvarint(2**31), 0, "field")


def test_a_compact_string_is_no_longer_than_a_legacy_one() -> None:
    longest = b"x" * 0x7FFF
    assert primitives.read_compact_string(uvarint(len(longest) + 1) + longest, 0, "field")[0] == longest.decode()
    with pytest.raises(DecodeError, match="32768 bytes is too long"):
        primitives.read_compact_string(uvarint(len(longest) + 2) + longest + b"x", 0, "field")


def test_bits_of_a_variable_length_integer_beyond_32_are_dropped() -> None:
    assert primitives.read_uvarint(b"\x81\x80\x80\x80\x7f", 0) == (0xF0000001, 5)
    with pytest.raises(DecodeError):
        primitives.read_uvarint(b"\x80\x80\x80\x80\x80\x00", 0)


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"\xff\xfe", "\ufffd\ufffd"), (b"a\xc3", "a\ufffd"), (b"\xe2\x82x", "\ufffdx"), ("ž".encode(), "ž")],
)
def test_what_is_not_utf8_is_replaced(raw: bytes, text: str) -> None:
    assert primitives.read_string(struct.pack(">h", len(raw)) + raw, 0, "field")[0] == text
    assert primitives.read_compact_string(uvarint(len(raw) + 1) + raw, 0, "field")[0] == text


def test_lengths_behind_the_end_are_refused() -> None:
    for read, raw in (
        (primitives.read_string, b"\x00\x03ab"),
        (primitives.read_compact_string, b"\x04ab"),
        (primitives.read_bytes, b"\x00\x00\x00\x03ab"),
        (primitives.read_compact_bytes, b"\x04ab"),
        (primitives.read_count, b"\x00\x00\x00\x03ab"),
        (primitives.read_compact_count, b"\x04ab"),
    ):
        with pytest.raises(DecodeError):
            read(raw, 0, "field")
