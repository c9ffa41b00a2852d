"""A query that is read as a table is: its columns and their types, as the database tells them without a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table
    from sqlalchemy.sql.selectable import Subquery
    from sqlalchemy.types import TypeEngine

NAME: Final = "query"
LOOKED_AT: Final = "moldau_connect_query"
DIALECTS: Final = ("postgresql", "sqlite")


def described(connection: Connection, query: str) -> Table:
    """With the query's columns and no key. Raises ValueError for a database whose types of queries nobody has looked
    at."""
    from sqlalchemy import Column, MetaData, Table

    dialect = connection.dialect.name
    if dialect not in DIALECTS:
        raise ValueError(
            f"query: the types of a query's columns are known of {' and '.join(DIALECTS)} only, and this is {dialect}: "
            "make a view of it, and name it in table.whitelist"
        )
    kinds = of_sqlite(connection, query) if dialect == "sqlite" else of_postgresql(connection, query)
    twice = sorted({name for name, _ in kinds if [each for each, _ in kinds].count(name) > 1})
    if twice:
        raise ValueError(f"query: several columns are called {', '.join(twice)}: give them names with AS")
    metadata = MetaData(info={"sqlite": dialect == "sqlite"})
    return unrounded(connection, Table(NAME, metadata, *(Column(name, kind) for name, kind in kinds)))


def unrounded(connection: Connection, table: Table) -> Table:
    """SQLite knows no decimals, and SQLAlchemy rounds what it makes of its doubles: they are taken as they are."""
    from sqlalchemy import types

    for column in table.columns if connection.dialect.name == "sqlite" else ():
        if isinstance(column.type, types.Numeric) and not isinstance(column.type, types.Float):
            column.type = types.Numeric(column.type.precision, column.type.scale, asdecimal=False)
    return table


def of_sqlite(connection: Connection, query: str) -> list[tuple[str, TypeEngine[Any]]]:
    """By a view that only this connection sees. Where a column is an expression its first values say the type."""
    from sqlalchemy import inspect, types

    connection.exec_driver_sql(f"CREATE TEMP VIEW {LOOKED_AT} AS {query}")
    try:
        columns = inspect(connection).get_columns(LOOKED_AT, schema="temp")
        found: list[tuple[str, TypeEngine[Any]]] = []
        for column in columns:
            kind = column["type"]
            if isinstance(kind, types.NullType):
                kind = type_of_values(connection, str(column["name"]))
            found.append((str(column["name"]), kind))
        return found
    finally:
        connection.exec_driver_sql(f"DROP VIEW {LOOKED_AT}")


def type_of_values(connection: Connection, column: str) -> TypeEngine[Any]:
    from sqlalchemy import types

    quoted = connection.dialect.identifier_preparer.quote_identifier(column)
    shown = connection.exec_driver_sql(
        f"SELECT typeof({quoted}) FROM temp.{LOOKED_AT} WHERE {quoted} IS NOT NULL LIMIT 1"
    ).scalar()
    kinds: dict[Any, TypeEngine[Any]] = {
        "integer": types.BigInteger(),
        "real": types.Float(),
        "blob": types.LargeBinary(),
    }
    return kinds.get(shown, types.Text())


def of_postgresql(connection: Connection, query: str) -> list[tuple[str, TypeEngine[Any]]]:
    from sqlalchemy import types
    from sqlalchemy.dialects.postgresql.base import ischema_names

    result = connection.exec_driver_sql(escaped(connection, f"SELECT * FROM ({query}) AS {LOOKED_AT} LIMIT 0"))
    cursor: Any = result.cursor
    driver: Any = connection.connection.driver_connection
    found: list[tuple[str, TypeEngine[Any]]] = []
    for column in cursor.description:
        known = driver.adapters.types.get(column.type_code)
        kind: Any = ischema_names.get(known.regtype if known is not None else "", types.Text)
        is_decimal = issubclass(kind, types.Numeric) and not issubclass(kind, types.Float)
        found.append((column.name, types.Numeric(column.precision, column.scale) if is_decimal else kind()))
    result.close()
    return found


def escaped(connection: Connection, statement: str) -> str:
    """Drivers with `%s` take a percent sign for the beginning of a parameter."""
    return statement.replace("%", "%%") if connection.dialect.paramstyle in ("format", "pyformat") else statement


def selected(table: Table, query: str) -> Subquery:
    """What is read in the table's place."""
    from sqlalchemy import column, text

    # What looks like a parameter of SQLAlchemy's is part of the query.
    plain = text(query.replace(":", r"\:"))
    return plain.columns(*(column(each.name, each.type) for each in table.columns)).subquery(NAME)
