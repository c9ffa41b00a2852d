"""Tables as the database describes them, and the publication that says which of them are captured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.connect.connectors.postgres.envelope import Column, Table
from moldau.connect.connectors.postgres.values import Modes, Type

if TYPE_CHECKING:
    from psycopg import Connection

    Database = Connection[tuple[Any, ...]]

PUBLISHED = """
SELECT c.oid::bigint, n.nspname, c.relname, {columns}, {condition}
FROM pg_publication_tables p
JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s ORDER BY n.nspname, c.relname
"""
COLUMNS = """
SELECT attrelid::bigint, attname, atttypid::bigint, atttypmod FROM pg_attribute
WHERE attrelid = ANY(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attrelid, attnum
"""
KEYS = """
SELECT i.indrelid::bigint, a.attname FROM pg_index i
JOIN pg_class c ON c.oid = i.indrelid
JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place) ON place <= i.indnkeyatts
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = ANY(%s) AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
ORDER BY i.indrelid, k.place
"""
ORDINARY = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_toast%%' ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which tables and columns, by patterns for `schema.table` and `schema.table.column`, as in Debezium."""

    schemas: Sequence[str] = ()
    no_schemas: Sequence[str] = ()
    tables: Sequence[str] = ()
    no_tables: Sequence[str] = ()
    columns: Sequence[str] = ()
    no_columns: Sequence[str] = ()

    def has_table(self, schema: str, table: str) -> bool:
        name = f"{schema}.{table}"
        return is_chosen(schema, self.schemas, self.no_schemas) and is_chosen(name, self.tables, self.no_tables)

    def has_column(self, schema: str, table: str, column: str) -> bool:
        return is_chosen(f"{schema}.{table}.{column}", self.columns, self.no_columns)


def is_chosen(name: str, include: Sequence[str], exclude: Sequence[str]) -> bool:
    def matches(pattern: str) -> bool:
        return re.fullmatch(pattern, name, re.IGNORECASE) is not None

    return (not include or any(map(matches, include))) and not any(map(matches, exclude))


def make_publication(database: Database, name: str, mode: str, choice: Choice) -> None:
    from psycopg import sql

    there = database.execute("SELECT puballtables FROM pg_publication WHERE pubname = %s", (name,)).fetchone()
    if mode == "disabled" or (there is not None and (mode == "all_tables" or there[0])):
        if there is None:
            raise ValueError(f"there is no publication {name}: create it, or set publication.autocreate.mode")
        return
    called = sql.Identifier(name)
    if mode == "all_tables":
        database.execute(
            sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES WITH (publish_via_partition_root = true)").format(called)
        )
        return
    tables = [
        sql.Identifier(schema, table)
        for schema, table in database.execute(ORDINARY).fetchall()
        if choice.has_table(schema, table)
    ]
    if not tables:
        raise ValueError("no table was found: see table.include.list and schema.include.list")
    listed = sql.SQL(", ").join(tables)
    if there is None:
        made = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)")
        database.execute(made.format(called, listed))
    else:
        database.execute(sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(called, listed))


def tables_of(
    database: Database, publication: str, choice: Choice, modes: Modes, only: tuple[str, str] | None = None
) -> list[Table]:
    """Those that are published and chosen; `only`: one of them, by schema and name."""
    new = database.info.server_version >= 150000
    query = PUBLISHED.format(
        columns="p.attnames::text[]" if new else "NULL::text[]", condition="p.rowfilter" if new else "NULL"
    )
    found = [
        row
        for row in database.execute(query, (publication,)).fetchall()
        if choice.has_table(row[1], row[2]) and (only is None or (row[1], row[2]) == only)
    ]
    ids = [row[0] for row in found]
    domains = domains_of(database)
    columns: dict[int, list[tuple[str, Type]]] = {}
    for table, name, kind, modifier in database.execute(COLUMNS, (ids,)).fetchall():
        columns.setdefault(table, []).append((name, resolved(Type(kind, modifier), domains)))
    keys: dict[int, list[str]] = {}
    for table, name in database.execute(KEYS, (ids,)).fetchall():
        keys.setdefault(table, []).append(name)
    return [
        described((schema, name), columns.get(number, []), keys.get(number, []), published, condition, choice, modes)
        for number, schema, name, published, condition in found
    ]


def described(
    place: tuple[str, str],
    columns: Sequence[tuple[str, Type]],
    key: Sequence[str],
    published: Sequence[str] | None,
    condition: str | None,
    choice: Choice,
    modes: Modes,
) -> Table:
    kept = [
        (name, kind)
        for name, kind in columns
        # A record's key is whole, whatever is left out of its value.
        if (published is None or name in published) and (choice.has_column(*place, name) or name in key)
    ]
    names = {name for name, _ in kept}
    whole_key = tuple(key) if set(key) <= names else ()
    return Table(
        *place,
        tuple(Column(name, kind, name in whole_key) for name, kind in kept),
        whole_key,
        modes,
        condition or "",
        frozenset(name for name, _ in columns if name not in names),
    )


def domains_of(database: Database) -> dict[int, Type]:
    rows = database.execute("SELECT oid::bigint, typbasetype::bigint, typtypmod FROM pg_type WHERE typtype = 'd'")
    return {number: Type(base, modifier) for number, base, modifier in rows.fetchall()}


def resolved(kind: Type, domains: Mapping[int, Type]) -> Type:
    while kind.oid in domains:
        kind = domains[kind.oid]
    return kind
