"""What the JDBC source and sink share: connections by JDBC's URLs, types of columns as Spark's.

`jdbc:sqlite:file.db`, `jdbc:postgresql://host:port/database` and `jdbc:mysql://…` are understood, and any URL of
SQLAlchemy.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connectors.jdbc_urls import sqlalchemy_url
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, not_empty

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Column, Engine

UTC: Final = ("", "UTC", "Etc/UTC", "GMT", "Z")


def understood(name: str, value: Any) -> None:
    not_empty(name, value)
    try:
        sqlalchemy_url(value or "")
    except ValueError as error:
        raise ConfigError(name, None, "", str(error)) from None


def only_utc(name: str, value: Any) -> None:
    if value not in UTC:
        raise ConfigError(name, value, "only UTC is followed here: times without a zone are taken for it")


CONNECTION: Final = ConfigDef(
    Key(
        "connection.url",
        default=REQUIRED,
        doc="The database: a JDBC URL, or one of SQLAlchemy.",
        importance="HIGH",
        check=understood,
    ),
    Key("connection.user", doc="Who logs in, if the URL does not say it.", importance="HIGH"),
    Key("connection.password", ConfigType.PASSWORD, doc="The password.", importance="HIGH"),
    Key(
        "connection.attempts",
        ConfigType.INT,
        "3",
        "Accepted: a failed task is started again with growing pauses.",
        "LOW",
    ),
    Key("connection.backoff.ms", ConfigType.LONG, "10000", "Accepted, likewise.", "LOW"),
    Key("dialect.name", default="", doc="Accepted: the URL says it.", importance="LOW"),
    Key("db.timezone", default="UTC", doc="Of times without one; only UTC.", check=only_utc),
)
TIMEOUT_SECONDS: Final = 60
CONNECT_SECONDS: Final = 10
"""A server that does not answer holds up the other connectors of its worker for as long."""
LONG_DIGITS: Final = 18
DIGITS: Final = 38
"""The most that Spark's decimals have."""
SCALE: Final = 9
"""Of decimals that the database knows no digits of."""


def engine_of(config: Mapping[str, Any]) -> Engine:
    from sqlalchemy import create_engine, event
    from sqlalchemy.engine import make_url
    from sqlalchemy.pool import NullPool

    url = make_url(sqlalchemy_url(config["connection.url"]))
    if config["connection.user"]:
        url = url.set(username=config["connection.user"])
    if config["connection.password"]:
        url = url.set(password=config["connection.password"])
    is_sqlite = url.get_backend_name() == "sqlite"
    more: dict[str, Any] = {"connect_args": {"timeout": TIMEOUT_SECONDS}} if is_sqlite else {}
    if url.get_backend_name() == "postgresql":
        asked = url.query.get("options", "")
        options = [*(asked if isinstance(asked, tuple) else (asked,)), "-c timezone=UTC"]
        more["connect_args"] = {"options": " ".join(filter(None, options))}
        if "connect_timeout" not in url.query:
            more["connect_args"]["connect_timeout"] = CONNECT_SECONDS
    engine = create_engine(url, poolclass=NullPool, **more)
    if is_sqlite:
        # The driver begins transactions only before writes; reading what is written and writing have to be one.
        event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


# -- types -----------------------------------------------------------------------------------------------------------


def spark_type_of(column: Column[Any], mapping: str = "none") -> str:
    """In Spark's notation. `mapping`: what becomes of decimals, as the setting numeric.mapping says."""
    from sqlalchemy import types

    kind = column.type
    match kind:
        case types.Boolean():
            return "boolean"
        case types.SmallInteger():
            return "smallint"
        case types.BigInteger():
            return "bigint"
        case types.Integer():
            return "bigint" if column.table.metadata.info.get("sqlite") else "int"
        case types.Float():
            return "double"
        case types.Numeric():
            return decimal_type(kind.precision, kind.scale, mapping)
        case types.DateTime():
            return "timestamp"
        case types.Date():
            return "date"
        case types.LargeBinary():
            return "binary"
    return "string"


def decimal_type(precision: int | None, scale: int | None, mapping: str) -> str:
    if precision is None:
        return "double" if mapping.startswith("best_fit") else f"decimal({DIGITS},{SCALE})"
    scale = scale or 0
    if scale < 0:
        precision, scale = precision - scale, 0
    if mapping == "best_fit_eager_double" and scale > 0:
        return "double"
    if mapping in ("best_fit", "best_fit_eager_double", "precision_only") and scale == 0 and precision <= LONG_DIGITS:
        return "int" if precision < 10 else "bigint"
    if mapping == "best_fit" and precision <= 15:
        return "double"
    return f"decimal({min(precision, DIGITS)},{min(scale, DIGITS)})"


def arrow_type(kind: str) -> pa.DataType:
    """Spark reads its notation only where it has a session."""
    import pyarrow as pa

    if kind.startswith("decimal"):
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
        "binary": pa.binary(),
    }.get(kind, pa.string())


def coercer(kind: str) -> Callable[[Any], Any] | None:
    """From what a driver gives to what Arrow takes for the type; None: as it is."""
    if kind == "string":
        return lambda value: value if value is None or isinstance(value, str) else as_text(value)
    if kind == "double":
        return lambda value: None if value is None else float(value)
    if kind == "boolean":
        return lambda value: None if value is None else bool(value)
    if kind == "binary":
        return lambda value: None if value is None else bytes(value)
    if kind.startswith("decimal"):
        precision, scale = (int(each) for each in kind.removeprefix("decimal(").removesuffix(")").split(","))
        return lambda value: None if value is None else exact(value, precision, scale)
    if kind == "timestamp":
        return as_utc
    return None


class Misfit(ValueError):
    """A value that the type of its column cannot hold as it is."""


def exact(value: Any, precision: int, scale: int) -> Decimal:
    """Raises Misfit rather than round."""
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    problem = f"{value} does not fit decimal({precision},{scale})"
    if not number.is_finite():
        raise Misfit(problem)
    try:
        return Context(prec=precision, traps=[Inexact, InvalidOperation]).quantize(number, Decimal(1).scaleb(-scale))
    except (Inexact, InvalidOperation):
        raise Misfit(problem) from None


def as_text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.isoformat() if isinstance(value, dt.time) else str(value)


def as_utc(value: Any) -> Any:
    if isinstance(value, str):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=dt.UTC)
    return value
