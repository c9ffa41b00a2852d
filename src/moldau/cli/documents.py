"""Reading back what `--output json` printed: a list of objects, or one of them, from a file or stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from moldau.cli.output import WRONG_USAGE, CommandError, nearest

STDIN: Final = Path("-")


def read_text(path: Path) -> str:
    try:
        return sys.stdin.read() if path == STDIN else path.read_text()
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", exit_code=WRONG_USAGE) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 text: {error.reason}", exit_code=WRONG_USAGE) from error


def read_objects(path: Path, what: str, known: Collection[str]) -> list[dict[str, Any]]:
    """The objects of a file; keys that no such object has are refused, since they are typing mistakes."""
    return parse_objects(read_text(path), str(path), what, known)


def parse_objects(text: str, origin: str, what: str, known: Collection[str]) -> list[dict[str, Any]]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        hint = f"expected what `moldau {what} -o json` prints"
        raise CommandError(f"{origin} is not JSON: {error}", hint, WRONG_USAGE) from None
    objects = found if isinstance(found, list) else [found]
    for number, each in enumerate(objects):
        if not isinstance(each, dict):
            raise CommandError(f"{origin}: item {number} is no object", exit_code=WRONG_USAGE)
        for key in each:
            if key not in known:
                hint = nearest(key, list(known)) or f"known are {', '.join(known)}"
                raise CommandError(f"{origin}: item {number} has an unknown key {key!r}", hint, WRONG_USAGE)
    if not objects:
        raise CommandError(f"{origin} holds an empty list", exit_code=WRONG_USAGE)
    return objects


def field(item: Mapping[str, Any], key: str, kind: type, origin: str, default: Any = None) -> Any:
    """A value of an object, of the type it must have."""
    value = item.get(key, default)
    if value is None and default is None and key not in item:
        raise CommandError(f"{origin}: {key!r} is missing", exit_code=WRONG_USAGE)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise CommandError(f"{origin}: {key!r} must be {_NAMES[kind]}, not {value!r}", exit_code=WRONG_USAGE)
    return value


_NAMES: Final[dict[type, str]] = {str: "a text", int: "a whole number", dict: "an object", list: "a list"}


def settings_of(item: Mapping[str, Any], origin: str) -> dict[str, str]:
    """The `config` of an object: texts by name, numbers and truth values as texts too."""
    config = field(item, "config", dict, origin, {})
    for key, value in config.items():
        if not isinstance(value, str | int | float | bool):
            found = _NAMES.get(type(value), "null")
            raise CommandError(f"{origin}: config {key!r} must be a text, not {found}", exit_code=WRONG_USAGE)
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
