"""The fields of a request that sets a compatibility level and its companions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.registry import errors
from moldau.registry.canonical import read_metadata, read_rule_set
from moldau.schemas.levels import LEVELS

LEVEL: Final = "compatibilityLevel"
POLICIES: Final = ("STRICT", "LENIENT", "LOGICAL")


def read_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """What is set, by its name; None takes it away. Others are ignored."""
    found = {
        name: None if body[name] is None else read(name, body[name]) for name, read in READ.items() if name in body
    }
    level = body.get("compatibility", body.get(LEVEL))
    if level is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise errors.invalid_level()
        found[LEVEL] = level.upper()
    return found


def read_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise invalid(name, "a text")
    return value


def read_flag(name: str, value: Any) -> bool:
    """Also as a text: that is how some clients write true and false."""
    found = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise invalid(name, "true or false")
    return found


def read_policy(_name: str, value: Any) -> str:
    if value not in POLICIES:
        told = f"Invalid compatibility policy. Valid values are {', '.join(POLICIES)}"
        raise errors.RegistryError(42203, told)
    return str(value)


def invalid(name: str, expected: str) -> errors.RegistryError:
    return errors.RegistryError(42203, f"Invalid config: {name} has to be {expected}")


READ: Final[dict[str, Callable[[str, Any], Any]]] = {
    "alias": read_text,
    "normalize": read_flag,
    "validateFields": read_flag,
    "validateRules": read_flag,
    "compatibilityGroup": read_text,
    "compatibilityPolicy": read_policy,
    "defaultMetadata": lambda _, value: read_metadata(value),
    "overrideMetadata": lambda _, value: read_metadata(value),
    "defaultRuleSet": lambda _, value: read_rule_set(value),
    "overrideRuleSet": lambda _, value: read_rule_set(value),
}
