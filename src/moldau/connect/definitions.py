"""The settings of a connector: names, types, defaults and rules, read with all that is wrong at once.

The wording of the refusals, and what `validate` tells of a setting, are Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.config.definition import ConfigError, ConfigType, Setting, Update, text_of


class Required:
    """The default of a setting that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = Required()

EMPTY: Final[Mapping[ConfigType, object]] = {ConfigType.STRING: "", ConfigType.LIST: ()}

Check = Callable[[str, Any], None]
"""Gets name and value; raises ConfigError."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    type: ConfigType = ConfigType.STRING
    default: object = None
    """As it is written in a properties file; None: no value; REQUIRED: it has to be given."""
    doc: str = ""
    importance: str = "MEDIUM"
    check: Check | None = None
    group: str | None = None
    width: str = "NONE"
    display: str = ""
    order: int = -1

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def default_text(self) -> str | None:
        return None if self.default is None or self.required else str(self.default)

    def read(self, given: Mapping[str, str | None]) -> Any:
        """The value; raises ConfigError."""
        text = given.get(self.name, self.default_text) if self.name in given or not self.required else None
        if text is None and self.required:
            raise ConfigError(self.name, None, "", missing(self.name))
        value = Setting(self.name, self.type, None, "", Update.READ_ONLY, False, True, "").parse_unchecked(text)
        if self.check is not None:
            self.check(self.name, value)
        return value


def missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


@dataclass(frozen=True, slots=True)
class Reading:
    """What a configuration means, and what is wrong with it, by setting."""

    values: dict[str, Any]
    errors: dict[str, list[str]]

    @property
    def problems(self) -> list[str]:
        return [problem for problems in self.errors.values() for problem in problems]


class ConfigRefused(ValueError):
    """All that is wrong with a configuration."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


class ConfigDef:
    def __init__(self, *keys: Key) -> None:
        self._keys = {key.name: key for key in keys}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys.values())

    def __contains__(self, name: str) -> bool:
        return name in self._keys

    def __add__(self, other: ConfigDef) -> ConfigDef:
        return ConfigDef(*self, *(key for key in other if key.name not in self._keys))

    def embedded(self, prefix: str, group: str) -> ConfigDef:
        return ConfigDef(*(replace(key, name=f"{prefix}{key.name}", group=group) for key in self))

    def read(self, given: Mapping[str, str | None]) -> Reading:
        values: dict[str, Any] = {}
        errors: dict[str, list[str]] = {}
        for key in self:
            try:
                values[key.name] = key.read(given)
            except ConfigError as error:
                errors[key.name] = [str(error)]
        return Reading(values, errors)

    def as_far_as_known(self, reading: Reading) -> dict[str, Any]:
        """The values; for one that is wrong its default, or an empty one."""
        found = dict(reading.values)
        for key in self:
            if key.name in found:
                continue
            try:
                found[key.name] = key.read({})
            except ConfigError:
                found[key.name] = EMPTY.get(key.type)
        return found

    def checked(self, given: Mapping[str, str | None]) -> dict[str, Any]:
        """The values; raises ConfigRefused with everything that is wrong."""
        reading = self.read(given)
        if reading.errors:
            raise ConfigRefused(reading.problems)
        return reading.values

    def described(self, given: Mapping[str, str | None], reading: Reading) -> list[dict[str, Any]]:
        """What `validate` answers for each setting."""
        return [{"definition": definition_of(key), "value": value_of(key, given, reading)} for key in self]


def definition_of(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": key.type.name,
        "required": key.required,
        "default_value": key.default_text,
        "importance": key.importance,
        "documentation": key.doc,
        "group": key.group,
        "width": key.width,
        "display_name": key.display or key.name,
        "dependents": [],
        "order": key.order,
    }


def value_of(key: Key, given: Mapping[str, str | None], reading: Reading) -> dict[str, Any]:
    value = reading.values.get(key.name)
    text = "[hidden]" if key.type is ConfigType.PASSWORD and value is not None else text_of(value)
    return {
        "name": key.name,
        "value": given.get(key.name) if key.name in reading.errors else text,
        "recommended_values": [],
        "errors": reading.errors.get(key.name, []),
        "visible": True,
    }


# -- rules -----------------------------------------------------------------------------------------------------------


def refusals(name: str, make: Callable[[], object]) -> Iterator[tuple[str, str]]:
    """What is wrong with a setting, by trying to use it."""
    try:
        make()
    except ValueError as error:
        yield getattr(error, "key", name), str(error)


def one_of(*allowed: str) -> Check:
    def check(name: str, value: Any) -> None:
        if value not in allowed:
            raise ConfigError(name, text_of(value), f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_any_case(*allowed: str) -> Check:
    """In small or capital letters, as Java's names of constants are written."""

    def check(name: str, value: Any) -> None:
        if value is None or value.lower() not in allowed:
            raise ConfigError(name, text_of(value), f"String must be one of: {', '.join(allowed)}")

    return check


def at_least(least: int) -> Check:
    def check(name: str, value: Any) -> None:
        if value is None or value < least:
            raise ConfigError(name, text_of(value), f"Value must be at least {least}")

    return check


def not_empty(name: str, value: Any) -> None:
    if value is not None and not value:
        raise ConfigError(name, text_of(value), "String must be non-empty")


def patterns(name: str, value: Any) -> None:
    """A list of regular expressions."""
    for each in value or ():
        try:
            re.compile(each)
        except re.error as error:
            raise ConfigError(name, each, f"it is no regular expression: {error}") from None


def plain_name(name: str, value: Any) -> None:
    """A connector's name."""
    if value is None:
        return
    if not value or any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in value):
        raise ConfigError(name, value, "String may not be empty and may not contain control characters")
