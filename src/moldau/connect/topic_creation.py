"""The topics of a source that are missing: Kafka Connect's settings `topic.creation.*`.

Without any of them the broker makes topics, if it may. With them the task makes a topic before it first writes to it:
with the settings of the first of `topic.creation.groups` that it belongs to, or with those of `default`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.config.definition import ConfigError, ConfigType, text_of
from moldau.connect.definitions import REQUIRED, ConfigDef, Key
from moldau.spark.writing.new_topics import BROKERS_DEFAULT, NewTopics

PREFIX: Final = "topic.creation."
GROUPS: Final = f"{PREFIX}groups"
DEFAULT: Final = "default"
INCLUDE, EXCLUDE, PARTITIONS, REPLICATION = "include", "exclude", "partitions", "replication.factor"
OWN: Final = (INCLUDE, EXCLUDE, PARTITIONS, REPLICATION)


def positive_or_default(name: str, value: Any) -> None:
    if value is not None and value != BROKERS_DEFAULT and value < 1:
        raise ConfigError(name, text_of(value), f"has to be positive, or {BROKERS_DEFAULT} for the broker's default")


def patterns(name: str, value: Any) -> None:
    for pattern in value or ():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(name, pattern, f"is no pattern: {error}") from None


def is_used(given: Mapping[str, str | None]) -> bool:
    return any(name.startswith(PREFIX) for name in given)


def groups_of(given: Mapping[str, str | None]) -> list[str]:
    """In the order in which they are asked; `default` is the last."""
    named = [part.strip() for part in (given.get(GROUPS) or "").split(",") if part.strip()]
    return [*(name for name in dict.fromkeys(named) if name != DEFAULT), DEFAULT]


def settings_of(given: Mapping[str, str | None]) -> ConfigDef:
    """Of the groups that a configuration names."""
    if not is_used(given):
        return ConfigDef()
    keys = []
    for group in groups_of(given):
        prefix, title = f"{PREFIX}{group}.", f"Topic Creation: {group}"
        if group != DEFAULT:
            keys += [
                Key(f"{prefix}{INCLUDE}", ConfigType.LIST, REQUIRED, "Patterns for the names of its topics.",
                    "HIGH", patterns, title),
                Key(f"{prefix}{EXCLUDE}", ConfigType.LIST, "", "Patterns for names that it does not take.",
                    "MEDIUM", patterns, title),
            ]  # fmt: skip
        for name, doc in ((REPLICATION, "Copies of each partition"), (PARTITIONS, "Partitions of a new topic")):
            inherited = REQUIRED if group == DEFAULT else given.get(f"{PREFIX}{DEFAULT}.{name}")
            kind = ConfigType.SHORT if name == REPLICATION else ConfigType.INT
            keys.append(
                Key(f"{prefix}{name}", kind, inherited, f"{doc}; -1: the broker's default.", "LOW",
                    positive_or_default, title)
            )  # fmt: skip
    return ConfigDef(*keys)


def rules_of(given: Mapping[str, str], values: Mapping[str, Any]) -> Sequence[NewTopics]:
    """`values`: what the settings mean."""
    if not is_used(given):
        return ()
    found = []
    for group in groups_of(given):
        prefix = f"{PREFIX}{group}."
        own = {name[len(prefix) :]: value for name, value in given.items() if name.startswith(prefix)}
        include, exclude = (
            ((".*",), ()) if group == DEFAULT else (values[f"{prefix}{each}"] for each in (INCLUDE, EXCLUDE))
        )
        found.append(
            NewTopics(
                tuple(include),
                tuple(exclude or ()),
                values[f"{prefix}{PARTITIONS}"],
                values[f"{prefix}{REPLICATION}"],
                tuple((name, value) for name, value in own.items() if name not in OWN),
            )
        )
    return found
