"""Arrow's arrays as the buffers that the encoding kernels take; the only place here that knows Arrow's layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.kernels.signatures import BytesSource, HeadersSource, NumbersSource

if TYPE_CHECKING:
    import pyarrow as pa


def bytes_source(array: pa.Array) -> BytesSource:
    """Of a column of strings or bytes."""
    import pyarrow.types as kinds

    validity, offsets, data = array.buffers()
    wide = kinds.is_large_binary(array.type) or kinds.is_large_string(array.type)
    return validity, b"\0" * 8 if offsets is None else offsets, b"" if data is None else data, array.offset, wide


def numbers_source(array: pa.Array) -> NumbersSource:
    validity, values = array.buffers()
    return validity, b"" if values is None else values, array.offset


def headers_source(array: pa.Array) -> HeadersSource:
    """Of a column of lists of structs (key, value)."""
    import pyarrow.types as kinds

    validity, offsets = array.buffers()[:2]
    pairs = array.values
    keys, values = bytes_source(pairs.field(0)), bytes_source(pairs.field(1))
    wide = kinds.is_large_list(array.type)
    return validity, b"\0" * 8 if offsets is None else offsets, array.offset, wide, keys, values
