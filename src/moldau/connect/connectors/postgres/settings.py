"""The settings of the PostgreSQL source, under Debezium's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connectors.postgres.catalog import Choice
from moldau.connect.connectors.postgres.server import Login
from moldau.connect.connectors.postgres.values import UNAVAILABLE, Modes
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, one_of, patterns

INITIAL, INITIAL_ONLY, NO_DATA, NEVER, WHEN_NEEDED = "initial", "initial_only", "no_data", "never", "when_needed"
NO_OPERATIONS: Final = "none"
OPERATIONS: Final = ("c", "u", "d", "t", NO_OPERATIONS)
LIST = ConfigType.LIST
REFUSED: Final = re.compile(
    r"column\.(mask|truncate|propagate)\..*|datatype\.propagate\..*|message\.key\.columns|signal\..*|converters|"
    r"snapshot\.select\.statement\.overrides.*|snapshot\.include\.collection\.list|topic\.naming\.strategy|"
    r"topic\.delimiter|skip\.messages\.without\.change|message\.prefix\..*|hstore\.handling\.mode|"
    r"binary\.handling\.mode|schema\.name\.adjustment\.mode|field\.name\.adjustment\.mode|schema\.refresh\.mode|"
    r"slot\.stream\.params|database\.initial\.statements|snapshot\.locking\.mode|notification\..*"
)
"""Debezium's settings that change records or reading, and are not followed here."""
DEFAULTS: Final = {
    "hstore.handling.mode": "json",
    "binary.handling.mode": "bytes",
    "schema.name.adjustment.mode": "none",
    "field.name.adjustment.mode": "none",
    "schema.refresh.mode": "columns_diff",
    "topic.delimiter": ".",
    "skip.messages.without.change": "false",
    "snapshot.locking.mode": "none",
}


def slot_name(name: str, value: Any) -> None:
    if not re.fullmatch(r"[a-z0-9_]{1,63}", value):
        raise ConfigError(name, value, "small letters, digits and underscores, at most 63")


def topic_prefix(name: str, value: Any) -> None:
    if not re.fullmatch(r"[A-Za-z0-9._-]+", value):
        raise ConfigError(name, value, "letters, digits, dots, underscores and hyphens")


def operations(name: str, value: Any) -> None:
    wrong = [each for each in value or () if each not in OPERATIONS]
    if wrong or (NO_OPERATIONS in (value or ()) and len(value) > 1):
        raise ConfigError(name, ",".join(value), f"some of c, u, d and t, or {NO_OPERATIONS} alone")


def no(name: str, value: Any) -> None:
    if value:
        raise ConfigError(name, "true", "only false is followed here")


DATABASE: Final = (
    Key("database.hostname", default=REQUIRED, doc="The server, or the folder of its socket.", importance="HIGH"),
    Key("database.port", ConfigType.INT, "5432", "Its port.", "HIGH"),
    Key("database.user", default=REQUIRED, doc="Who logs in; needs the right REPLICATION.", importance="HIGH"),
    Key("database.password", ConfigType.PASSWORD, doc="The password.", importance="HIGH"),
    Key("database.dbname", default=REQUIRED, doc="The database.", importance="HIGH", check=not_empty),
    Key("database.sslmode", doc="disable, prefer, require, verify-ca or verify-full; libpq's default, prefer."),
    Key("database.sslrootcert", doc="The file of the authorities' certificates."),
    Key("database.sslcert", doc="The file of the client's certificate."),
    Key("database.sslkey", doc="The file of its key."),
    Key("plugin.name", default="pgoutput", doc="Only pgoutput.", check=one_of("pgoutput")),
    Key("slot.name", default="debezium", doc="The replication slot; made if it is missing.", check=slot_name),
    Key("slot.drop.on.stop", ConfigType.BOOLEAN, "false", "Only false: what was not read would be lost.", check=no),
    Key("publication.name", default="dbz_publication", doc="The publication.", check=not_empty),
    Key(
        "publication.autocreate.mode",
        default="all_tables",
        doc="Who makes it: all_tables and filtered (the chosen tables) let the connector, disabled does not.",
        check=one_of("all_tables", "filtered", "disabled"),
    ),
)
CHOICE: Final = (
    Key("schema.include.list", LIST, "", "Patterns for the names of schemas.", check=patterns),
    Key("schema.exclude.list", LIST, "", "Patterns for schemas to leave out.", check=patterns),
    Key("table.include.list", LIST, "", "Patterns for schema.table.", "HIGH", patterns),
    Key("table.exclude.list", LIST, "", "Patterns for tables to leave out.", check=patterns),
    Key("column.include.list", LIST, "", "Patterns for schema.table.column.", check=patterns),
    Key("column.exclude.list", LIST, "", "Patterns for columns to leave out; those of keys stay.", check=patterns),
)
RECORDS: Final = (
    Key(
        "topic.prefix",
        default=REQUIRED,
        doc="Topics are <prefix>.<schema>.<table>.",
        importance="HIGH",
        check=topic_prefix,
    ),
    Key(
        "snapshot.mode",
        default=INITIAL,
        doc="initial reads what is there, then follows; initial_only does not follow; no_data (or never) only follows; "
        "when_needed reads again what was lost with a slot.",
        importance="HIGH",
        check=one_of(INITIAL, INITIAL_ONLY, NO_DATA, NEVER, WHEN_NEEDED),
    ),
    Key("snapshot.batch.rows", ConfigType.INT, "100000", "Rows of a table in a batch.", "LOW", at_least(1)),
    Key("max.batch.wal.bytes", ConfigType.LONG, "67108864", "The server's log in a batch.", "LOW", at_least(1)),
    Key("tombstones.on.delete", ConfigType.BOOLEAN, "true", "Whether a null follows a delete, for compaction."),
    Key("skipped.operations", LIST, "t", "Of c, u, d and t; none: all are captured.", "LOW", operations),
    Key(
        "decimal.handling.mode",
        default="precise",
        doc="precise, double or string.",
        check=one_of("precise", "double", "string"),
    ),
    Key(
        "time.precision.mode",
        default="adaptive",
        doc="adaptive: numbers as fine as the column; connect: Connect's dates and times, in milliseconds.",
        check=one_of("adaptive", "adaptive_time_microseconds", "connect"),
    ),
    Key("interval.handling.mode", default="numeric", doc="Only numeric.", importance="LOW", check=one_of("numeric")),
    Key("unavailable.value.placeholder", default=UNAVAILABLE, doc="For large values that were not sent again."),
    Key("include.unknown.datatypes", ConfigType.BOOLEAN, "true", "Accepted: their texts are given.", "LOW"),
    Key("provide.transaction.metadata", ConfigType.BOOLEAN, "false", "Only false.", "LOW", no),
    Key("heartbeat.interval.ms", ConfigType.INT, "0", "How often a heartbeat is written; 0: never.", "LOW"),
    Key("topic.heartbeat.prefix", default="__debezium-heartbeat", doc="Its topic is <this>.<topic.prefix>."),
    Key("heartbeat.action.query", doc="What is run in the database with each heartbeat.", importance="LOW"),
    Key("slot.lag.warn.bytes", ConfigType.LONG, "1073741824", "From what lag on the slot is told of.", "LOW"),
)
CONFIG: Final = ConfigDef(*DATABASE, *CHOICE, *RECORDS)


def not_followed(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What would change records if it were followed must not be passed over."""
    for name, value in config.items():
        if REFUSED.fullmatch(name) and str(value) != DEFAULTS.get(name):
            yield name, str(ConfigError(name, str(value), "this setting of Debezium is not followed here; remove it"))


def login_of(config: Mapping[str, Any]) -> Login:
    names = ("sslmode", "sslrootcert", "sslcert", "sslkey")
    more = {name: config[f"database.{name}"] for name in names if config[f"database.{name}"]}
    password = config["database.password"]
    return Login(
        config["database.hostname"],
        config["database.port"],
        config["database.user"],
        None if password is None else str(password),
        config["database.dbname"],
        more,
        f"moldau-connect {config.get('name') or config['topic.prefix']}"[:63],
    )


def choice_of(config: Mapping[str, Any]) -> Choice:
    kinds = ("schema", "table", "column")
    return Choice(*(config[f"{kind}.{what}.list"] for kind in kinds for what in ("include", "exclude")))


def modes_of(config: Mapping[str, Any]) -> Modes:
    times = config["time.precision.mode"]
    return Modes(config["decimal.handling.mode"], "connect" if times == "connect" else times)
