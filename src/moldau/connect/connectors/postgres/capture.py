"""From the messages of the stream to the records of one table: which transactions count, and what a change becomes.
Pure.

A batch holds the transactions whose commit record begins at `begin` or behind it, and before `end`. Of these, changes
that a snapshot has already shown are left out: each piece of the table was read at a place in the log of its own
(`Piece`), and has in it all that was committed before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.connect.connectors.postgres.envelope import (
    CREATE,
    DELETE,
    TRUNCATE,
    UPDATE,
    Envelopes,
    Place,
    Row,
    filled,
    named,
)
from moldau.connect.connectors.postgres.pgoutput import (
    Begin,
    Delete,
    Insert,
    Relation,
    Truncate,
    Update,
    decode,
)
from moldau.connect.interface import RecordRefused, SourceRecord

log = logging.getLogger(__name__)
NEVER: Final = Begin(-1, 0, 0)


class SnapshotCut(Exception):
    """A table was emptied between two parts of its snapshot."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a table, as its snapshot read it."""

    to: tuple[str, ...] | None
    """The last key in it; None: up to the end."""
    lsn: int
    """It shows what was committed before."""


IsAtMost = Callable[[Sequence[str], Sequence[str]], bool]
"""Whether a key comes before another or is the same, in the order of the database."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What snapshots have shown already."""

    pieces: Sequence[Piece]
    is_at_most: IsAtMost

    def has(self, commit_lsn: int, key: Sequence[str]) -> bool:
        places = {piece.lsn for piece in self.pieces}
        if not places or commit_lsn >= max(places):
            return False
        return commit_lsn < min(places) or commit_lsn < self._piece_of(key).lsn

    def _piece_of(self, key: Sequence[str]) -> Piece:
        return next(piece for piece in self.pieces if piece.to is None or self.is_at_most(key, piece.to))

    def has_truncation(self, commit_lsn: int, table: str) -> bool:
        seen = {commit_lsn < piece.lsn for piece in self.pieces}
        if len(seen) > 1:
            raise SnapshotCut(
                f"{table} was truncated while it was first read, which an interruption cut in two: reset the "
                "connector's offsets to read it again"
            )
        return True in seen


class Capture:
    def __init__(
        self, envelopes: Envelopes, begin: int, end: int, shown: Shown, skipped: Iterable[str], *, tombstones: bool
    ) -> None:
        self._make = envelopes
        self._begin, self._end = begin, end
        self._shown = shown
        self._skipped = frozenset(skipped)
        self._tombstones = tombstones
        self._now = NEVER
        self._columns: dict[int, list[str]] = {}
        """Of the relations that are this table: it may have had several ids."""

    def records(self, messages: Iterable[tuple[int, bytes]]) -> Iterator[SourceRecord | RecordRefused]:
        """`messages`: with the place of each in the log."""
        for lsn, data in messages:
            match decode(data):
                case Begin() as begin:
                    self._now = begin
                case Relation() as relation:
                    self._learn(relation)
                case Insert() | Update() | Delete() as change if self._counts() and change.relation in self._columns:
                    yield from self._changed(change, self._place(lsn))
                case Truncate() as change if self._counts() and self._columns.keys() & set(change.relations):
                    yield from self._truncated(self._place(lsn))

    def _counts(self) -> bool:
        return self._begin <= self._now.commit_lsn < self._end

    def _place(self, lsn: int) -> Place:
        return Place(self._now.time_micros, lsn, self._now.transaction, self._now.commit_lsn)

    def _learn(self, relation: Relation) -> None:
        table = self._make.table
        if (relation.schema, relation.table) != (table.schema, table.name):
            self._columns.pop(relation.id, None)
            return
        names = [column.name for column in relation.columns]
        if self._columns.get(relation.id) == names:
            return
        self._columns[relation.id] = names
        gone = set(names) - {column.name for column in table.columns} - table.left_out
        if gone:
            log.warning("%s lost %s after these changes: its values are left out", table.full_name, ", ".join(gone))

    def _changed(self, change: Insert | Update | Delete, place: Place) -> Iterator[SourceRecord | RecordRefused]:
        columns = self._columns[change.relation]
        match change:
            case Insert():
                yield from self._created(named(columns, change.new), place)
            case Delete():
                row = change.old or change.old_key
                assert row is not None
                yield from self._deleted(named(columns, row), place)
            case Update():
                yield from self._updated(columns, change, place)

    def _created(self, row: Row, place: Place) -> Iterator[SourceRecord | RecordRefused]:
        if CREATE not in self._skipped and not self._is_shown(row):
            yield self._make.record_or_refusal(CREATE, place, after=row)

    def _deleted(self, row: Row, place: Place) -> Iterator[SourceRecord | RecordRefused]:
        if DELETE in self._skipped or self._is_shown(row):
            return
        yield self._make.record_or_refusal(DELETE, place, before=row)
        if self._tombstones and self._make.table.key:
            yield self._make.tombstone(row)

    def _updated(self, columns: Sequence[str], change: Update, place: Place) -> Iterator[SourceRecord | RecordRefused]:
        """Under another key it is another record: the old one ends."""
        old = None if change.old is None else named(columns, change.old)
        old_key = None if change.old_key is None else named(columns, change.old_key)
        new = filled(named(columns, change.new), old, old_key)
        former = old if old is not None else old_key
        if former is not None and any(former.get(name) != new.get(name) for name in self._make.table.key):
            yield from self._deleted(former, place)
            yield from self._created(new, place)
        elif UPDATE not in self._skipped and not self._is_shown(new):
            yield self._make.record_or_refusal(UPDATE, place, before=old, after=new)

    def _truncated(self, place: Place) -> Iterator[SourceRecord | RecordRefused]:
        if TRUNCATE in self._skipped:
            return
        if not self._shown.has_truncation(self._now.commit_lsn, self._make.table.full_name):
            yield self._make.record_or_refusal(TRUNCATE, place)

    def _is_shown(self, row: Row) -> bool:
        return self._shown.has(self._now.commit_lsn, [str(row.get(name)) for name in self._make.table.key])
