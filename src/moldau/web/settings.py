"""The settings that every HTTP service has, under the names that Confluent's services gave them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from moldau.config.definition import ConfigError
from moldau.config.open_files import warning_of_readers
from moldau.config.service_tables import ServiceSettings, parse_settings, read_table
from moldau.tls.identity import load_identity
from moldau.tls.stores import StoreError, read_keys, read_trusted

PORTS: Final = {"http": 80, "https": 443}
EVERYWHERE: Final = ("0.0.0.0", "::")


WEB_SETTINGS: Final = read_table(Path(__file__).with_name("settings.tsv"))
KNOWN: Final = frozenset({"listeners", *WEB_SETTINGS})


@dataclass(frozen=True, slots=True)
class Listener:
    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WebSettings(ServiceSettings):
    listeners: tuple[Listener, ...]

    @classmethod
    def of(cls, properties: Mapping[str, str], listeners: str) -> WebSettings:
        """`listeners`: what the key `listeners` has by default."""
        values = parse_settings(WEB_SETTINGS, properties)
        found = cls(values, parse_listeners(properties.get("listeners", listeners)))
        if found.text("authentication.method") not in ("NONE", "BASIC"):
            raise ConfigError("authentication.method", found.text("authentication.method"), "NONE or BASIC")
        if found.text("authentication.method") == "BASIC" and not found.text("authentication.password.file"):
            raise ConfigError("authentication.password.file", None, "needed by authentication.method=BASIC")
        return found

    @property
    def password_file(self) -> Path | None:
        return (
            Path(self.text("authentication.password.file")) if self.text("authentication.method") == "BASIC" else None
        )

    def warnings_of_readers(self) -> tuple[str, ...]:
        """Of files with secrets that everybody on this machine may read."""
        files = {"authentication.password.file": "passwords", "ssl.keystore.location": "a private key"}
        found = (warning_of_readers(Path(self.text(key)), what) for key, what in files.items() if self.text(key))
        return tuple(warning for warning in found if warning is not None)

    def open_to_everybody(self) -> tuple[Listener, ...]:
        """Those on every interface where nobody has to say who it is."""
        if self.text("authentication.method") != "NONE":
            return ()
        asks = self.text("ssl.client.authentication").upper() == "REQUIRED"
        return tuple(
            each for each in self.listeners if each.host in EVERYWHERE and not (asks and each.scheme == "https")
        )

    def tls(self) -> ssl.SSLContext:
        if not self.text("ssl.keystore.location"):
            raise ConfigError("ssl.keystore.location", None, "needed by listeners that begin with https")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load_stores(context)
        wanted = {"NONE": ssl.CERT_NONE, "REQUESTED": ssl.CERT_OPTIONAL, "REQUIRED": ssl.CERT_REQUIRED}
        asked = self.text("ssl.client.authentication").upper()
        if asked not in wanted:
            raise ConfigError("ssl.client.authentication", asked, "NONE, REQUESTED or REQUIRED")
        context.verify_mode = wanted[asked]
        return context

    def load_stores(self, context: ssl.SSLContext) -> None:
        """What is shown and what is trusted, as far as it is named."""
        keys, trusted = self.text("ssl.keystore.location"), self.text("ssl.truststore.location")
        if keys:
            passwords = self.text("ssl.keystore.password") or None, self.text("ssl.key.password") or None

            def show() -> None:
                found = read_keys(Path(keys).read_bytes(), *passwords)
                load_identity(context, found.text, found.password or "")

            loaded("ssl.keystore.location", keys, show)
        if trusted:
            password = self.text("ssl.truststore.password") or None

            def trust() -> None:
                context.load_verify_locations(cadata=read_trusted(Path(trusted).read_bytes(), password))

            loaded("ssl.truststore.location", trusted, trust)


def loaded(setting: str, location: str, load: Callable[[], None]) -> None:
    try:
        load()
    except (OSError, StoreError) as error:
        raise ConfigError(setting, location, f"a PEM, PKCS12 or JKS file is expected: {error}") from None


def parse_listeners(text: str) -> tuple[Listener, ...]:
    found = tuple(parse_listener(part.strip()) for part in text.split(",") if part.strip())
    if not found:
        raise ConfigError("listeners", text, "at least one, such as http://localhost:8081")
    return found


def parse_listener(text: str) -> Listener:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError as error:
        raise ConfigError("listeners", text, str(error)) from None
    if url.scheme not in PORTS or url.path not in ("", "/"):
        raise ConfigError("listeners", text, "http://host:port or https://host:port")
    return Listener(url.scheme, url.hostname or EVERYWHERE[0], PORTS[url.scheme] if port is None else port)
