"""Tables of a sink's database: found, made, widened; and the one that says how far each partition is written."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


@contextmanager
def savepoint(connection: Connection) -> Iterator[None]:
    """What fails within is undone alone. SQLite without room undoes the whole transaction by itself, and with it the
    savepoint: then what failed first is told, not that there is nothing to go back to."""
    from sqlalchemy.exc import DBAPIError

    nested = connection.begin_nested()
    try:
        yield
        nested.commit()
    except BaseException as error:
        try:
            nested.rollback()
        except DBAPIError:
            raise error from None
        raise


class Tables:
    def __init__(self, offsets: str, *, create: bool, evolve: bool) -> None:
        from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table

        self._create = create
        self._evolve = evolve
        self._known: dict[str, Table] = {}
        self._offsets = Table(
            offsets,
            MetaData(),
            Column("connector", String(255), primary_key=True),
            Column("topic", String(255), primary_key=True),
            Column("part", Integer, primary_key=True),
            Column("next_offset", BigInteger, nullable=False),
        )

    # -- offsets -----------------------------------------------------------------------------------------------------

    def make_offsets(self, connection: Connection) -> None:
        from sqlalchemy import inspect
        from sqlalchemy.exc import DBAPIError

        with connection.begin():
            if inspect(connection).has_table(self._offsets.name):
                return
        try:
            with connection.begin():
                self._offsets.create(connection)
        except DBAPIError:  # another task has just made it
            with connection.begin():
                if not inspect(connection).has_table(self._offsets.name):
                    raise

    def next_offset(self, connection: Connection, connector: str, topic: str, part: int) -> int:
        """Locks the row until the transaction ends; makes it first if it is not there."""
        from sqlalchemy import select
        from sqlalchemy.exc import IntegrityError

        place = self._where(connector, topic, part)
        # A write first: SQLite takes its lock with it, and nobody changes the row until the end.
        locked = self._offsets.update().where(*place).values(next_offset=self._offsets.c.next_offset)
        if connection.execute(locked).rowcount == 0:
            fresh = {"connector": connector, "topic": topic, "part": part, "next_offset": 0}
            try:
                with savepoint(connection):
                    connection.execute(self._offsets.insert().values(fresh))
            except IntegrityError:
                connection.execute(locked)
        return int(connection.execute(select(self._offsets.c.next_offset).where(*place)).scalar_one())

    def set_offset(self, connection: Connection, connector: str, topic: str, part: int, offset: int) -> None:
        place = self._where(connector, topic, part)
        connection.execute(self._offsets.update().where(*place).values(next_offset=offset))

    def _where(self, connector: str, topic: str, part: int) -> tuple[Any, ...]:
        columns = self._offsets.c
        return columns.connector == connector, columns.topic == topic, columns.part == part

    # -- the rows' tables --------------------------------------------------------------------------------------------

    def table(self, connection: Connection, name: str, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> Table:
        known = self._known.get(name)
        fields = list(rows[0])
        if known is None or any(field not in known.columns for field in fields):
            known = self._known[name] = self._looked_at(connection, name, rows, keys)
        return known

    def _looked_at(
        self, connection: Connection, name: str, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]
    ) -> Table:
        from sqlalchemy import Column, MetaData, Table, inspect
        from sqlalchemy.schema import CreateColumn

        schema, _, plain = name.rpartition(".")
        kinds = {field: kind_of(row[field] for row in rows) for field in rows[0]}
        if not inspect(connection).has_table(plain, schema=schema or None):
            if not self._create:
                raise ValueError(f"table {name} is missing, and auto.create is false")
            columns = [
                Column(field, kind, primary_key=field in keys, nullable=field not in keys, autoincrement=False)
                for field, kind in kinds.items()
            ]
            made = Table(plain, MetaData(), *columns, schema=schema or None)
            made.create(connection)
            return made
        found = Table(plain, MetaData(), autoload_with=connection, schema=schema or None)
        missing = [field for field in kinds if field not in found.columns]
        if missing and not self._evolve:
            raise ValueError(
                f"table {name} has no column {', '.join(missing)}, and auto.evolve is false; it has "
                f"{', '.join(found.columns.keys())}"
            )
        for field in missing:
            column = CreateColumn(Column(field, kinds[field])).compile(dialect=connection.dialect)
            quoted = connection.dialect.identifier_preparer.format_table(found)
            connection.exec_driver_sql(f"ALTER TABLE {quoted} ADD COLUMN {column}")
        return Table(plain, MetaData(), autoload_with=connection, schema=schema or None) if missing else found


def kind_of(values: Iterable[Any]) -> Any:
    """The widest type that the values of a column need."""
    from sqlalchemy import BigInteger, Boolean, Date, DateTime, Double, LargeBinary, Numeric, Text

    kinds: list[tuple[type, Any]] = [
        (bool, Boolean()),
        (int, BigInteger()),
        (float, Double()),
        (Decimal, Numeric()),
        (dt.datetime, DateTime()),
        (dt.date, Date()),
        (bytes, LargeBinary()),
    ]
    for value in values:
        for kind, found in kinds:
            if isinstance(value, kind):
                return found
        if value is not None:
            return Text()
    return Text()
