"""The `ssl.*` settings of one listener, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.config.definition import ConfigError

PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
OLD_PROTOCOLS: Final = ("TLSv1", "TLSv1.1")
"""May be named beside newer ones and are not spoken, as in today's Java."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The values of Kafka's settings for one listener; texts and passwords are never printed."""

    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    check_hostname: bool = True
    principal_mapping_rules: str = "DEFAULT"

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(path for path in (self.keystore_location, self.truststore_location) if path)


def tls_settings(setting: Callable[[str], Any], client_auth: str) -> TlsSettings:
    """`setting` gives the listener's value of a setting."""
    named = setting("ssl.enabled.protocols")
    protocols = tuple(name for name in named if name not in OLD_PROTOCOLS)
    unknown = [name for name in protocols if name not in PROTOCOLS]
    if unknown or not protocols:
        raise ConfigError("ssl.enabled.protocols", ",".join(named), f"some of {', '.join(PROTOCOLS)}")
    algorithm = setting("ssl.endpoint.identification.algorithm")
    return TlsSettings(
        setting("ssl.keystore.location"),
        setting("ssl.keystore.password"),
        setting("ssl.key.password"),
        setting("ssl.keystore.key"),
        setting("ssl.keystore.certificate.chain"),
        setting("ssl.truststore.location"),
        setting("ssl.truststore.password"),
        setting("ssl.truststore.certificates"),
        client_auth,
        protocols,
        setting("ssl.cipher.suites"),
        (algorithm or "").lower() == "https",
        setting("ssl.principal.mapping.rules"),
    )
