"""As whom a client asks Kerberos for a ticket, as its settings say it: those of Java's client (its Krb5LoginModule and
`sasl.kerberos.service.name`), and librdkafka's (`sasl.kerberos.principal`, `sasl.kerberos.keytab`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from moldau.client.errors import SettingError

SERVICE_KEY: Final = "sasl.kerberos.service.name"
DEFAULT_SERVICE: Final = "kafka"
PACKAGE: Final = "gssapi"
MISSING: Final = "GSSAPI needs the package gssapi: pip install 'moldau[kerberos]'"


class Initiator(Protocol):
    """The Kerberos library's side of one conversation with a broker. All of it may block, and raises
    AuthenticationFailed, or ConnectionLost where the Kerberos server is away."""

    @property
    def complete(self) -> bool: ...

    def step(self, token: bytes) -> bytes: ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class TicketSource:
    service: str = DEFAULT_SERVICE
    """The first part of the brokers' principal."""
    principal: str = ""
    """Empty: whose ticket lies in the cache, or whose key comes first in the table."""
    keytab: str | None = None
    """Empty: the system's own."""
    cache: str | None = None
    """A file of tickets that somebody else has fetched. Without it, and without a key table, the system's own."""


def can_have_tickets() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def ticket_source(properties: Mapping[str, str], fields: Mapping[str, str]) -> TicketSource:
    """From a client's properties and the options of its login module."""
    named, in_module = properties.get(SERVICE_KEY), fields.get("serviceName")
    if named and in_module and named != in_module:
        raise SettingError(SERVICE_KEY, f"{named!r} contradicts serviceName={in_module!r} of sasl.jaas.config")
    keytab = properties.get("sasl.kerberos.keytab")
    if keytab is None and (is_on(fields, "useKeyTab") or ("useKeyTab" not in fields and "keyTab" in fields)):
        keytab = fields.get("keyTab", "")
    return TicketSource(
        named or in_module or DEFAULT_SERVICE,
        properties.get("sasl.kerberos.principal") or fields.get("principal", ""),
        None if keytab is None else keytab.removeprefix("file:"),
        fields.get("ticketCache") if is_on(fields, "useTicketCache") else None,
    )


def is_on(fields: Mapping[str, str], name: str) -> bool:
    return fields.get(name, "").lower() == "true"
