"""Topics to tables of a database, under the settings of Confluent's JDBC sink.

Up to which offset each partition is written stands in the table `moldau_connect_offsets` of the same database, and is
changed in the transaction of the rows: records that come a second time, from whichever worker, are left out. So even
`insert.mode=insert` without a key is exact.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from moldau.config.definition import ConfigType
from moldau.connect.connectors.database_tables import Tables, savepoint
from moldau.connect.connectors.databases import CONNECTION, engine_of
from moldau.connect.definitions import ConfigDef, Key, at_least, one_of
from moldau.connect.interface import RecordRefused, SinkConnector, SinkRecord

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

    from moldau.types.ids import TopicPartition

INSERT, UPSERT, UPDATE = "insert", "upsert", "update"
NONE, KAFKA, RECORD_KEY, RECORD_VALUE = "none", "kafka", "record_key", "record_value"
PLACE: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
OFFSETS: Final = "moldau_connect_offsets"
DELETE: Final = "delete"


class JdbcSink(SinkConnector):
    EXACT: ClassVar = f"the offsets up to which each partition is written stand in the table {OFFSETS} of the database"
    CONFIG: ClassVar = CONNECTION + ConfigDef(
        Key(
            "insert.mode",
            default=INSERT,
            doc="insert, upsert or update.",
            importance="HIGH",
            check=one_of(INSERT, UPSERT, UPDATE),
        ),
        Key("batch.size", ConfigType.INT, "3000", "The most records in a transaction.", check=at_least(1)),
        Key(
            "delete.enabled",
            ConfigType.BOOLEAN,
            "false",
            "Whether a tombstone deletes the row with its key; needs pk.mode=record_key.",
        ),
        Key("table.name.format", default="${topic}", doc="The table for a topic."),
        Key(
            "pk.mode",
            default=NONE,
            doc="Where the primary key is: none, kafka (topic, partition, offset), record_key or record_value.",
            importance="HIGH",
            check=one_of(NONE, KAFKA, RECORD_KEY, RECORD_VALUE),
        ),
        Key(
            "pk.fields",
            ConfigType.LIST,
            "",
            "The primary key's columns; all fields of a key that is a struct by default.",
        ),
        Key("fields.whitelist", ConfigType.LIST, "", "The fields of the value that are written; all by default."),
        Key("auto.create", ConfigType.BOOLEAN, "false", "Whether missing tables are made."),
        Key("auto.evolve", ConfigType.BOOLEAN, "false", "Whether missing columns are added."),
        Key(
            "quote.sql.identifiers",
            default="always",
            doc="Accepted: names are quoted where they have to be.",
            check=one_of("always", "never"),
        ),
        Key("max.retries", ConfigType.INT, "10", "Accepted: see errors.retry.timeout."),
        Key("retry.backoff.ms", ConfigType.INT, "3000", "Accepted: see errors.retry.delay.max.ms."),
    )

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        mode, names = config["pk.mode"], config["pk.fields"]
        if config["delete.enabled"] and mode != RECORD_KEY:
            yield "delete.enabled", "Primary key mode must be 'record_key' when delete support is enabled"
        if config["insert.mode"] in (UPSERT, UPDATE) and mode == NONE:
            yield "insert.mode", f"insert.mode={config['insert.mode']} needs pk.mode"
        if mode == KAFKA and len(names) not in (0, len(PLACE)):
            yield (
                "pk.fields",
                f"pk.mode={KAFKA} has {len(PLACE)} columns: topic, partition and offset, not {len(names)}",
            )

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._engine: Engine | None = None
        self._tables: Tables | None = None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()

    def write(self, records: Iterator[SinkRecord]) -> None:
        with self._open().connect() as connection:
            assert self._tables is not None
            self._tables.make_offsets(connection)
            for _, several in groupby(records, lambda record: record.source):
                for batch in cut(several, self.config["batch.size"]):
                    with connection.begin():
                        self._write(connection, batch)

    def _open(self) -> Engine:
        if self._engine is None:
            self._engine = engine_of(self.config)
            self._tables = Tables(OFFSETS, create=self.config["auto.create"], evolve=self.config["auto.evolve"])
        return self._engine

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        with self._open().connect() as connection:
            assert self._tables is not None
            self._tables.make_offsets(connection)
            with connection.begin():
                for place, offset in offsets.items():
                    self._tables.next_offset(connection, self.config["name"], place.topic, place.partition)
                    self._tables.set_offset(connection, self.config["name"], place.topic, place.partition, offset or 0)

    def _write(self, connection: Connection, batch: Sequence[SinkRecord]) -> None:
        """One transaction."""
        assert self._tables is not None
        name, place = self.config["name"], batch[0].source
        # Locks the row: another worker with the same partition waits here, and finds that it is written.
        begin = self._tables.next_offset(connection, name, place.topic, place.partition)
        fresh = [record for record in batch if record.order >= begin]
        if not fresh:
            return
        rows = self._rows(fresh)
        for _, alike in groupby(rows, lambda row: (row.table, row.kind, tuple(row.fields))):
            self._apply(connection, list(alike))
        self._tables.set_offset(connection, name, place.topic, place.partition, fresh[-1].order + 1)

    def _rows(self, records: Iterable[SinkRecord]) -> list[Row]:
        """Records that fit no row are refused one by one."""
        found = []
        for record in records:
            try:
                found.append(Row(record, *self._row(record)))
            except RecordRefused as problem:
                self.refuse(record, problem)
        return found

    def _row(self, record: SinkRecord) -> tuple[str, str, dict[str, Any]]:
        table = self.config["table.name.format"].replace("${topic}", record.topic)
        keys = self._key(record)
        if record.value is None:
            if not self.config["delete.enabled"]:
                raise RecordRefused(f"{place_of(record)} is a tombstone, and delete.enabled is false")
            return table, DELETE, keys
        if not isinstance(record.value, dict):
            raise RecordRefused(f"{place_of(record)}: the value is no struct: use a converter with schemas")
        chosen = self.config["fields.whitelist"]
        fields = {name: value for name, value in record.value.items() if not chosen or name in chosen or name in keys}
        return table, self.config["insert.mode"], {**fields, **keys}

    def _key(self, record: SinkRecord) -> dict[str, Any]:
        names = list(self.config["pk.fields"])
        match self.config["pk.mode"]:
            case "kafka":
                return dict(zip(names or PLACE, (*record.source, record.order), strict=True))
            case "record_key":
                if isinstance(record.key, dict):
                    return picked(record, record.key, names or list(record.key))
                if len(names) != 1 or record.key is None:
                    raise RecordRefused(
                        f"{place_of(record)}: a key that is no struct needs one name in pk.fields, and may not be null"
                    )
                return {names[0]: record.key}
            case "record_value":
                value = record.value if isinstance(record.value, dict) else {}
                return picked(record, value, names or list(value))
        return {}

    def _apply(self, connection: Connection, rows: list[Row]) -> None:
        assert self._tables is not None
        first = rows[0]
        keys = [] if self.config["pk.mode"] == NONE else self._key_names(tuple(first.fields))
        table = self._tables.table(connection, first.table, [row.fields for row in rows], keys)
        if first.kind in (DELETE, UPDATE):
            # What an UPDATE sets is found from the names of the parameters.
            statement = where_keys(table.delete() if first.kind == DELETE else table.update(), table, keys)
        else:
            statement = insert_of(connection, table, tuple(first.fields), keys if first.kind == UPSERT else [])
        self._execute(connection, statement, keys, rows)

    def _execute(self, connection: Connection, statement: Any, keys: Sequence[str], rows: list[Row]) -> None:
        """The rows that the database takes. Which one it refuses is found by halves, each behind a savepoint."""
        from sqlalchemy.exc import DBAPIError

        values = [{field: plain(value) for field, value in row.fields.items()} for row in rows]
        if rows[0].kind in (DELETE, UPDATE):
            values = [prefixed(each, keys) for each in values]
        try:
            with savepoint(connection):
                connection.execute(statement, values)
        except Exception as error:
            if not is_of_the_row(error):
                raise
            if len(rows) > 1:
                half = len(rows) // 2
                self._execute(connection, statement, keys, rows[:half])
                self._execute(connection, statement, keys, rows[half:])
                return
            told = error.orig if isinstance(error, DBAPIError) else error
            problem = RecordRefused(f"{place_of(rows[0].record)}: {type(told).__name__}: {str(told).strip()}")
            problem.__cause__ = error
            self.refuse(rows[0].record, problem)

    def _key_names(self, fields: tuple[str, ...]) -> list[str]:
        if self.config["pk.fields"]:
            return list(self.config["pk.fields"])
        return list(PLACE) if self.config["pk.mode"] == KAFKA else list(fields)


class Row(NamedTuple):
    record: SinkRecord
    table: str
    kind: str
    """What is done: insert, upsert, update or delete."""
    fields: dict[str, Any]


MISFIT_STATES: Final = (None, "42804")
"""Of a ProgrammingError that is about a value: the driver cannot write it, or the column has another type."""


def is_of_the_row(error: Exception) -> bool:
    """Whether the database, or its driver, refuses what stands in a row, so that another row may do. A database that
    is away, full, locked or lacks a table is no reason to put records aside."""
    from sqlalchemy.exc import DataError, IntegrityError, ProgrammingError, StatementError

    match error:
        case IntegrityError() | DataError():
            return True
        case ProgrammingError():
            is_sqlite = type(error.orig).__module__.startswith("sqlite3")
            return is_sqlite or getattr(error.orig, "sqlstate", "") in MISFIT_STATES
        case StatementError():
            return isinstance(error.orig, TypeError | ValueError | OverflowError)
    return isinstance(error, OverflowError)


def cut(records: Iterable[SinkRecord], size: int) -> Iterator[list[SinkRecord]]:
    found: list[SinkRecord] = []
    for record in records:
        found.append(record)
        if len(found) == size:
            yield found
            found = []
    if found:
        yield found


def place_of(record: SinkRecord) -> str:
    return f"{record.source} at offset {record.offset}"


def picked(record: SinkRecord, values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    missing = [name for name in names if values.get(name) is None]
    if missing:
        raise RecordRefused(f"{place_of(record)}: the primary key's field {missing[0]} is missing or null")
    return {name: values[name] for name in names}


def plain(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value


# -- statements ------------------------------------------------------------------------------------------------------


def where_keys(statement: Any, table: Table, keys: Sequence[str]) -> Any:
    from sqlalchemy import bindparam

    return statement.where(*(table.columns[name] == bindparam(f"key_{name}") for name in keys))


def prefixed(row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """The names of an UPDATE's own parameters and of its conditions must differ."""
    return {
        **{name: value for name, value in row.items() if name not in keys},
        **{f"key_{name}": row[name] for name in keys},
    }


def insert_of(connection: Connection, table: Table, fields: Sequence[str], keys: Sequence[str]) -> Any:
    """An INSERT, or with keys one that changes the row that is there."""
    dialect = connection.dialect.name
    if not keys:
        return table.insert()
    changed = [name for name in fields if name not in keys]
    if dialect in ("postgresql", "sqlite"):
        from importlib import import_module

        statement = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)
        if not changed:
            return statement.on_conflict_do_nothing(index_elements=list(keys))
        return statement.on_conflict_do_update(
            index_elements=list(keys), set_={name: statement.excluded[name] for name in changed}
        )
    if dialect in ("mysql", "mariadb"):
        from sqlalchemy.dialects.mysql import insert

        upsert = insert(table)
        return upsert.on_duplicate_key_update({name: upsert.inserted[name] for name in changed or keys})
    raise ValueError(f"insert.mode=upsert is not known for {dialect}: use insert or update")
