"""Pure-Python twin of `_json.h`: rows of JSON to one text with a line for each row.

A row is taken if it is one whole object and nothing else: it begins with "{", its brackets and strings are closed, the
first only at its end, and its text is UTF-8. Null rows, and rows that are not taken, become "{}".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from moldau.kernels.encode import _Bytes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from moldau.kernels.signatures import BytesSource

_SPACE: Final = b" \t\n\r"
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]"]', re.DOTALL)
_OUTSIDE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def json_lines(column: BytesSource, rows: int, /) -> tuple[Buffer, tuple[int, ...]]:
    source = _Bytes(column)
    if not 0 <= rows <= source.room:
        raise ValueError("the column does not hold these rows")
    lines: list[bytes] = []
    refused: list[int] = []
    for row in range(rows):
        try:
            text = source.at(row, row)
        except ValueError:
            raise ValueError("the column does not hold these rows") from None
        if text is not None and _is_one_object(text):
            lines.append(text)
            continue
        lines.append(b"{}")
        if text is not None:
            refused.append(row)
    return b"".join(line + b"\n" for line in lines), tuple(refused)


def _is_one_object(text: bytes) -> bool:
    inner = text.strip(_SPACE)
    if not inner.startswith(b"{") or not _OUTSIDE.sub(b"", inner).isascii():
        return False
    depth = 0
    for found in _TOKEN.finditer(inner):
        token = found.group()
        if token == b'"':
            return False
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return found.end() == len(inner) and _is_text(inner)
    return False


def _is_text(inner: bytes) -> bool:
    try:
        inner.decode()
    except UnicodeDecodeError:
        return False
    return True
