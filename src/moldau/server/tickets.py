"""The Kerberos library (the package gssapi over MIT's or Heimdal's) on a listener with GSSAPI."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from moldau.config.kerberos import KerberosSettings
from moldau.security.authentication.kerberos import Context, TicketError


def contexts(settings: KerberosSettings) -> Callable[[], Context]:
    """Begins conversations with the broker's own key. Raises ValueError."""
    try:
        gssapi: Any = importlib.import_module("gssapi")
    except ImportError as missing:
        raise ValueError(
            f"sasl.enabled.mechanisms: GSSAPI needs the package gssapi (pip install 'moldau[kerberos]'): {missing}"
        ) from None
    if not os.access(settings.keytab, os.R_OK):
        raise ValueError(f"keyTab {settings.keytab} cannot be read")
    try:
        name = gssapi.Name(settings.principal, gssapi.NameType.kerberos_principal)
    except gssapi.exceptions.GSSError as error:
        raise ValueError(f"principal {settings.principal}: {' '.join(str(error).split())}") from None

    def begin() -> Context:
        try:
            own = gssapi.Credentials(usage="accept", name=name, store={"keytab": settings.keytab})
            return Tickets(gssapi.SecurityContext(creds=own, usage="accept"), gssapi.exceptions.GSSError)
        except gssapi.exceptions.GSSError as error:
            raise TicketError(f"keyTab {settings.keytab}: {error}") from None

    return begin


class Tickets:
    """Implements Context."""

    def __init__(self, context: Any, error: type[Exception]) -> None:
        self._context = context
        self._error = error

    @property
    def principal(self) -> str | None:
        return str(self._context.initiator_name) if self._context.complete else None

    def step(self, token: bytes) -> bytes:
        return self._told(lambda: self._context.step(token) or b"")

    def wrap(self, message: bytes) -> bytes:
        return self._told(lambda: bytes(self._context.wrap(message, False).message))

    def unwrap(self, message: bytes) -> bytes:
        return self._told(lambda: bytes(self._context.unwrap(message).message))

    def _told(self, work: Callable[[], bytes]) -> bytes:
        try:
            return work()
        except self._error as error:
            raise TicketError(" ".join(str(error).split())) from None
