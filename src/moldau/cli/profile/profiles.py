"""Profiles: named clusters with the properties that reach them, in one TOML file.

    current = "local"

    [profiles.local]
    "bootstrap.servers" = "localhost:9092"

The file is `profiles.toml` in `moldau/` below XDG_CONFIG_HOME (`~/.config`), or the one that MOLDAU_CONFIG names. It
may hold passwords, so it is written for its owner alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moldau.cli.output import FAILED, NOT_FOUND, WRONG_USAGE, CommandError, nearest
from moldau.cli.passwords import is_secret

FILE_VARIABLE: Final = "MOLDAU_CONFIG"
HIDDEN: Final = "********"


@dataclass(slots=True)
class Profiles:
    path: Path
    current: str | None = None
    known: dict[str, dict[str, str]] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, str]:
        if name not in self.known:
            have = f"known are {', '.join(sorted(self.known))}" if self.known else "there is none yet"
            hint = (
                nearest(name, list(self.known)) or f"{have}; `moldau profile set {name} bootstrap.servers=…` makes it"
            )
            raise CommandError(f"no profile {name!r} in {self.path}", hint, NOT_FOUND)
        return self.known[name]

    def save(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "w") as file:
                file.write(to_toml(self))
            partial.replace(self.path)
        except OSError as error:
            raise CommandError(f"cannot write {self.path}: {error.strerror}", exit_code=FAILED) from error


def profiles_path(environment: Mapping[str, str]) -> Path:
    named = environment.get(FILE_VARIABLE)
    if named:
        return Path(named)
    folder = environment.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "moldau" / "profiles.toml"


def load(environment: Mapping[str, str]) -> Profiles:
    """The profiles; none where there is no file."""
    import tomllib

    path = profiles_path(environment)
    try:
        content = tomllib.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return Profiles(path)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", exit_code=WRONG_USAGE) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not TOML: {error}", "correct or remove it", WRONG_USAGE) from error
    return _read(path, content)


def _read(path: Path, content: Mapping[str, Any]) -> Profiles:
    tables, current = content.get("profiles", {}), content.get("current")
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise CommandError(f"{path}: expected a table [profiles.NAME] per cluster", exit_code=WRONG_USAGE)
    if current is not None and not isinstance(current, str):
        raise CommandError(f"{path}: `current` must be the name of a profile", exit_code=WRONG_USAGE)
    return Profiles(path, current, {name: dict(_flat(table)) for name, table in tables.items()})


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Dots outside quotes nest tables in TOML; both spellings mean the same property."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def to_toml(profiles: Profiles) -> str:
    lines = [f"current = {_quoted(profiles.current)}"] if profiles.current else []
    for name, properties in sorted(profiles.known.items()):
        lines += ["", f"[profiles.{_quoted(name)}]"]
        lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in sorted(properties.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: HIDDEN if is_secret(key) else value for key, value in properties.items()}
