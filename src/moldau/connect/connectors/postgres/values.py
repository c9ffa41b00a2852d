"""PostgreSQL's types: as Spark's, and their values from the text that the server writes. Pure.

The payloads are Debezium's: dates and times are numbers (`time.precision.mode=adaptive`), those with a zone texts,
numbers with a fraction decimals, JSON, UUIDs and enumerations texts. Of the rest (ranges, composites, money, network
addresses, bits) the text is given.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

BOOL, BYTEA, INT8, INT2, INT4, OID, FLOAT4, FLOAT8 = 16, 17, 20, 21, 23, 26, 700, 701
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, BIT, NUMERIC = 1082, 1083, 1114, 1184, 1186, 1560, 1700
ARRAYS: Final[Mapping[int, int]] = {
    1000: BOOL, 1001: BYTEA, 1005: INT2, 1007: INT4, 1016: INT8, 1028: OID, 1021: FLOAT4, 1022: FLOAT8, 1231: NUMERIC,
    1182: DATE, 1183: TIME, 1115: TIMESTAMP, 1185: TIMESTAMPTZ, 1009: 25, 1015: 1043, 1014: 1042, 2951: 2950, 199: 114,
    3807: 3802,
}  # fmt: skip
"""Element by array."""
PLAIN: Final[Mapping[int, str]] = {
    BOOL: "boolean",
    INT2: "smallint",
    INT4: "int",
    INT8: "bigint",
    OID: "bigint",
    FLOAT4: "float",
    FLOAT8: "double",
    BYTEA: "binary",
    INTERVAL: "bigint",
}
VARIABLE_SCALE: Final = "struct<scale: int, value: binary>"
"""Of numbers whose column says neither digits nor fraction."""
DIGITS: Final = 38
MICROS: Final = 1_000_000
DAY_MICROS: Final = 86_400 * MICROS
DAYS_PER_MONTH: Final = 365.25 / 12
EPOCH: Final = dt.date(1970, 1, 1).toordinal()
UNAVAILABLE: Final = "__debezium_unavailable_value"


class ValueRefused(ValueError):
    """A value that the type of its column's records does not hold."""


@dataclass(frozen=True, slots=True)
class Modes:
    """What becomes of decimals and times, as the settings say."""

    decimals: str = "precise"
    times: str = "adaptive"


@dataclass(frozen=True, slots=True)
class Type:
    """Of a column, domains resolved."""

    oid: int
    modifier: int = -1

    @property
    def fraction_digits(self) -> int:
        """Of times."""
        return self.modifier if self.modifier >= 0 else 6


def spark_type(kind: Type, modes: Modes) -> str:
    if kind.oid in ARRAYS:
        return f"array<{spark_type(Type(ARRAYS[kind.oid], kind.modifier), modes)}>"
    if kind.oid in PLAIN:
        return PLAIN[kind.oid]
    if kind.oid == NUMERIC:
        return decimal_type(kind, modes)
    if kind.oid == DATE:
        return "date" if modes.times == "connect" else "int"
    if kind.oid == TIMESTAMP:
        return "timestamp" if modes.times == "connect" else "bigint"
    if kind.oid == TIME:
        return "int" if is_coarse(kind, modes) else "bigint"
    if kind.oid == BIT and kind.modifier == 1:
        return "boolean"
    return "string"


def decimal_type(kind: Type, modes: Modes) -> str:
    if modes.decimals != "precise":
        return modes.decimals
    if kind.modifier < 0:
        return VARIABLE_SCALE
    digits, scale = ((kind.modifier - 4) >> 16) & 0xFFFF, (kind.modifier - 4) & 0x7FF
    if digits > DIGITS or scale > digits:
        return VARIABLE_SCALE
    return f"decimal({digits},{scale})"


def is_coarse(kind: Type, modes: Modes) -> bool:
    """Milliseconds are enough."""
    return modes.times == "connect" or kind.fraction_digits <= 3


# -- values ----------------------------------------------------------------------------------------------------------

Parser = Callable[[str], Any]


def parser_of(kind: Type, modes: Modes) -> Parser:
    """From the server's text, under the session settings of `server`, to what Arrow takes for the type."""
    if kind.oid in ARRAYS:
        element = parser_of(Type(ARRAYS[kind.oid], kind.modifier), modes)
        return lambda text: [None if each is None else element(each) for each in array_items(text)]
    if kind.oid in (INT2, INT4, INT8, OID):
        return int
    if kind.oid in (FLOAT4, FLOAT8):
        return float
    if kind.oid == BOOL or (kind.oid == BIT and kind.modifier == 1):
        return lambda text: text in ("t", "true", "1")
    if kind.oid == BYTEA:
        return lambda text: bytes.fromhex(text.removeprefix("\\x"))
    if kind.oid == NUMERIC:
        return decimal_parser(kind, modes)
    if kind.oid == INTERVAL:
        return interval_micros
    return time_parser(kind, modes) or str


def decimal_parser(kind: Type, modes: Modes) -> Parser:
    wanted = decimal_type(kind, modes)
    if wanted == "string":
        return str
    if wanted == "double":
        return float
    return variable_scale if wanted == VARIABLE_SCALE else finite


def finite(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite():
        raise ValueError(f"{text} is no decimal: set decimal.handling.mode to string or double")
    return found


def variable_scale(text: str) -> dict[str, Any]:
    sign, digits, exponent = finite(text).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    unscaled = -unscaled if sign else unscaled
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return {"scale": max(-exponent, 0), "value": unscaled.to_bytes(size, "big", signed=True)}


def time_parser(kind: Type, modes: Modes) -> Parser | None:
    if kind.oid == DATE:
        return as_date if modes.times == "connect" else days
    if kind.oid == TIME:
        return (lambda text: time_micros(text) // 1000) if is_coarse(kind, modes) else time_micros
    if kind.oid == TIMESTAMP:
        if modes.times == "connect":
            return timestamp_micros
        return (lambda text: timestamp_micros(text) // 1000) if kind.fraction_digits <= 3 else timestamp_micros
    if kind.oid == TIMESTAMPTZ:
        return lambda text: zoned(text, kind.fraction_digits)
    return None


def as_date(text: str) -> dt.date:
    return dt.date.fromordinal(days(text) + EPOCH)


def days(text: str) -> int:
    """Since 1970; also of years that Python does not know."""
    if "infinity" in text:
        raise ValueError(f"{text} is no date that a record can hold")
    era = text.endswith(" BC")
    year, month, day = (int(part) for part in text.removesuffix(" BC").split("-"))
    year = 1 - year if era else year
    cycles, rest = divmod(year - 1, 400)
    return dt.date(rest + 1, month, day).toordinal() + cycles * 146_097 - EPOCH


def time_micros(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * MICROS + int(fraction.ljust(6, "0") or 0)


def timestamp_micros(text: str) -> int:
    if "infinity" in text:
        raise ValueError(f"{text} is no time that a record can hold")
    era = " BC" if text.endswith(" BC") else ""
    date, _, time = text.removesuffix(" BC").partition(" ")
    return days(date + era) * DAY_MICROS + time_micros(time)


def zoned(text: str, digits: int) -> str:
    """In ISO's notation; the server writes it in UTC."""
    if "infinity" in text or text.endswith(" BC"):
        return text
    date, _, time = text.removesuffix("+00").partition(" ")
    whole, _, fraction = time.partition(".")
    return f"{date}T{whole}.{fraction.ljust(digits, '0')}Z" if digits else f"{date}T{whole}Z"


PERIOD: Final = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?"
)


def interval_micros(text: str) -> int:
    """A month counts as the twelfth of 365.25 days, as in Debezium."""
    found = PERIOD.fullmatch(text)
    if found is None:
        raise ValueError(f"{text} is no interval in ISO's notation")
    years, months, whole_days, hours, minutes = (int(each or 0) for each in found.groups()[:5])
    seconds = Decimal(found.group(6) or 0)
    exact = whole_days * DAY_MICROS + (hours * 60 + minutes) * 60 * MICROS + int(seconds * MICROS)
    return exact + round((years * 12 + months) * DAYS_PER_MONTH * DAY_MICROS)


ITEM: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def array_items(text: str) -> list[str | None]:
    inner = text[text.index("{") + 1 : -1]
    if "{" in re.sub(r'"(?:[^"\\]|\\.)*"', "", inner):
        raise ValueError("arrays of several dimensions have no counterpart in a record's schema: exclude the column")
    found: list[str | None] = []
    for quoted, bare in ITEM.findall(inner):
        found.append((None if bare == "NULL" else bare) if bare else ESCAPED.sub(r"\1", quoted))
    return found


def unavailable(spark: str, placeholder: str) -> Any:
    """In the place of a value that was not sent; null where the type holds no such text."""
    return {"string": placeholder, "binary": placeholder.encode()}.get(spark)
