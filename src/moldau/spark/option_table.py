"""How options are described, checked and read; shared by the reader's table, the writer's and that of value formats.

Spark hands option names over in lower case, so names are compared without regard to case and shown as they are written
in the documentation.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

PASSED_BY_SPARK: Final = frozenset({"checkpointlocation", "queryname", "path"})
"""Spark adds these itself; they mean nothing to us and are never refused."""
DURATION: Final = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
MILLISECONDS: Final = {
    "": 1, "ms": 1, "millisecond": 1, "milliseconds": 1,
    "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hr": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip


class Use(Enum):
    """Where an option has a meaning."""

    BATCH_READ = "batch read"
    STREAM_READ = "stream read"
    BATCH_WRITE = "batch write"
    STREAM_WRITE = "stream write"


READ: Final = frozenset({Use.BATCH_READ, Use.STREAM_READ})
WRITE: Final = frozenset({Use.BATCH_WRITE, Use.STREAM_WRITE})
EVERYWHERE: Final = READ | WRITE


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the reference page."""

    name: str
    uses: frozenset[Use]
    default: str
    """As the documentation says it; the code that reads the option holds the value."""
    doc: str

    @property
    def key(self) -> str:
        return self.name.lower()


class OptionError(ValueError):
    """An option cannot be used; the message begins with its name."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"option {name!r}: {problem}")
        self.name = name


def check_names(given: Iterable[str], table: Iterable[Option], use: Use) -> None:
    """Refuses a name that is in no table, or that has no meaning for this use; `kafka.*` has a table of its own."""
    known = {option.key: option for option in table}
    for name in given:
        key = name.lower()
        if key in PASSED_BY_SPARK or key.startswith("kafka."):
            continue
        if key not in known:
            here = [option.name for option in known.values() if use in option.uses]
            raise OptionError(name, f"there is no such option{did_you_mean(name, here)}")
        if use not in known[key].uses:
            others = " or ".join(sorted(each.value for each in known[key].uses))
            raise OptionError(known[key].name, f"has no meaning for a {use.value}; it is for a {others}")


def did_you_mean(name: str, known: Collection[str]) -> str:
    by_key = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_key, n=1, cutoff=0.5)
    return f"; did you mean {by_key[close[0]]!r}?" if close else ""


def read_flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OptionError(name, f"{text!r} is neither true nor false")
    return text.strip().lower() == "true"


def read_count(options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise OptionError(name, f"{text!r} is no whole number") from None
    if number < least:
        raise OptionError(name, f"{number} is less than {least}")
    return number


def read_choice(options: Mapping[str, str], name: str, choices: Collection[str], default: str) -> str:
    """The choice as it is written in `choices`, whatever its case was."""
    text = options.get(name.lower(), default).strip()
    for choice in choices:
        if choice.lower() == text.lower():
            return choice
    raise OptionError(name, f"{text!r} is none of {', '.join(choices)}{did_you_mean(text, choices)}")


def read_milliseconds(options: Mapping[str, str], name: str, default: int) -> int:
    """Durations as Spark writes them: `15m`, `10 seconds`, `500ms`; a bare number counts milliseconds."""
    text = options.get(name.lower())
    if text is None:
        return default
    found = DURATION.fullmatch(text)
    if found is None or found.group(2).lower() not in MILLISECONDS:
        raise OptionError(name, f"{text!r} is no duration such as 500ms, 10s or 15m")
    return int(found.group(1)) * MILLISECONDS[found.group(2).lower()]


def read_names(options: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    """A list separated by commas, without empty or doubled names."""
    text = options.get(name.lower())
    if text is None:
        return None
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise OptionError(name, "names nothing")
    return names
