"""How a client of ZooKeeper shows who it is, and how the way there is protected: `zookeeper.ssl.*`,
`zookeeper.set.acl`, and the section `Client` of a JAAS file, as in the years of Kafka over ZooKeeper.

A digest (`DigestLoginModule`) or Kerberos (`Krb5LoginModule`, whose option `serviceName` names the servers' principal,
else `zookeeper`). Left out: revocation lists (`zookeeper.ssl.crl.enable`, `…ocsp.enable`), which are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.config.definition import ConfigError
from moldau.config.jaas import JaasError, LoginModule, parse_sections
from moldau.config.tls import PROTOCOLS, TlsSettings

SECTION: Final = "Client"
SERVICE: Final = "zookeeper"
DIGEST, KERBEROS = "DigestLoginModule", "Krb5LoginModule"
JAAS_KEY: Final = "java.security.auth.login.config"
JAAS_TEXT: Final = "moldau.jaas.config"
SET_ACL: Final = "zookeeper.set.acl"
ENABLE: Final = "zookeeper.ssl.client.enable"
STORES: Final = ("zookeeper.ssl.keystore.location", "zookeeper.ssl.truststore.location")


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    login: LoginModule | None = None
    tls: TlsSettings | None = None
    locks_nodes: bool = False
    """Whether the nodes that are made may be changed, and the metadata be read, only by whoever logs in like this."""

    @property
    def service(self) -> str:
        return SERVICE if self.login is None else self.login.options.get("serviceName", SERVICE)

    @property
    def is_digest(self) -> bool:
        return self.login is not None and self.login.name.endswith(DIGEST)


OPEN: Final = ZooKeeperSecurity()


def zookeeper_security(values: Mapping[str, Any]) -> ZooKeeperSecurity:
    """Raises ConfigError."""
    login = client_login(values.get(JAAS_TEXT) or "")
    tls = _tls(values) if values[ENABLE] else None
    stores = [name for name in STORES if values[name]]
    if tls is None and stores:
        raise ConfigError(ENABLE, "false", f"true where {stores[0]} is set: nothing is encrypted without it")
    locks = bool(values[SET_ACL])
    if locks and login is None and (tls is None or tls.keystore_location is None):
        allowed = (
            f"brokers that log in to ZooKeeper: a section {SECTION} in the JAAS file of KAFKA_OPTS, or "
            "zookeeper.ssl.keystore.location"
        )
        raise ConfigError(SET_ACL, "true", allowed)
    return ZooKeeperSecurity(login, tls, locks)


def client_login(jaas: str) -> LoginModule | None:
    """Raises ConfigError."""
    try:
        modules = parse_sections(jaas).get(SECTION, ())
    except JaasError as error:
        raise ConfigError(JAAS_KEY, "[hidden]", str(error)) from None
    if not modules:
        return None
    module = modules[0]
    if not module.name.endswith((DIGEST, KERBEROS)):
        raise ConfigError(JAAS_KEY, module.name, f"in section {SECTION} a {DIGEST} or a {KERBEROS}")
    if module.name.endswith(DIGEST) and not (module.options.get("username") and module.options.get("password")):
        raise ConfigError(JAAS_KEY, module.name, f"in section {SECTION} with username and password")
    return module


def _tls(values: Mapping[str, Any]) -> TlsSettings:
    protocols = tuple(values["zookeeper.ssl.enabled.protocols"] or PROTOCOLS)
    if unknown := [name for name in protocols if name not in PROTOCOLS]:
        raise ConfigError("zookeeper.ssl.enabled.protocols", ",".join(unknown), f"some of {', '.join(PROTOCOLS)}")
    return TlsSettings(
        keystore_location=values["zookeeper.ssl.keystore.location"],
        keystore_password=values["zookeeper.ssl.keystore.password"],
        truststore_location=values["zookeeper.ssl.truststore.location"],
        truststore_password=values["zookeeper.ssl.truststore.password"],
        enabled_protocols=protocols,
        cipher_suites=tuple(values["zookeeper.ssl.cipher.suites"] or ()),
        check_hostname=(values["zookeeper.ssl.endpoint.identification.algorithm"] or "").lower() == "https",
    )
