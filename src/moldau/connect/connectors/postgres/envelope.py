"""Rows and changes as records: Debezium's envelope, its keys and its names. Pure.

The times of a change are those of its commit, not of its reading: a batch that is read again holds the same records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from moldau.connect.connectors.postgres.pgoutput import UNSENT, Unsent, Value
from moldau.connect.connectors.postgres.values import (
    UNAVAILABLE,
    Modes,
    Type,
    ValueRefused,
    parser_of,
    spark_type,
    unavailable,
)
from moldau.connect.interface import RawRecord, RecordRefused, SourceRecord, Stream

SOURCE: Final = (
    "struct<version: string NOT NULL, connector: string NOT NULL, name: string NOT NULL, ts_ms: bigint NOT NULL, "
    "snapshot: string, db: string NOT NULL, sequence: string, ts_us: bigint, ts_ns: bigint, schema: string NOT NULL, "
    "table: string NOT NULL, txId: bigint, lsn: bigint, xmin: bigint>"
)
TRANSACTION: Final = "struct<id: string NOT NULL, total_order: bigint NOT NULL, data_collection_order: bigint NOT NULL>"
READ, CREATE, UPDATE, DELETE, TRUNCATE = "r", "c", "u", "d", "t"
Row = Mapping[str, Value]
"""The server's texts, by column."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    in_key: bool = False


@dataclass(frozen=True)
class Table:
    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    """Its columns, in the order of the index."""
    modes: Modes = field(default_factory=Modes)
    condition: str = ""
    """The publication's filter of rows."""
    left_out: frozenset[str] = frozenset()
    """Columns that are not wanted."""

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @cached_property
    def types(self) -> dict[str, str]:
        return {column.name: spark_type(column.type, self.modes) for column in self.columns}

    @cached_property
    def parsers(self) -> dict[str, Callable[[str], Any]]:
        return {column.name: parser_of(column.type, self.modes) for column in self.columns}

    @property
    def row_type(self) -> str:
        fields = (
            f"{quoted(column.name)}: {self.types[column.name]}{' NOT NULL' if column.in_key else ''}"
            for column in self.columns
        )
        return f"struct<{', '.join(fields)}>"

    @property
    def key_type(self) -> str | None:
        fields = (f"{quoted(name)}: {self.types[name]} NOT NULL" for name in self.key)
        return f"struct<{', '.join(fields)}>" if self.key else None

    @property
    def value_type(self) -> str:
        return (
            f"struct<before: {self.row_type}, after: {self.row_type}, source: {SOURCE} NOT NULL, "
            f"transaction: {TRANSACTION}, op: string NOT NULL, ts_ms: bigint, ts_us: bigint, ts_ns: bigint>"
        )


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def topic_of(prefix: str, table: Table) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]", "_", f"{prefix}.{table.full_name}")


def stream_of(prefix: str, table: Table) -> Stream:
    topic = topic_of(prefix, table)
    return Stream(
        {"server": prefix, "schema": table.schema, "table": table.name},
        topic,
        table.value_type,
        table.key_type,
        f"{topic}.Envelope",
        f"{topic}.Key",
    )


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record comes from."""

    time_micros: int
    lsn: int
    transaction: int | None = None
    commit_lsn: int | None = None
    """None: of a snapshot."""


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Makes the records of one table."""

    table: Table
    prefix: str
    database: str
    version: str
    placeholder: str = UNAVAILABLE

    def record(
        self, operation: str, place: Place, *, before: Row | None = None, after: Row | None = None
    ) -> SourceRecord:
        row = after if after is not None else before
        micros = place.time_micros
        value = {
            "before": None if before is None else self.values(before),
            "after": None if after is None else self.values(after),
            "source": self._source(place),
            "transaction": None,
            "op": operation,
            "ts_ms": micros // 1000,
            "ts_us": micros,
            "ts_ns": micros * 1000,
        }
        return SourceRecord(value, None if row is None else self.key(row))

    def record_or_refusal(
        self, operation: str, place: Place, *, before: Row | None = None, after: Row | None = None
    ) -> SourceRecord | RecordRefused:
        """A row with a value that its type does not hold is refused, with the server's texts."""
        try:
            return self.record(operation, place, before=before, after=after)
        except ValueRefused as problem:
            row = after or before or {}
            key = {name: row.get(name) for name in self.table.key}
            value = {"before": before and sent(before), "after": after and sent(after), "op": operation}
            return RecordRefused(str(problem), RawRecord.shown(key or None, value))

    def tombstone(self, row: Row) -> SourceRecord | RecordRefused:
        try:
            return SourceRecord(None, self.key(row))
        except ValueRefused as problem:
            return RecordRefused(str(problem), RawRecord.shown({name: row.get(name) for name in self.table.key}, None))

    def key(self, row: Row) -> dict[str, Any] | None:
        return {name: self._parsed(name, row.get(name)) for name in self.table.key} or None

    def values(self, row: Row) -> dict[str, Any]:
        return {column.name: self._parsed(column.name, row.get(column.name)) for column in self.table.columns}

    def _parsed(self, name: str, text: Value) -> Any:
        if text is None:
            return None
        if isinstance(text, Unsent):
            return unavailable(self.table.types[name], self.placeholder)
        try:
            return self.table.parsers[name](text)
        except (ValueError, ArithmeticError) as problem:
            raise ValueRefused(
                f"{self.table.full_name}.{name} has {text[:60]!r}, which its records' type, {self.table.types[name]}, "
                f"does not hold ({problem}); with column.exclude.list the column is left out"
            ) from None

    def _source(self, place: Place) -> dict[str, Any]:
        streamed = place.commit_lsn is not None
        return {
            "version": self.version,
            "connector": "postgresql",
            "name": self.prefix,
            "ts_ms": place.time_micros // 1000,
            "snapshot": "false" if streamed else "true",
            "db": self.database,
            "sequence": f'["{place.commit_lsn}","{place.lsn}"]' if streamed else f'[null,"{place.lsn}"]',
            "ts_us": place.time_micros,
            "ts_ns": place.time_micros * 1000,
            "schema": self.table.schema,
            "table": self.table.name,
            "txId": place.transaction,
            "lsn": place.lsn,
            "xmin": None,
        }


def sent(row: Row) -> Row:
    return {name: value for name, value in row.items() if not isinstance(value, Unsent)}


def filled(new: Row, *older: Row | None) -> Row:
    """With what was not sent again, from where it is known."""
    found = dict(new)
    for name, value in new.items():
        if value is UNSENT:
            known = (row[name] for row in older if row is not None and isinstance(row.get(name), str))
            found[name] = next(known, UNSENT)
    return found


def named(columns: Sequence[str], row: Sequence[Value]) -> Row:
    return dict(zip(columns, row, strict=True))
