"""What is asked of the database: slot, publication, changes, one connection each.

Only one backend at a time may use a slot. Everybody here who does takes an advisory lock first, which waits, where the
slot itself refuses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.connect.connectors.postgres.envelope import Table

if TYPE_CHECKING:
    from psycopg import Connection

SESSION: Final = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=iso_8601 -c bytea_output=hex -c extra_float_digits=1 "
    "-c client_encoding=UTF8 -c synchronize_seqscans=off -c statement_timeout=0 -c lock_timeout=0 "
    "-c idle_in_transaction_session_timeout=0"
)
"""Values are read as the server writes them, so they have to be written alike everywhere."""
CONNECT_SECONDS: Final = 30
PLUGIN: Final = "pgoutput"
LOCK_SEED: Final = 0x6D6F6C64
FETCHED: Final = 1000
CHANGES: Final = """
WITH changes AS MATERIALIZED (
    SELECT lsn - '0/0'::pg_lsn AS at, data, get_byte(data, 0) AS kind FROM pg_logical_slot_peek_binary_changes(
        %(slot)s, %(upto)s::pg_lsn, NULL, 'proto_version', '1', 'publication_names', quote_ident(%(publication)s))
), named AS (
    SELECT substring(data FROM 2 FOR 4) AS id FROM changes
    WHERE kind = 82 AND substring(data FROM 6 FOR length(%(named)s::bytea)) = %(named)s::bytea
)
SELECT at::bigint, data FROM changes
WHERE kind IN (66, 84) OR kind IN (68, 73, 82, 85) AND substring(data FROM 2 FOR 4) IN (SELECT id FROM named)
"""
"""Begin, truncate, and what concerns one table, by the name it had at the time."""


class SlotLost(Exception):
    """What was changed since the last batch cannot be read any more."""


class SnapshotStale(Exception):
    """The table was written anew under the snapshot that it is read with; the next one will do."""


@dataclass(frozen=True, slots=True)
class Slot:
    confirmed: int
    """Nothing that was committed before can be read."""
    restart: int
    """The server's log is kept from here on."""
    flushed: int
    """The end of the server's log."""
    wal_status: str


@dataclass(frozen=True, slots=True)
class Login:
    host: str
    port: int
    user: str
    password: str | None
    database: str
    more: Mapping[str, str]
    """Of libpq: sslmode and its like."""
    name: str = "moldau-connect"

    def connect(self, **more: Any) -> Connection[tuple[Any, ...]]:
        import psycopg

        others: dict[str, Any] = {**self.more, **more}
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=self.database,
            application_name=self.name,
            connect_timeout=CONNECT_SECONDS,
            options=SESSION,
            autocommit=True,
            **others,
        )


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


class Slots:
    """The slot of a connector, and what is read through it."""

    def __init__(self, login: Login, name: str, publication: str) -> None:
        self._login = login
        self.name = name
        self.publication = publication

    def state(self, connection: Connection[tuple[Any, ...]]) -> Slot | None:
        row = connection.execute(
            "SELECT confirmed_flush_lsn - '0/0', restart_lsn - '0/0', pg_current_wal_flush_lsn() - '0/0', wal_status, "
            "plugin, database, current_database() FROM pg_replication_slots WHERE slot_name = %s",
            (self.name,),
        ).fetchone()
        if row is None:
            return None
        confirmed, restart, flushed, status, plugin, database, here = row
        if plugin != PLUGIN or database != here:
            raise ValueError(
                f"slot {self.name} is one of {plugin or 'physical replication'} in {database}; a slot of {PLUGIN} in "
                f"{here} is needed: set slot.name"
            )
        return Slot(int(confirmed or 0), int(restart or 0), int(flushed), status or "")

    def make(self, connection: Connection[tuple[Any, ...]]) -> None:
        level = connection.execute("SHOW wal_level").fetchone()
        if level != ("logical",):
            raise ValueError(f"the server has wal_level={level and level[0]}: set it to logical and restart the server")
        connection.execute("SELECT pg_create_logical_replication_slot(%s, %s)", (self.name, PLUGIN))

    def usable(self, connection: Connection[tuple[Any, ...]], position: int) -> Slot:
        """Raises SlotLost if what comes behind the position cannot be read."""
        slot = self.state(connection)
        again = "; reset the connector's offsets, or set snapshot.mode=when_needed, to read the tables anew"
        if slot is None:
            raise SlotLost(f"there is no slot {self.name} any more: changes since {lsn_text(position)} are lost{again}")
        if slot.wal_status == "lost":
            raise SlotLost(
                f"the server has thrown away what slot {self.name} had not read (max_slot_wal_keep_size): changes "
                f"since {lsn_text(position)} are lost{again}"
            )
        if slot.confirmed > position:
            raise SlotLost(
                f"slot {self.name} was made anew or moved on by somebody else: it begins at "
                f"{lsn_text(slot.confirmed)}, and changes since {lsn_text(position)} are lost{again}"
            )
        if slot.flushed < position:
            raise SlotLost(
                f"the server's log ends at {lsn_text(slot.flushed)}, before {lsn_text(position)}, which was read "
                f"already: it is another server, or one that was set back{again}"
            )
        return slot

    def advance(self, connection: Connection[tuple[Any, ...]], position: int) -> None:
        self._locked(
            connection,
            lambda: connection.execute(
                "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self.name, lsn_text(position))
            ),
        )

    def _locked(self, connection: Connection[tuple[Any, ...]], action: Callable[[], object]) -> None:
        lock = (self.name, LOCK_SEED)
        connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, %s))", lock)
        try:
            action()
        finally:
            if not connection.broken and not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, %s))", lock)

    def messages(self, table: Table, upto: int) -> Iterator[tuple[int, bytes]]:
        """What was committed up to there and is not confirmed, apart from other tables' changes."""
        parameters = {
            "slot": self.name,
            "upto": lsn_text(upto),
            "publication": self.publication,
            "named": f"{table.schema}\0{table.name}\0".encode(),
        }
        with self._login.connect() as connection, connection.transaction(), connection.cursor("changes") as cursor:
            rows: list[tuple[Any, ...]] = []

            def first() -> None:
                cursor.execute(CHANGES, parameters)
                rows.extend(cursor.fetchmany(FETCHED))

            # The server has all of it once it has given the first; it needs the slot no more.
            self._locked(connection, first)
            while rows:
                yield from rows
                rows = cursor.fetchmany(FETCHED)


class Held:
    """A snapshot that shows exactly what was committed before a place in the log, for as long as this object lives."""

    def __init__(self, login: Login, slot: str) -> None:
        self._login = login
        self._connection: Connection[tuple[Any, ...]] = login.connect()
        try:
            self.lsn = self._begun(f"{slot[:40]}_snapshot_{os.getpid()}_{id(self) & 0xFFFF}")
            row = self._connection.execute(
                "SELECT pg_export_snapshot(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
            ).fetchone()
        except BaseException:
            self._connection.close()
            raise
        assert row is not None
        self.name, self.time_micros = str(row[0]), int(row[1])

    def _begun(self, name: str) -> int:
        """A temporary slot gives both, the place and the snapshot; the latter has to be taken before the slot goes."""
        import psycopg

        with self._login.connect(replication="database") as walsender:
            made = walsender.pgconn.exec_(
                f'CREATE_REPLICATION_SLOT "{name}" TEMPORARY LOGICAL {PLUGIN} EXPORT_SNAPSHOT'.encode()
            )
            if made.status != psycopg.pq.ExecStatus.TUPLES_OK:
                raise RuntimeError(f"no temporary replication slot for a snapshot: {made.error_message.decode()}")
            place, exported = made.get_value(0, 1), made.get_value(0, 2)
            assert place is not None
            assert exported is not None
            begin(self._connection, exported.decode())
            return lsn_number(place.decode())

    def bound(self, table: Table, after: list[str] | None, rows: int) -> list[str] | None:
        """The last key of the next rows; None: there are not so many."""
        from psycopg import sql

        if not table.key:
            return None
        keys = sql.SQL(", ").join(map(sql.Identifier, table.key))
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in table.key)
        # Not where the snapshot is held: the table would stay locked against changes of its columns.
        with self._login.connect() as connection:
            begin(connection, self.name)
            inner = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} OFFSET {} LIMIT 1").format(
                keys, place_of(table), where(connection, table, after, None), keys, sql.Literal(rows - 1)
            )
            row = connection.execute(sql.SQL("SELECT {} FROM ({}) AS last").format(texts, inner)).fetchone()
        return None if row is None else [str(each) for each in row]

    def close(self) -> None:
        self._connection.close()


def begin(connection: Connection[tuple[Any, ...]], snapshot: str) -> None:
    from psycopg import sql

    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))


def place_of(table: Table) -> Any:
    from psycopg import sql

    return sql.Identifier(table.schema, table.name)


def where(connection: Connection[tuple[Any, ...]], table: Table, after: list[str] | None, to: list[str] | None) -> Any:
    """Rows whose key comes after the one and not after the other."""
    from psycopg import sql

    conditions = [sql.SQL(f"({table.condition or 'true'})")]
    if after is not None:
        conditions.append(compared(connection, table, ">", after))
    if to is not None:
        conditions.append(compared(connection, table, "<=", to))
    return sql.SQL(" AND ").join(conditions)


def compared(connection: Connection[tuple[Any, ...]], table: Table, operator: str, key: list[str]) -> Any:
    from psycopg import sql

    keys = sql.SQL(", ").join(map(sql.Identifier, table.key))
    return sql.SQL("({}) {} ({})").format(keys, sql.SQL(operator), typed(connection, table, key))


def typed(connection: Connection[tuple[Any, ...]], table: Table, key: list[str]) -> Any:
    """A key's texts as values of the types of its columns."""
    from psycopg import sql

    rows = connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s) "
        "AND attname = ANY(%s)",
        (place_of(table).as_string(connection), list(table.key)),
    ).fetchall()
    types = {str(name): str(kind) for name, kind in rows}
    parts = [
        sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(types[name]))
        for name, text in zip(table.key, key, strict=True)
    ]
    return sql.SQL(", ").join(parts)


def is_at_most(connection: Connection[tuple[Any, ...]], table: Table, key: list[str], bound: list[str]) -> bool:
    from psycopg import sql

    # The columns' own order, with their collations: a row of the table's type is compared.
    columns = sql.SQL(", ").join(map(sql.Identifier, table.key))
    nothing = sql.SQL("SELECT {} FROM {} WHERE false").format(columns, place_of(table))
    one = sql.SQL("SELECT {}").format(typed(connection, table, key))
    query = sql.SQL("SELECT ({}) <= ({}) FROM ({} UNION ALL {}) AS one").format(
        columns, typed(connection, table, bound), nothing, one
    )
    row = connection.execute(query).fetchone()
    return bool(row and row[0])


def rows_of(
    login: Login, table: Table, snapshot: str, after: list[str] | None, to: list[str] | None
) -> Iterator[dict[str, str | None]]:
    """As the snapshot shows them, in the order of the key."""
    from psycopg import sql

    names = [column.name for column in table.columns]
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    with login.connect() as connection:
        begin(connection, snapshot)
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(place_of(table)))
        refuse_rewritten(connection, table)
        order = sql.SQL(" ORDER BY {}").format(sql.SQL(", ").join(map(sql.Identifier, table.key)))
        query = sql.SQL("COPY (SELECT {} FROM {} WHERE {}{}) TO STDOUT").format(
            columns, place_of(table), where(connection, table, after, to), order if table.key else sql.SQL("")
        )
        with connection.cursor().copy(query) as copy:
            for row in copy.rows():
                yield dict(zip(names, row, strict=True))
        connection.execute("COMMIT")


def refuse_rewritten(connection: Connection[tuple[Any, ...]], table: Table) -> None:
    """To an older snapshot a table that was truncated or rewritten is empty, whatever was in it."""
    rewritten = connection.execute(
        "SELECT count(*) FROM pg_class WHERE oid IN (SELECT to_regclass(%(name)s)::oid "
        "UNION SELECT relid::oid FROM pg_partition_tree(to_regclass(%(name)s))) "
        "AND relfilenode <> coalesce(pg_relation_filenode(oid), 0)",
        {"name": place_of(table).as_string(connection)},
    ).fetchone()
    if rewritten != (0,):
        raise SnapshotStale(f"{table.full_name} was rewritten while it was read: it is read with another snapshot")
