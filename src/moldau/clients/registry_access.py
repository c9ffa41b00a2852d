"""How a schema registry is reached: its addresses, who asks, and TLS, under Confluent's names: Java's and Python's.

schema.registry.url                         several with commas; user:password@ may stand before a host
basic.auth.user.info, bearer.auth.token     also with schema.registry. before them
schema.registry.ssl.*                       key and trust stores as `ssl.*` of the clients: PEM, PKCS12, JKS
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from moldau.client.errors import SettingError
from moldau.client.settings import read_tls
from moldau.client.tls import context_for
from moldau.clients.properties import texts
from moldau.clients.registry_keys import PREFIX, SSL, URL

TOKEN_SOURCE: Final = "bearer.auth.credentials.source"
STATIC_TOKEN: Final = "STATIC_TOKEN"


@dataclass(frozen=True, slots=True)
class Address:
    """`authorization` is the header that is sent there; empty for none."""

    url: str
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    addresses: tuple[Address, ...]
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """None stands for what the system trusts."""

    @classmethod
    def of(cls, properties: Mapping[str, object]) -> Access:
        """Raises SettingError."""
        given = texts({name: value for name, value in properties.items() if value is not None})
        urls = [part.strip() for part in given.get(URL, "").split(",") if part.strip()]
        if not urls:
            raise SettingError(URL, "is missing; expected http://host:8081")
        return cls(addresses(urls, either(given, "basic.auth.user.info"), token_of(given)), tls_of(given))

    def opened(self, request: Any, seconds: float) -> Any:
        """The answer of a request to one of the addresses, to be closed. Raises HTTPError, OSError."""
        from urllib.request import urlopen

        return urlopen(request, timeout=seconds, context=self.tls)


def addresses(urls: Sequence[str], user_info: str = "", token: str = "") -> tuple[Address, ...]:
    return tuple(address(url, user_info, token) for url in urls)


def address(url: str, user_info: str, token: str) -> Address:
    """A login of the settings wins over that of the address, which is never sent as a part of it."""
    parts = urlsplit(url.rstrip("/"))
    login, _, host = parts.netloc.rpartition("@")
    user_info = user_info or unquote(login)
    bare = urlunsplit(parts._replace(netloc=host))
    if token:
        return Address(bare, f"Bearer {token}")
    return Address(bare, f"Basic {base64.b64encode(user_info.encode()).decode()}" if user_info else "")


def either(properties: Mapping[str, str], name: str) -> str:
    """Java's serializers take these settings with and without the registry's prefix."""
    return properties.get(name) or properties.get(f"{PREFIX}{name}") or ""


def token_of(properties: Mapping[str, str]) -> str:
    source, token = either(properties, TOKEN_SOURCE), either(properties, "bearer.auth.token")
    if source not in ("", STATIC_TOKEN):
        raise SettingError(TOKEN_SOURCE, f"{source!r} is not supported; {STATIC_TOKEN} is, with bearer.auth.token")
    if source and not token:
        raise SettingError("bearer.auth.token", f"is missing; {TOKEN_SOURCE}={source} needs it")
    return token


def tls_of(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    own = {name[len(PREFIX) :]: value for name, value in properties.items() if name.startswith(SSL)}
    if not own:
        return None
    try:
        return context_for(read_tls(own))
    except SettingError as error:
        raise SettingError(f"{PREFIX}{error.key}", str(error).removeprefix(f"{error.key}: ")) from None
