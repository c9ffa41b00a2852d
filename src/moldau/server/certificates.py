"""The keys and certificates of this broker's listeners, read again when their files or settings change.

Connections that exist keep what they began with. Where the new files cannot be used, the old ones stay, and the log
says why.
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moldau.config.broker import BrokerConfig
from moldau.config.listener_security import ListenerSecurity
from moldau.config.open_files import warning_of_readers
from moldau.config.tls import TlsSettings
from moldau.tls.contexts import TlsError, client_context, server_context, unknown_suites
from moldau.tls.names import BadRuleError, NameOf, mapping_of
from moldau.types.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.server.certificates")

LOOK_SECONDS: Final = 10.0
"""How often the files are looked at."""

Stamp = tuple[tuple[int, int, int] | None, ...]


class Certificates:
    def __init__(self, security: Mapping[str, ListenerSecurity], between_brokers: str) -> None:
        """Raises ValueError with the listener and the setting that cannot be used."""
        self._between_brokers = between_brokers
        self._settings: dict[str, TlsSettings] = {}
        self._stamps: dict[str, Stamp] = {}
        self.listeners: dict[str, ssl.SSLContext] = {}
        self.names: dict[str, NameOf] = {}
        self.peers: ssl.SSLContext | None = None
        for listener, settings in encrypted(security).items():
            try:
                self._use(listener, settings)
            except (TlsError, BadRuleError) as error:
                raise ValueError(f"listener {listener}: {error}") from error

    def change(self, security: Mapping[str, ListenerSecurity]) -> None:
        for listener, settings in encrypted(security).items():
            if settings != self._settings.get(listener):
                self._try(listener, settings)

    def look(self) -> None:
        """Takes up files that were replaced."""
        for listener, settings in self._settings.items():
            if stamp_of(settings) != self._stamps[listener]:
                self._try(listener, settings)

    def _try(self, listener: str, settings: TlsSettings) -> None:
        try:
            self._use(listener, settings)
        except (TlsError, BadRuleError) as error:
            self._stamps[listener] = stamp_of(settings)
            log.error("listener %s keeps its certificates: %s", listener, error)
        else:
            log.info("listener %s uses new certificates", listener)

    def _use(self, listener: str, settings: TlsSettings) -> None:
        stamp = stamp_of(settings)
        context, name_of = server_context(settings), mapping_of(settings.principal_mapping_rules)
        peers = client_context(settings) if listener == self._between_brokers else None
        self.listeners[listener], self.names[listener] = context, name_of
        self.peers = peers or self.peers
        self._settings[listener], self._stamps[listener] = settings, stamp
        warn_of_readers(settings)
        for suite in unknown_suites(settings):
            log.warning("listener %s: ssl.cipher.suites: %s is not known here and left out", listener, suite)


def certificates_of(config: BrokerConfig) -> Certificates:
    """At the start: as was set while the broker ran, or else as its properties say, since nobody could change anything
    as long as it is down. Raises ValueError."""
    try:
        return Certificates(config.security, config.inter_broker_listener_name)
    except ValueError as error:
        written = config.with_dynamic({}, {})
        if encrypted(written.security) == encrypted(config.security):
            raise
        log.error("%s; the listeners begin with the key stores of the properties", error)
        return Certificates(written.security, config.inter_broker_listener_name)


def check_change(old: BrokerConfig, new: BrokerConfig) -> None:
    """Whether listeners could use what is different in the new one. Raises KafkaError."""
    before = encrypted(old.security)
    for listener, settings in encrypted(new.security).items():
        if settings == before.get(listener):
            continue
        try:
            server_context(settings)
            mapping_of(settings.principal_mapping_rules)
            if listener == new.inter_broker_listener_name:
                client_context(settings)
        except (TlsError, BadRuleError) as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"listener {listener}: {error}") from error


def encrypted(security: Mapping[str, ListenerSecurity]) -> dict[str, TlsSettings]:
    return {name: each.tls for name, each in security.items() if each.tls is not None}


def stamp_of(settings: TlsSettings) -> Stamp:
    return tuple(map(_stamp, settings.files))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def warn_of_readers(settings: TlsSettings) -> None:
    path = settings.keystore_location
    warning = None if path is None else warning_of_readers(Path(path), "a private key")
    if warning is not None:
        log.warning("%s", warning)
