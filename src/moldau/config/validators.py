"""The rules that values must follow, with Kafka's wording of each refusal.

A rule is written in the tables as a word and its arguments:

    range LOW [HIGH]                   a number in these bounds, never null
    one-of A B ...                     exactly one of these strings
    one-of-ignoring-case A B ...       the same, in any case
    list[-or-empty][-or-null] [A B ...]  a list without empty members, of these strings if any are given
    gzip-level, non-empty, non-null, throttled-replicas, share-offset-reset
"""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from moldau.config.javatext import java_double


class RefusalError(Exception):
    """Why a rule refuses a value; the caller knows whose value it is."""

    def __init__(self, value: object, reason: str, message: str | None = None) -> None:
        super().__init__(message or reason)
        self.value = None if value is None else _shown(value)
        self.reason = reason
        self.message = message


def _shown(value: object) -> str:
    if isinstance(value, float):
        return java_double(value)
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(value)


class Rule(ABC):
    # Lists under such a rule lose their repeated members before they are checked.
    distinct: ClassVar[bool] = False

    @abstractmethod
    def check(self, name: str, value: object) -> None:
        """Raises RefusalError."""

    @abstractmethod
    def describe(self) -> str:
        """What is allowed, for people."""


@dataclass(frozen=True, slots=True)
class Range(Rule):
    low: float
    high: float | None

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, int | float):
            raise RefusalError(None, "Value must be non-null")
        if value < self.low:
            raise RefusalError(value, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise RefusalError(value, f"Value must be no more than {self.high}")

    def describe(self) -> str:
        return f"[{self.low},...]" if self.high is None else f"[{self.low},...,{self.high}]"


@dataclass(frozen=True, slots=True)
class OneOf(Rule):
    choices: tuple[str, ...]
    ignoring_case: bool = False

    def check(self, name: str, value: object) -> None:
        if self.ignoring_case:
            if value is None or str(value).upper() not in {choice.upper() for choice in self.choices}:
                raise RefusalError(value, f"String must be one of (case insensitive): {', '.join(self.choices)}")
        elif value not in self.choices:
            raise RefusalError(value, f"String must be one of: {', '.join(self.choices)}")

    def describe(self) -> str:
        return f"{'(case insensitive) ' if self.ignoring_case else ''}[{', '.join(self.choices)}]"


@dataclass(frozen=True, slots=True)
class ListOf(Rule):
    choices: OneOf | None
    empty_allowed: bool
    null_allowed: bool
    distinct: ClassVar[bool] = True

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, tuple):
            if not self.null_allowed:
                reason = "values must not be null."
                raise RefusalError(None, reason, f"Configuration '{name}' {reason}")
            return
        if not value and not self.empty_allowed:
            valid = self.choices.describe() if self.choices else "any non-empty value"
            reason = f"must not be empty. Valid values include: {valid}"
            raise RefusalError("", reason, f"Configuration '{name}' {reason}")
        for member in value:
            if not member:
                reason = "values must not be empty."
                raise RefusalError(",".join(value), reason, f"Configuration '{name}' {reason}")
            if self.choices is not None:
                self.choices.check(name, member)

    def describe(self) -> str:
        return self.choices.describe() if self.choices else ""


class GzipLevel(Rule):
    def check(self, name: str, value: object) -> None:
        if not isinstance(value, int) or not (value == -1 or 1 <= value <= 9):
            raise RefusalError(value, "Value must be between 1 and 9 or equal to -1")

    def describe(self) -> str:
        return "[1,...,9] or -1"


class NonEmpty(Rule):
    def check(self, name: str, value: object) -> None:
        if value == "":
            raise RefusalError(value, "String must be non-empty")

    def describe(self) -> str:
        return "non-empty string"


class NonNull(Rule):
    def check(self, name: str, value: object) -> None:
        if value is None:
            raise RefusalError("null", "entry must be non null")

    def describe(self) -> str:
        return "non-null string"


class ThrottledReplicas(Rule):
    _MEMBER = re.compile(r"[0-9]+:[0-9]+")
    _FORMAT = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

    def check(self, name: str, value: object) -> None:
        members = value if isinstance(value, tuple) else ()
        if members != ("*",) and not all(self._MEMBER.fullmatch(member) for member in members):
            allowed = f"{name} must be the literal '*' or a list of replicas in the following format: {self._FORMAT}"
            raise RefusalError(value, allowed)

    def describe(self) -> str:
        return self._FORMAT


class ShareOffsetReset(Rule):
    _ISO_DURATION = re.compile(
        r"by_duration:P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:[.,]\d{1,9})?S)?)?", re.ASCII | re.IGNORECASE
    )

    def check(self, name: str, value: object) -> None:
        text = str(value)
        if text not in ("latest", "earliest") and not self._ISO_DURATION.fullmatch(text):
            reason = (
                f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of"
            )
            raise RefusalError(value, f"{reason} the format 'by_duration:<PnDTnHnMn.nS>'.")

    def describe(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


_FIXED: dict[str, type[Rule]] = {
    "gzip-level": GzipLevel,
    "non-empty": NonEmpty,
    "non-null": NonNull,
    "throttled-replicas": ThrottledReplicas,
    "share-offset-reset": ShareOffsetReset,
}


@cache
def rule_of(written: str) -> Rule | None:
    """The rule that a table writes so; None for no rule."""
    if not written:
        return None
    word, *arguments = written.split()
    if word == "range":
        return Range(_number(arguments[0]), _number(arguments[1]) if len(arguments) > 1 else None)
    if word in ("one-of", "one-of-ignoring-case"):
        return OneOf(tuple(arguments), word == "one-of-ignoring-case")
    if word.split("-")[0] == "list":
        choices = OneOf(tuple(arguments)) if arguments else None
        return ListOf(choices, "-or-empty" in word, "-or-null" in word)
    return _FIXED[word]()
