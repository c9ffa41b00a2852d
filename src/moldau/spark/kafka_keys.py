"""`kafka.*` options: Java's client properties, each honoured, ignored with a warning, or refused (kafka_keys.tsv)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from moldau.client.errors import SettingError
from moldau.spark.option_table import READ, OptionError, Use, did_you_mean

T = TypeVar("T")

PREFIX: Final = "kafka."
PROVIDERS: Final = "config.providers"
TABLE: Final = Path(__file__).with_name("kafka_keys.tsv")
HONOURED, IGNORED, REFUSED = "honoured", "ignored", "refused"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KafkaKey:
    name: str
    when_reading: str
    when_writing: str
    note: str

    def treatment(self, use: Use) -> str:
        return self.when_reading if use in READ else self.when_writing


@cache
def kafka_keys() -> dict[str, KafkaKey]:
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]]
    return {row[0]: KafkaKey(*row) for row in rows}


def kafka_properties(options: Mapping[str, str], use: Use) -> dict[str, str]:
    """The honoured properties without their prefix."""
    known = kafka_keys()
    properties: dict[str, str] = {}
    for option, value in options.items():
        if not option.lower().startswith(PREFIX):
            continue
        name = property_name(option)
        if name not in known:
            close = did_you_mean(option, [PREFIX + each for each in known])
            raise OptionError(option, f"Kafka's clients have no property {name!r}{close}")
        key = known[name]
        treatment = key.treatment(use)
        if treatment == REFUSED:
            raise OptionError(option, f"cannot be used here: {key.note}")
        if treatment == IGNORED:
            log.warning("option %r is ignored%s", option, f": {key.note}" if key.note else "")
        else:
            properties[name] = value
    return properties


def property_name(option: str) -> str:
    """Providers are named in the property itself: all of theirs stand for one."""
    name = option.lower().removeprefix(PREFIX)
    return PROVIDERS if name.startswith(f"{PROVIDERS}.") else name


def under_kafka_names(action: Callable[[], T]) -> T:
    """A client setting is an option with a prefix here."""
    try:
        return action()
    except SettingError as error:
        raise OptionError(PREFIX + error.key, str(error).removeprefix(f"{error.key}: ")) from None
