"""How long a query waits for a broker that is away: one patience, under one setting, for all that source and sink ask.

A restart of the broker within it fails no batch, whichever process of Spark's meets it: Python workers and planners
come and go in the middle of a query, so none of them may take its own first request for the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.spark.option_table import OptionError

PATIENCE_MS: Final = 120_000
SETTING: Final = "default.api.timeout.ms"
PRODUCERS_NAME: Final = "delivery.timeout.ms"
"""What Java's producer calls it."""


def with_patience(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with the patience under the name that the client reads."""
    given = {name: read_patience_ms(name, properties[name]) for name in (SETTING, PRODUCERS_NAME) if name in properties}
    if len(set(given.values())) > 1:
        raise OptionError(
            f"kafka.{PRODUCERS_NAME}",
            f"says {given[PRODUCERS_NAME]}, but kafka.{SETTING} says {given[SETTING]}; both are how long a broker that "
            "is away is waited for: give one of them",
        )
    return {**properties, SETTING: str(next(iter(given.values()), PATIENCE_MS))}


def read_patience_ms(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"kafka.{name}", f"{text!r} is no whole number") from None
    if number < 1:
        raise OptionError(f"kafka.{name}", f"{number} is less than 1")
    return number
