"""The settings of GSSAPI for one listener, as values: which key the broker checks tickets with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.config.definition import ConfigError


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    keytab: str
    principal: str
    rules: tuple[str, ...]

    @property
    def realm(self) -> str:
        return self.principal.rpartition("@")[2]

    @property
    def service(self) -> str:
        return self.principal.partition("@")[0].partition("/")[0]


def kerberos_settings(listener: str, setting: Callable[[str], Any], options: Mapping[str, str]) -> KerberosSettings:
    """`setting` gives the listener's value of a setting, `options` are its login module's. Raises ConfigError."""
    keytab, principal = options.get("keyTab"), options.get("principal", "")
    key = f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config"
    service, at, realm = principal.partition("@")
    if not keytab or not service or not at or not realm:
        allowed = 'a Krb5LoginModule is needed with keyTab="…" and principal="<service>/<host>@<REALM>"'
        raise ConfigError(key, None, allowed)
    name = setting("sasl.kerberos.service.name") or options.get("serviceName")
    if name and name != service.partition("/")[0]:
        raise ConfigError("sasl.kerberos.service.name", name, f"the first part of the broker's principal, {service}")
    return KerberosSettings(keytab, principal, tuple(setting("sasl.kerberos.principal.to.local.rules")))
