"""One setting: its type, default and rule, and how a value is parsed, checked and printed.

The rules and the wording of the refusals are those of Apache Kafka, since clients and operators read them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TypeAlias

from moldau.config.javatext import java_double
from moldau.config.validators import RefusalError, Rule, rule_of

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The numbers are those of the `config_type` field of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Update(Enum):
    """Whether a broker setting can change while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class ConfigError(ValueError):
    """A value that is refused: which setting, which value, and what is allowed instead."""

    def __init__(self, key: str, value: str | None, allowed: str, message: str | None = None) -> None:
        shown = "null" if value is None else value
        super().__init__(message or f"Invalid value {shown} for configuration {key}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed


_INTEGER_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII)
_COMMA = re.compile(r"[ \t\n\r\f\v]*,[ \t\n\r\f\v]*")
# What Java's String.trim() takes away.
_BLANKS = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class Setting:
    """The definition of one setting."""

    name: str
    type: ConfigType
    default: str | None
    validator: str
    update: Update
    internal: bool
    honoured: bool
    doc: str

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def read_only(self) -> bool:
        return self.update is Update.READ_ONLY

    @property
    def rule(self) -> Rule | None:
        return rule_of(self.validator)

    @property
    def default_value(self) -> Value:
        """The parsed default; defaults are trusted, some are null although the rule forbids null."""
        return self.parse_unchecked(self.default)

    def parse_unchecked(self, text: str | None) -> Value:
        """The value that `text` means, whether the setting's rule allows it or not."""
        return None if text is None else self._typed(text)

    def parse(self, text: str | None) -> Value:
        """The value that `text` means; raises ConfigError, in Kafka's words, if there is none or it is not allowed."""
        value = self.parse_unchecked(text)
        rule = self.rule
        if rule is None:
            return value
        if isinstance(value, tuple) and rule.distinct:
            value = tuple(dict.fromkeys(value))
        try:
            rule.check(self.name, value)
        except RefusalError as refusal:
            raise ConfigError(self.name, refusal.value, refusal.reason, refusal.message) from None
        return value

    def allowed(self) -> str:
        """What the setting's rule allows, for people; empty if its type says it all."""
        return self.rule.describe() if self.rule is not None else ""

    def _typed(self, text: str) -> Value:
        trimmed = text.strip(_BLANKS)
        match self.type:
            case ConfigType.BOOLEAN:
                if trimmed.lower() not in ("true", "false"):
                    raise ConfigError(self.name, text, "Expected value to be either true or false")
                return trimmed.lower() == "true"
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
                return self._integer(text, trimmed)
            case ConfigType.DOUBLE:
                return self._double(text, trimmed)
            case ConfigType.LIST:
                return tuple(_COMMA.split(trimmed)) if trimmed else ()
            case _:
                return trimmed

    def _integer(self, text: str, trimmed: str) -> int:
        limit = 1 << (_INTEGER_BITS[self.type] - 1)
        # Twenty digits hold every LONG; the bound keeps the conversion of hostile input cheap.
        if _INTEGER.fullmatch(trimmed) and len(trimmed.lstrip("+-0")) <= 20:
            number = int(trimmed)
            if -limit <= number < limit:
                return number
        raise ConfigError(self.name, text, f"Not a number of type {self.type.name}")

    def _double(self, text: str, trimmed: str) -> float:
        if _DECIMAL.fullmatch(trimmed):
            return float(trimmed.rstrip("fFdD"))
        if _HEXADECIMAL.fullmatch(trimmed):
            mantissa, _, exponent = trimmed.lower().partition("p")
            try:
                return float.fromhex(f"{mantissa}p{exponent.rstrip('fd')}")
            except OverflowError:
                return float("-inf" if trimmed.startswith("-") else "inf")
        raise ConfigError(self.name, text, f"Not a number of type {self.type.name}")


Settings: TypeAlias = Mapping[str, Setting]


def text_of(value: Value) -> str | None:
    """A parsed value as Kafka prints it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
