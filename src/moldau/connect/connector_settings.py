"""The settings that every connector has, every source, every sink: Kafka Connect's, with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from moldau.config.definition import ConfigError, ConfigType, text_of
from moldau.connect.definitions import REQUIRED, Check, ConfigDef, Key, at_least, one_of, plain_name

CLASS: Final = "connector.class"
TABLE: Final = Path(__file__).with_name("connector_settings.tsv")
HEADER_CONVERTERS: Final = ("SimpleHeaderConverter", "StringConverter", "ByteArrayConverter")
BOTH, OF_SOURCES, OF_SINKS = "both", "source", "sink"


def distinct(name: str, value: Any) -> None:
    if value is not None and len(set(value)) < len(value):
        raise ConfigError(name, text_of(value), "Duplicate alias provided.")


def header_converter(name: str, value: Any) -> None:
    """Headers are bytes, and what transforms make of text is that text: so far all three do the same."""
    if value is not None and str(value).rsplit(".", 1)[-1] not in HEADER_CONVERTERS:
        raise ConfigError(name, value, f"headers are bytes or text here, by {', '.join(HEADER_CONVERTERS)}")


def rule(text: str) -> Check | None:
    kind, _, argument = text.partition(":")
    match kind:
        case "in":
            return one_of(*argument.split("|"))
        case "least":
            return at_least(int(argument))
        case "distinct":
            return distinct
        case "header_converter":
            return header_converter
        case "plain_name":
            return plain_name
    return None


def read_table() -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {BOTH: [], OF_SOURCES: [], OF_SINKS: []}
    orders: dict[str, int] = {}
    for line in TABLE.read_text().splitlines()[1:]:
        scope, group, name, kind, default, check, importance, width, display, doc = line.split("\t")
        orders[group] = orders.get(group, 0) + 1
        value = REQUIRED if default == "!" else None if default == "-" else default
        key = Key(name, ConfigType[kind], value, doc, importance, rule(check), group, width, display, orders[group])
        found[scope].append(key)
    return found


KEYS: Final = read_table()
SOURCE: Final = ConfigDef(*KEYS[BOTH], *KEYS[OF_SOURCES])
SINK: Final = ConfigDef(*KEYS[BOTH], *KEYS[OF_SINKS])
