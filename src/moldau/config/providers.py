"""Values that stand elsewhere: `${file:/etc/secrets.properties:admin}`, `${dir:/run/secrets:admin}`, `${env:ADMIN}`.

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/secrets,/run/secrets
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.env.param.allowlist.pattern=KAFKA_.*

So secrets stand neither in the settings nor in the list of processes. Where nothing is found Kafka leaves the
reference as it is, and takes it for the password; here that is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from moldau.config import properties as properties_files
from moldau.config.properties import PropertiesError

T = TypeVar("T")

PROVIDERS: Final = "config.providers"
CLASSES: Final = {
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "dir",
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
}
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")


class ProviderError(ValueError):
    """What cannot be looked up, and why. It names places, never values."""


@dataclass(frozen=True, slots=True)
class Provider:
    kind: str
    allowed_paths: tuple[str, ...] = ()
    """Files and folders beneath which it may look; everywhere without any."""
    allowed_names: str = ""

    def value(self, path: str, key: str, environment: Mapping[str, str]) -> str:
        """Raises ProviderError."""
        if self.kind == "env":
            return self._variable(key if not path else f"{path}:{key}", environment)
        self._check_allowed(path)
        return _line_of(path, key) if self.kind == "file" else _content_of(path, key)

    def _variable(self, name: str, environment: Mapping[str, str]) -> str:
        if self.allowed_names and not re.fullmatch(self.allowed_names, name):
            raise ProviderError(f"the variable {name} is not allowed by allowlist.pattern")
        if name not in environment:
            raise ProviderError(f"there is no environment variable {name}")
        return environment[name]

    def _check_allowed(self, path: str) -> None:
        found = os.path.realpath(path)
        if self.allowed_paths and not any(is_below(found, os.path.realpath(each)) for each in self.allowed_paths):
            raise ProviderError(f"{path} is not allowed by allowed.paths")


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def resolved(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings with what they refer to in its place, and without those of the providers. Raises ProviderError,
    which names the setting."""
    providers = _providers(settings)
    if not providers:
        return dict(settings)
    return {
        name: text if name == PROVIDERS else _replaced(name, text, providers, environment)
        for name, text in settings.items()
        if not name.startswith(f"{PROVIDERS}.")
    }


def files_of(settings: Mapping[str, str]) -> set[Path]:
    """The files in which something is looked up. Raises ProviderError."""
    providers = _providers(settings)
    found = set()
    for text in settings.values() if providers else ():
        for reference in _REFERENCE.finditer(text):
            provider = providers.get(reference[1])
            if provider is not None and provider.kind != "env":
                path = Path(reference[2] or "")
                found.add(path if provider.kind == "file" else path / reference[3])
    return found


def _providers(settings: Mapping[str, str]) -> dict[str, Provider]:
    found = {}
    for name in filter(None, (part.strip() for part in settings.get(PROVIDERS, "").split(","))):
        class_name = settings.get(f"{PROVIDERS}.{name}.class", "").strip()
        if class_name not in CLASSES:
            known = ", ".join(CLASSES)
            raise ProviderError(f"{PROVIDERS}.{name}.class: {class_name or 'nothing'} is none of {known}")
        parameters = f"{PROVIDERS}.{name}.param."
        paths = settings.get(f"{parameters}allowed.paths", "").split(",")
        pattern = settings.get(f"{parameters}allowlist.pattern", "")
        try:
            re.compile(pattern)
        except re.error as error:
            raise ProviderError(f"{parameters}allowlist.pattern: {error}") from None
        found[name] = Provider(CLASSES[class_name], tuple(path.strip() for path in paths if path.strip()), pattern)
    return found


def _replaced(name: str, text: str, providers: Mapping[str, Provider], environment: Mapping[str, str]) -> str:
    def value(reference: re.Match[str]) -> str:
        provider = providers.get(reference[1])
        if provider is None:  # other things are written like this too
            return reference[0]
        try:
            return provider.value(reference[2] or "", reference[3], environment)
        except ProviderError as error:
            raise ProviderError(f"{name}: {reference[0]}: {error}") from None

    return _REFERENCE.sub(value, text)


def _line_of(path: str, key: str) -> str:
    found = _read(path, properties_files.read)
    if key not in found:
        raise ProviderError(f"{path} has no key {key}")
    return found[key]


def _content_of(folder: str, name: str) -> str:
    if os.path.basename(name) != name or not name or name in (".", ".."):
        raise ProviderError(f"{name!r} is no name of a file")
    return _read(os.path.join(folder, name), lambda path: path.read_text("utf-8"))


def _read(path: str, read: Callable[[Path], T]) -> T:
    try:
        return read(Path(path))
    except OSError as error:
        raise ProviderError(f"{path}: {error.strerror}") from None
    except (PropertiesError, UnicodeDecodeError):
        raise ProviderError(f"{path} cannot be read as text") from None
