"""Messages of PostgreSQL's logical replication, plug-in pgoutput, protocol version 1, values as text. Pure.

Numbers are big-endian; a string ends with a zero byte.

B  begin     int64 LSN of the commit record, int64 microseconds since 2000, int32 transaction
C  commit    int8 flags, int64 LSN of the commit record, int64 end of it, int64 microseconds since 2000
R  relation  int32 id, string schema, string table, int8 replica identity (d, n, f, i), int16 columns; each: int8 flags
             (1: of the key), string name, int32 type, int32 modifier of the type
I  insert    int32 relation, 'N', tuple
U  update    int32 relation, perhaps 'K' (key) or 'O' (whole row) and the old tuple, 'N', tuple
D  delete    int32 relation, 'K' or 'O', tuple
T  truncate  int32 count, int8 options (1: cascade, 2: restart identity), int32 relations
tuple        int16 columns; each: 'n' null, 'u' a large value that did not change and is not sent, 't' int32 length and
             as many bytes

Others (Y type, O origin, M message) say nothing about rows and are left out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

EPOCH_MICROS: Final = 946_684_800_000_000
"""2000-01-01, where PostgreSQL's time begins."""


class DecodingFailed(ValueError):
    """Bytes that are no message of pgoutput."""


class Unsent:
    """The value of a column that did not change, and that the server did not send."""

    def __repr__(self) -> str:
        return "UNSENT"


UNSENT: Final = Unsent()
Value = str | None | Unsent
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    commit_lsn: int
    time_micros: int
    """Of the commit, since 1970."""
    transaction: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class WireColumn:
    name: str
    type: int
    modifier: int
    in_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    id: int
    schema: str
    table: str
    identity: str
    columns: tuple[WireColumn, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    relation: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    relation: int
    new: Row
    old: Row | None = None
    old_key: Row | None = None
    """In the place of `old`: only the columns of the key are there."""


@dataclass(frozen=True, slots=True)
class Delete:
    relation: int
    old: Row | None = None
    old_key: Row | None = None


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate


class Cursor:
    """Reads one message from its first byte to its last."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> str:
        return chr(self.unpack(">B", 1))

    def int16(self) -> int:
        return self.unpack(">h", 2)

    def uint32(self) -> int:
        return self.unpack(">I", 4)

    def int64(self) -> int:
        return self.unpack(">q", 8)

    def unpack(self, form: str, size: int) -> int:
        found = struct.unpack_from(form, self.data, self.at)[0]
        self.at += size
        return int(found)

    def string(self) -> str:
        end = self.data.index(b"\0", self.at)
        found = self.data[self.at : end].decode()
        self.at = end + 1
        return found

    def row(self) -> Row:
        return tuple(self._value() for _ in range(self.int16()))

    def _value(self) -> Value:
        kind = self.byte()
        if kind == "n":
            return None
        if kind == "u":
            return UNSENT
        if kind != "t":
            raise DecodingFailed(f"a value of kind {kind!r}; only text was asked for")
        size = self.uint32()
        found = self.data[self.at : self.at + size]
        if len(found) != size:
            raise DecodingFailed(f"a value of {size} bytes has only {len(found)}")
        self.at += size
        return found.decode()


def decode(data: bytes) -> Message | None:
    """None for what says nothing about rows."""
    cursor = Cursor(data)
    try:
        found = _decoded(cursor)
    except (struct.error, ValueError, IndexError) as error:
        raise DecodingFailed(f"{data[:60]!r} is no message of pgoutput: {error}") from None
    if found is not None and cursor.at != len(data):
        raise DecodingFailed(f"{len(data) - cursor.at} bytes are left behind {found!r}")
    return found


def _decoded(cursor: Cursor) -> Message | None:
    match cursor.byte():
        case "B":
            return Begin(cursor.int64(), cursor.int64() + EPOCH_MICROS, cursor.uint32())
        case "C":
            cursor.byte()
            found = Commit(cursor.int64(), cursor.int64())
            cursor.int64()
            return found
        case "R":
            return _relation(cursor)
        case "I":
            relation, kind = cursor.uint32(), cursor.byte()
            _expect(kind, "N")
            return Insert(relation, cursor.row())
        case "U":
            return _update(cursor)
        case "D":
            relation, kind = cursor.uint32(), cursor.byte()
            _expect(kind, "KO")
            row = cursor.row()
            return Delete(relation, old=row) if kind == "O" else Delete(relation, old_key=row)
        case "T":
            count = cursor.uint32()
            cursor.byte()
            return Truncate(tuple(cursor.uint32() for _ in range(count)))
        case "Y" | "O" | "M":
            return None
        case other:
            raise DecodingFailed(f"there is no message {other!r}")


def _relation(cursor: Cursor) -> Relation:
    number, schema, table, identity = cursor.uint32(), cursor.string(), cursor.string(), cursor.byte()
    columns = []
    for _ in range(cursor.int16()):
        flags, name = cursor.byte(), cursor.string()
        columns.append(WireColumn(name, cursor.uint32(), cursor.unpack(">i", 4), flags == "\x01"))
    return Relation(number, schema, table, identity, tuple(columns))


def _update(cursor: Cursor) -> Update:
    relation, kind = cursor.uint32(), cursor.byte()
    old: Row | None = None
    old_key: Row | None = None
    if kind == "K":
        old_key = cursor.row()
    elif kind == "O":
        old = cursor.row()
    if kind != "N":
        kind = cursor.byte()
    _expect(kind, "N")
    return Update(relation, cursor.row(), old, old_key)


def _expect(kind: str, wanted: str) -> None:
    if kind not in wanted:
        raise DecodingFailed(f"a tuple of kind {kind!r}, {wanted} was expected")
