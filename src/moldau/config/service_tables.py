"""Tables of the settings of services: a text file beside the module that asks for it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from moldau.config.definition import ConfigType, Setting, Update, Value

COLUMNS: Final = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the settings of a service amount to, each read as what its table says that it is."""

    values: Mapping[str, Value]

    def text(self, name: str) -> str:
        value = self.values[name]
        return "" if value is None else str(value)

    def number(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        return bool(self.values[name])

    def list(self, name: str) -> tuple[str, ...]:
        value = self.values[name]
        return value if isinstance(value, tuple) else ()


def read_table(path: Path) -> dict[str, Setting]:
    """A table of settings: name, type, default (- for none), meaning, and a rule if there is one."""
    found = {}
    for line in path.read_text().splitlines()[1:]:
        name, kind, default, doc, rule, *_ = (*line.split("\t"), *[""] * COLUMNS)
        given = None if default == "-" else default
        found[name] = Setting(name, ConfigType[kind], given, rule, Update.READ_ONLY, False, True, doc)
    return found


def parse_settings(settings: Mapping[str, Setting], properties: Mapping[str, str]) -> dict[str, Value]:
    """What is in the table; others may be another table's: see `tell_unknown`."""
    return {
        name: each.parse(properties[name]) if name in properties else each.default_value
        for name, each in settings.items()
    }


def renamed(properties: Mapping[str, str], older: Mapping[str, str]) -> dict[str, str]:
    """With today's names for older ones, which do not win over today's."""
    found = {name: value for name, value in properties.items() if name not in older}
    for name in older.keys() & properties.keys():
        log.warning("the setting %s is called %s now", name, older[name])
        found.setdefault(older[name], properties[name])
    return found


def tell_unknown(properties: Iterable[str], known: Iterable[str], prefixes: tuple[str, ...] = ()) -> None:
    """What is set and means nothing is probably a slip. `prefixes`: settings that are somebody else's to know."""
    names = sorted(known)
    for name in properties:
        if name in names or name.startswith(prefixes):
            continue
        near = get_close_matches(name, names, 1)
        log.warning("the setting %s is not known, and ignored%s", name, f": is {near[0]} meant?" if near else "")
