"""Tables of a database to topics, under the settings of Confluent's JDBC source.

Modes: `bulk` reads everything again and again; `incrementing` what has a larger id than the last; `timestamp` what
has a later time; `timestamp+incrementing` both, which sees inserts and updates. A table is a stream:
`<topic.prefix><table>`. Tables that are added, and columns, are noticed every `table.poll.interval.ms`. In the place of
tables there may be one `query`, whose topic is `topic.prefix`; what is new is chosen around it, so that the columns of
the mode have to be among its own.

The position is committed in the transaction of the rows, so each row that the database shows for a range is sent once.
What no polling can see stays unseen: rows that are deleted, states between two looks, rows whose transaction commits
after one with a larger id or a later time was read (`timestamp.delay.interval.ms` waits for those).
"""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.config.definition import ConfigType
from moldau.connect.connectors import database_queries
from moldau.connect.connectors.databases import CONNECTION, Misfit, arrow_type, coercer, engine_of, spark_type_of
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, one_of, patterns
from moldau.connect.interface import Position, RawRecord, RecordRefused, SourceConnector, Stream, StreamsChanged
from moldau.connect.source_reading import MISFITS

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import ColumnElement, Connection, Engine, FromClause, Select, Table

INCREMENTING, TIMESTAMP, NANOS, ROUND = "incrementing", "timestamp", "timestamp_nanos", "round"
MODES: Final = ("bulk", INCREMENTING, TIMESTAMP, "timestamp+incrementing")
ROWS: Final = 10_000
FILTERS: Final = ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")
EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 (databases compare times without a zone)


class JdbcSource(SourceConnector):
    CONFIG: ClassVar = CONNECTION + ConfigDef(
        Key(
            "mode",
            default=REQUIRED,
            doc="bulk, incrementing, timestamp or timestamp+incrementing.",
            importance="HIGH",
            check=one_of(*MODES),
        ),
        Key(
            "incrementing.column.name",
            default="",
            doc="The column whose values only grow; found by itself if a table has one whole-number primary key.",
        ),
        Key(
            "timestamp.column.name",
            ConfigType.LIST,
            "",
            "Columns with the time of the last change; the first that is not null counts.",
        ),
        Key(
            "timestamp.initial",
            ConfigType.LONG,
            None,
            "Where timestamp modes begin, in milliseconds since 1970; the beginning by default.",
            "LOW",
        ),
        Key(
            "timestamp.delay.interval.ms",
            ConfigType.LONG,
            "0",
            "How old a row has to be, so that transactions still under way are not missed.",
        ),
        Key("table.whitelist", ConfigType.LIST, "", "The tables; all by default."),
        Key("table.blacklist", ConfigType.LIST, "", "Tables to leave out."),
        Key("table.include.list", ConfigType.LIST, "", "Patterns for the names of tables.", check=patterns),
        Key(
            "table.exclude.list",
            ConfigType.LIST,
            "",
            "Patterns for the names of tables to leave out.",
            check=patterns,
        ),
        Key("schema.pattern", default="", doc="The database's schema; its default one without."),
        Key(
            "query",
            default="",
            doc="Read in the place of tables: a SELECT of SQLite or PostgreSQL; for others make a view.",
        ),
        Key(
            "topic.prefix", default="", doc="Before the table's name, or the whole name for a query.", importance="HIGH"
        ),
        Key("poll.interval.ms", ConfigType.INT, "5000", "How often bulk mode reads everything.", "HIGH"),
        Key("batch.max.rows", ConfigType.INT, "100000", "The most rows of a table in a batch.", "LOW", at_least(1)),
        Key(
            "numeric.mapping",
            default="none",
            doc="What becomes of decimals.",
            importance="LOW",
            check=one_of("none", "precision_only", "best_fit", "best_fit_eager_double"),
        ),
        Key(
            "validate.non.null",
            ConfigType.BOOLEAN,
            "true",
            "Accepted: rows with null in these columns are never read.",
            "LOW",
        ),
        Key(
            "table.poll.interval.ms",
            ConfigType.LONG,
            "60000",
            "How often new tables and columns are looked for.",
            "LOW",
            at_least(1),
        ),
    )

    @classmethod
    def problems(cls, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        filters = [name for name in FILTERS if config.get(name)]
        if config["query"] and filters:
            yield "query", f"query reads no tables: take {', '.join(filters)} away, or the query"
        if config["query"] and not config["topic.prefix"]:
            yield "topic.prefix", "query goes to the topic that topic.prefix names: set it"
        if TIMESTAMP in config["mode"] and not config["timestamp.column.name"]:
            yield "timestamp.column.name", f"mode={config['mode']} needs timestamp.column.name"

    def __init__(self, config: Any, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(config)
        self._query = str(config["query"]).strip().rstrip(";")
        self._monotonic = monotonic
        self._engine: Engine | None = None
        self._tables: dict[str, Table] = {}
        self._rounds: dict[str, float] = {}
        self._looked_at = monotonic()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()

    def _connect(self) -> Connection:
        if self._engine is None:
            self._engine = engine_of(self.config)
        return self._engine.connect()

    # -- streams -----------------------------------------------------------------------------------------------------

    def streams(self) -> Sequence[Stream]:
        with self._connect() as connection:
            if self._query:
                whole = {database_queries.NAME: database_queries.NAME}
                return [self._stream(connection, database_queries.NAME, whole, self.config["topic.prefix"])]
            names = self._names(connection)
            if not names:
                raise ValueError("no table was found: see table.whitelist, table.include.list and schema.pattern")
            return [
                self._stream(connection, name, {"protocol": "1", "table": name}, f"{self.config['topic.prefix']}{name}")
                for name in names
            ]

    def _names(self, connection: Connection) -> list[str]:
        from sqlalchemy import inspect

        schema, look = self.config["schema.pattern"] or None, inspect(connection)
        there = sorted(look.get_table_names(schema))
        # Views are read when they are named.
        there += sorted(set(look.get_view_names(schema)) & set(self.config["table.whitelist"]))
        wanted = self.config["table.whitelist"]
        missing = [name for name in wanted if name not in there]
        if missing:
            raise ValueError(f"there is no table {', '.join(missing)}; there are {', '.join(there) or 'none'}")
        include, exclude = self.config["table.include.list"], self.config["table.exclude.list"]
        return [
            name
            for name in there
            if (not wanted or name in wanted)
            and name not in self.config["table.blacklist"]
            and (not include or any(re.fullmatch(each, name) for each in include))
            and not any(re.fullmatch(each, name) for each in exclude)
        ]

    def _stream(self, connection: Connection, name: str, partition: dict[str, str], topic: str) -> Stream:
        table = self._table(connection, name)
        self._check_columns(table)
        fields = [
            f"`{column.name}`: {spark_type_of(column, self.config['numeric.mapping'])}"
            + ("" if column.nullable else " NOT NULL")
            for column in table.columns
        ]
        return Stream(partition, topic, f"struct<{', '.join(fields)}>", value_name=name)

    def _table(self, connection: Connection, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = (
                database_queries.described(connection, self._query)
                if self._query
                else reflected(connection, name, self.config)
            )
        return self._tables[name]

    def _read_from(self, table: Table) -> FromClause:
        return database_queries.selected(table, self._query) if self._query else table

    def committed(self, streams: Sequence[tuple[Stream, Position | None]]) -> None:
        """Asked for the sake of looking at the tables again."""
        now = self._monotonic()
        if now - self._looked_at < self.config["table.poll.interval.ms"] / 1000:
            return
        self._looked_at = now
        self._tables.clear()
        before = {stream.topic: stream.value for stream, _ in streams}
        if {stream.topic: stream.value for stream in self.streams()} != before:
            raise StreamsChanged("the tables, or their columns, have changed")

    def _check_columns(self, table: Table) -> None:
        mode = self.config["mode"]
        wanted = list(self.config["timestamp.column.name"]) if TIMESTAMP in mode else []
        if INCREMENTING in mode:
            wanted.append(self._id_name(table))
        missing = [name for name in wanted if name not in table.columns]
        if missing:
            raise ValueError(
                f"{table.name} has no column {', '.join(missing)}; it has {', '.join(table.columns.keys())}"
            )

    def _id_name(self, table: Table) -> str:
        named: str = self.config["incrementing.column.name"]
        keys = [column.name for column in table.primary_key.columns]
        if not named and len(keys) != 1:
            raise ValueError(f"{table.name} has no single primary key: set incrementing.column.name")
        return named or keys[0]

    # -- positions ---------------------------------------------------------------------------------------------------

    def latest(self, stream: Stream, position: Position | None) -> Position | None:
        name = name_of(stream)
        if self.config["mode"] == "bulk":
            return self._next_round(name, position)
        with self._connect() as connection:
            table = self._table(connection, name)
            return self._last_of_batch(connection, table, position) or position

    def _next_round(self, name: str, position: Position | None) -> Position | None:
        now = self._monotonic()
        if name in self._rounds and now - self._rounds[name] < self.config["poll.interval.ms"] / 1000:
            return position
        self._rounds[name] = now
        return {ROUND: position[ROUND] + 1 if position else 1}

    def _last_of_batch(self, connection: Connection, table: Table, position: Position | None) -> Position | None:
        """The position of the last of the next rows, of which there are not more than a batch may have."""
        from sqlalchemy import select

        keys = self._keys(connection, table, self._read_from(table))
        waiting = [*self._after(connection, keys, position), *self._before_now(connection, keys)]
        ordered = (
            select(*keys.values())
            .where(*waiting)
            .order_by(*keys.values())
            .limit(self.config["batch.max.rows"])
            .subquery()
        )
        backwards = select(*ordered.c).order_by(*(column.desc() for column in ordered.c)).limit(1)
        last = connection.execute(backwards).first()
        return None if last is None else position_of(dict(zip(keys, last, strict=True)))

    def _keys(self, connection: Connection, table: Table, rows: FromClause) -> dict[str, ColumnElement[Any]]:
        """What rows are ordered by: the time, then the id."""
        from sqlalchemy import func

        found: dict[str, ColumnElement[Any]] = {}
        mode = self.config["mode"]
        if TIMESTAMP in mode:
            columns = [rows.columns[name] for name in self.config["timestamp.column.name"]]
            changed: ColumnElement[Any] = columns[0] if len(columns) == 1 else func.coalesce(*columns)
            if connection.dialect.name == "sqlite":
                # Its times are texts, with and without fractions; only in one form do they compare as times.
                changed = func.strftime("%Y-%m-%d %H:%M:%f", changed)
            found[TIMESTAMP] = changed
        if INCREMENTING in mode:
            found[INCREMENTING] = rows.columns[self._id_name(table)]
        return found

    def _after(
        self, connection: Connection, keys: dict[str, ColumnElement[Any]], position: Position | None
    ) -> list[ColumnElement[bool]]:
        from sqlalchemy import and_, or_

        not_null: list[ColumnElement[bool]] = [key.is_not(None) for key in keys.values()]
        if position is None:
            initial = self.config["timestamp.initial"]
            if TIMESTAMP in keys and initial is not None:
                return [*not_null, keys[TIMESTAMP] > bound(connection, instant(initial, 0))]
            return not_null
        if TIMESTAMP not in keys:
            return [*not_null, keys[INCREMENTING] > position[INCREMENTING]]
        at = bound(connection, instant(position[TIMESTAMP], position.get(NANOS, 0)))
        if INCREMENTING not in keys or INCREMENTING not in position:
            return [*not_null, keys[TIMESTAMP] > at]
        same = and_(keys[TIMESTAMP] == at, keys[INCREMENTING] > position[INCREMENTING])
        return [*not_null, or_(keys[TIMESTAMP] > at, same)]

    def _before_now(self, connection: Connection, keys: dict[str, ColumnElement[Any]]) -> list[ColumnElement[bool]]:
        """Rows of this very instant wait: others with the same time may still come."""
        if TIMESTAMP not in keys:
            return []
        now = database_time(connection) - dt.timedelta(milliseconds=self.config["timestamp.delay.interval.ms"])
        return [keys[TIMESTAMP] < bound(connection, now)]

    def _up_to(
        self, connection: Connection, keys: dict[str, ColumnElement[Any]], end: Position
    ) -> list[ColumnElement[bool]]:
        from sqlalchemy import and_, or_

        if TIMESTAMP not in keys:
            return [keys[INCREMENTING] <= end[INCREMENTING]]
        at = bound(connection, instant(end[TIMESTAMP], end.get(NANOS, 0)))
        if INCREMENTING not in keys:
            return [keys[TIMESTAMP] <= at]
        same = and_(keys[TIMESTAMP] == at, keys[INCREMENTING] <= end[INCREMENTING])
        return [or_(keys[TIMESTAMP] < at, same)]

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, stream: Stream, begin: Position | None, end: Position) -> Iterator[Any]:
        from sqlalchemy import select

        with self._connect() as connection:
            table = self._table(connection, name_of(stream))
            source = self._read_from(table)
            wanted: Select[Any] = select(*source.columns)
            if self.config["mode"] != "bulk":
                keys = self._keys(connection, table, source)
                wanted = wanted.where(*self._after(connection, keys, begin), *self._up_to(connection, keys, end))
                wanted = wanted.order_by(*keys.values())
            kinds = [spark_type_of(column, self.config["numeric.mapping"]) for column in table.columns]
            rows = connection.execution_options(stream_results=True, yield_per=ROWS).execute(wanted)
            for several in rows.partitions(ROWS):
                yield from batches_of(several, table.columns.keys(), kinds)

    def validate_position(self, partition: Any, position: Any) -> None:
        if position is not None and not set(position) <= {INCREMENTING, TIMESTAMP, NANOS, ROUND}:
            raise ValueError(f"a position has {INCREMENTING}, {TIMESTAMP} and {NANOS}, not {', '.join(position)}")


def name_of(stream: Stream) -> str:
    """Of the table, or of the query."""
    return str(stream.partition.get("table", database_queries.NAME))


def reflected(connection: Connection, name: str, config: Any) -> Table:
    from sqlalchemy import MetaData, Table

    metadata = MetaData(info={"sqlite": connection.dialect.name == "sqlite"})
    return database_queries.unrounded(
        connection, Table(name, metadata, autoload_with=connection, schema=config["schema.pattern"] or None)
    )


def batches_of(
    rows: Sequence[Any], names: Sequence[str], kinds: Sequence[str]
) -> Iterator[pa.RecordBatch | RecordRefused]:
    """A row with a value that its column's type does not hold is refused."""
    try:
        yield batch_of(rows, names, kinds)
    except MISFITS:
        for row in rows:
            try:
                yield batch_of([row], names, kinds)
            except MISFITS as problem:
                yield refused(row, names, kinds, problem)


def batch_of(rows: Sequence[Any], names: Sequence[str], kinds: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa

    arrays, fields = [], []
    for name, kind, values in zip(names, kinds, zip(*rows, strict=True), strict=True):
        coerce = coercer(kind)
        target = arrow_type(kind)
        arrays.append(pa.array(values if coerce is None else map(coerce, values), target, size=len(rows)))
        fields.append(pa.field(name, target))
    return pa.RecordBatch.from_arrays([pa.StructArray.from_arrays(arrays, fields=fields)], names=["value"])


def refused(row: Sequence[Any], names: Sequence[str], kinds: Sequence[str], problem: Exception) -> RecordRefused:
    told = f"the row does not fit the types of its table: {problem}"
    for name, kind, value in zip(names, kinds, row, strict=True):
        coerce = coercer(kind)
        try:
            _ = value if coerce is None else coerce(value)
        except Misfit as misfit:
            told = (
                f"the column {name}: {misfit}: set numeric.mapping=best_fit (a double, with its 15 digits), or read a "
                "query or view that casts it to a NUMERIC with digits, or to text"
            )
            break
        except MISFITS:
            continue
    return RecordRefused(told, RawRecord.shown(None, dict(zip(names, row, strict=True))))


# -- times -----------------------------------------------------------------------------------------------------------


def position_of(keys: dict[str, Any]) -> Position:
    found: Position = {}
    if TIMESTAMP in keys:
        at = keys[TIMESTAMP]
        at = dt.datetime.fromisoformat(at) if isinstance(at, str) else at
        at = at.astimezone(dt.UTC).replace(tzinfo=None) if at.tzinfo is not None else at
        micros = (at - EPOCH) // dt.timedelta(microseconds=1)
        found |= {TIMESTAMP: micros // 1000, NANOS: at.microsecond * 1000}
    if INCREMENTING in keys:
        found[INCREMENTING] = int(keys[INCREMENTING])
    return found


def instant(millis: int, nanos: int) -> dt.datetime:
    """`nanos` are those of the second, milliseconds among them."""
    whole = EPOCH + dt.timedelta(milliseconds=millis)
    return whole.replace(microsecond=nanos // 1000) if nanos else whole


def bound(connection: Connection, at: dt.datetime) -> Any:
    """As the database compares it."""
    if connection.dialect.name == "sqlite":
        return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03}"
    return at


def database_time(connection: Connection) -> dt.datetime:
    from sqlalchemy import text

    if connection.dialect.name == "sqlite":
        shown: str = connection.execute(text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")).scalar_one()
        return dt.datetime.fromisoformat(shown)
    found: dt.datetime = connection.execute(text("SELECT CURRENT_TIMESTAMP")).scalar_one()
    return found.astimezone(dt.UTC).replace(tzinfo=None) if found.tzinfo is not None else found
