"""Where in an archive a record goes: partitioners under the names of Confluent's, and names of files.

The place is a function of the record alone, so that a second attempt writes the same files: the time of the clock
(`Wallclock`) is not offered.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote
from zoneinfo import ZoneInfo

from moldau.config.definition import ConfigError
from moldau.connect.interface import RecordRefused, SinkRecord

DAILY: Final = "'year'=YYYY/'month'=MM/'day'=dd"
HOURLY: Final = f"{DAILY}/'hour'=HH"
TOKEN: Final = re.compile(r"'([^']*)'|([A-Za-z])\2*|(.)", re.DOTALL)
PARTS: Final = {"y": "%Y", "Y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S"}
"""Of Joda's patterns."""
DAY_MS: Final = 86_400_000
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

Place = Callable[[SinkRecord], str]
"""The folder below the topic's."""


def simple_name(java: str) -> str:
    return java.rsplit(".", 1)[-1]


def strftime_of(pattern: str, delimiter: str = "/") -> str:
    found = []
    for match in TOKEN.finditer(pattern):
        quoted, letter, other = match.group(1), match.group(2), match.group(3)
        if quoted is not None:
            found.append((quoted or "'").replace("%", "%%"))
        elif letter is not None:
            if letter not in PARTS:
                raise ConfigError("path.format", pattern, f"{letter} is none of {', '.join(PARTS)}; quote text with '")
            found.append(PARTS[letter])
        else:
            found.append((delimiter if other == "/" else other).replace("%", "%%"))
    return "".join(found)


@dataclass(frozen=True, slots=True)
class ByPartition:
    """Confluent's DefaultPartitioner."""

    def __call__(self, record: SinkRecord) -> str:
        return f"partition={record.partition}"


@dataclass(frozen=True, slots=True)
class ByField:
    names: tuple[str, ...]
    delimiter: str

    def __call__(self, record: SinkRecord) -> str:
        return self.delimiter.join(f"{name}={quote(str(field_of(record, name)), safe=' ')}" for name in self.names)


@dataclass(frozen=True, slots=True)
class ByTime:
    pattern: str
    zone: ZoneInfo
    duration_ms: int
    field: str | None
    """Of the value; None: the record's timestamp."""

    def __call__(self, record: SinkRecord) -> str:
        millis = time_of(record, self.field)
        begin = EPOCH + dt.timedelta(milliseconds=millis - millis % self.duration_ms)
        if self.duration_ms >= DAY_MS:
            begin = EPOCH + dt.timedelta(milliseconds=millis)  # days begin where the time zone has them begin
        return begin.astimezone(self.zone).strftime(self.pattern)


def field_of(record: SinkRecord, name: str) -> Any:
    found = record.value
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        raise RecordRefused(f"{record.source} at offset {record.offset}: the value has no field {name}")
    return found


def time_of(record: SinkRecord, field: str | None) -> int:
    found = record.timestamp_ms if field is None else field_of(record, field)
    if isinstance(found, str):
        found = dt.datetime.fromisoformat(found)
    if isinstance(found, dt.datetime):
        aware = found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
        return (aware - EPOCH) // dt.timedelta(milliseconds=1)
    if not isinstance(found, int):
        raise RecordRefused(f"{record.source} at offset {record.offset} has no timestamp: {found!r}")
    return found


def place_of(config: Mapping[str, Any]) -> Place:
    """Raises ValueError for settings that do not go together."""
    kind, delimiter = simple_name(config["partitioner.class"]), config["directory.delim"]
    if kind == "DefaultPartitioner":
        return ByPartition()
    if kind == "FieldPartitioner":
        if not config["partition.field.name"]:
            raise ValueError("partitioner.class=FieldPartitioner needs partition.field.name")
        return ByField(tuple(config["partition.field.name"]), delimiter)
    field = None
    if config["timestamp.extractor"] == "RecordField":
        field = config["timestamp.field"]
    duration = config["partition.duration.ms"]
    pattern = {"DailyPartitioner": DAILY, "HourlyPartitioner": HOURLY}.get(kind) or config["path.format"]
    if kind == "TimeBasedPartitioner" and (not pattern or duration < 1):
        raise ValueError("partitioner.class=TimeBasedPartitioner needs path.format and partition.duration.ms")
    fixed = {"DailyPartitioner": DAY_MS, "HourlyPartitioner": 3_600_000}.get(kind, duration)
    return ByTime(strftime_of(pattern, delimiter), ZoneInfo(config["timezone"] or "UTC"), fixed, field)
