"""Tickets for a client's GSSAPI login, from the Kerberos library (the package gssapi over MIT's or Heimdal's).

Blocks while the Kerberos server is asked. Tickets that were got with a key table are kept in memory, for this process
alone, and fetched anew by the library before they end; those in a file are renewed by whoever fetched them (kinit,
k5start). Host names are looked up, or not, as `krb5.conf` says (`dns_canonicalize_hostname`, `rdns`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, TypeVar

from moldau.client.errors import AuthenticationFailed, ConnectionLost, SettingError
from moldau.client.ticket_source import MISSING, PACKAGE, Initiator, TicketSource

T = TypeVar("T")

SERVER_IS_AWAY: Final = frozenset({-1765328228, -1765328230})
"""KRB5_KDC_UNREACH and KRB5_REALM_CANT_RESOLVE: trying again may help."""


def tickets_of(source: TicketSource, host: str) -> Initiator:
    """Begins a conversation with the broker on this host; raises SettingError, AuthenticationFailed, ConnectionLost."""
    try:
        gssapi: Any = importlib.import_module(PACKAGE)
    except ImportError as missing:
        raise SettingError("sasl.mechanism", f"{MISSING} ({missing})") from None
    if source.keytab and not os.access(source.keytab, os.R_OK):
        raise SettingError("sasl.jaas.config", f"keyTab {source.keytab} cannot be read")
    return Tickets(gssapi, source, host)


class Tickets:
    """Implements Initiator."""

    def __init__(self, gssapi: Any, source: TicketSource, host: str) -> None:
        self._error = gssapi.exceptions.GSSError
        self._what = f"no Kerberos ticket for {source.service}@{host}"
        self._context = self._told(lambda: self._begin(gssapi, source, host))

    @staticmethod
    def _begin(gssapi: Any, source: TicketSource, host: str) -> Any:
        name = gssapi.Name(source.principal, gssapi.NameType.kerberos_principal) if source.principal else None
        store = store_of(source)
        own = gssapi.Credentials(usage="initiate", name=name, **({"store": store} if store else {}))
        flag = gssapi.RequirementFlag
        return gssapi.SecurityContext(
            name=gssapi.Name(f"{source.service}@{host}", gssapi.NameType.hostbased_service),
            creds=own,
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=[flag.mutual_authentication, flag.integrity, flag.confidentiality, flag.out_of_sequence_detection],
        )

    @property
    def complete(self) -> bool:
        return bool(self._context.complete)

    def step(self, token: bytes) -> bytes:
        return self._told(lambda: bytes(self._context.step(token or None) or b""))

    def wrap(self, message: bytes) -> bytes:
        return self._told(lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return self._told(lambda: bytes(self._context.unwrap(message).message))

    def _told(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except self._error as error:
            reason = f"{self._what}: {' '.join(str(error).split())}"
            if signed(getattr(error, "min_code", 0)) in SERVER_IS_AWAY:
                raise ConnectionLost(reason) from None
            raise AuthenticationFailed(reason) from None


def signed(code: int) -> int:
    return code - (1 << 32) if code >= 1 << 31 else code


def store_of(source: TicketSource) -> dict[str, str]:
    """Where the library finds tickets, or the key to get some; empty for its own places."""
    if source.cache is not None and (os.path.exists(source.cache.removeprefix("FILE:")) or source.keytab is None):
        return {"ccache": source.cache if ":" in source.cache else f"FILE:{source.cache}"}
    if source.keytab is None:
        return {}
    kept = sha256(f"{source.principal}\0{source.keytab}".encode()).hexdigest()[:32]
    return {"ccache": f"MEMORY:moldau-{kept}"} | ({"client_keytab": source.keytab} if source.keytab else {})
