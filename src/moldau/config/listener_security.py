"""What each listener asks of clients, as Kafka's settings say it: `sasl.*` and `ssl.*`, for one listener with
`listener.name.<listener>.` in front, for one mechanism with its name behind that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from moldau.config.definition import ConfigError, Value
from moldau.config.jaas import JaasError, LoginModule, parse_module, parse_sections
from moldau.config.kerberos import KerberosSettings, kerberos_settings
from moldau.config.listeners import Listener
from moldau.config.oauth import OauthSettings, oauth_settings
from moldau.config.tables import broker_settings
from moldau.config.tls import TlsSettings, tls_settings

SUPPORTED_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
MECHANISM_NAMES: Final = SUPPORTED_MECHANISMS
_JAAS: Final = "sasl.jaas.config"
_JAAS_SECTIONS: Final = "moldau.jaas.config"
_REAUTHENTICATION: Final = "connections.max.reauth.ms"
_CLIENT_AUTH: Final = "ssl.client.auth"
_ENABLED: Final = "sasl.enabled.mechanisms"
_BETWEEN_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
_MAX_RECEIVE_SIZE: Final = "sasl.server.max.receive.size"
_SECTION: Final = "KafkaServer"
_SERVICE_NAME: Final = "sasl.kerberos.service.name"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_TOKEN_SETTINGS: Final = (
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.scope",
)
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
}
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """One listener. `modules` and `reauthentication_ms` are by mechanism; those that need no module may have none."""

    name: str
    protocol: str
    mechanisms: tuple[str, ...] = ()
    modules: Mapping[str, LoginModule] = field(default_factory=lambda: NOTHING)
    reauthentication_ms: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    tls: TlsSettings | None = None
    oauth: OauthSettings | None = None
    kerberos: KerberosSettings | None = None
    max_receive_bytes: int = 0
    """The largest message of a client that has not logged in yet, where the listener asks for that."""

    @property
    def asks_for_login(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def asks_for_certificate(self) -> bool:
        """`requested` does not: it serves those who have none, as nobody in particular."""
        return self.tls is not None and self.tls.client_auth == "required"

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")


@dataclass(frozen=True, slots=True)
class PeerLogin:
    """How this broker logs in at the others."""

    mechanism: str
    username: str = ""
    password: str = ""
    properties: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Where it gets a token, and for which service a ticket, by the names of a client's settings."""
    options: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Those of its login module."""

    def __repr__(self) -> str:
        return f"PeerLogin(mechanism={self.mechanism!r}, username={self.username!r}, password=…)"


def listener_security(
    values: Mapping[str, Any], written: Mapping[str, str], listeners: Iterable[Listener]
) -> dict[str, ListenerSecurity]:
    """By listener name. Raises ConfigError."""
    return {listener.name: _security_of(listener, values, written) for listener in listeners}


def exposures(listeners: Iterable[Listener], security: Mapping[str, ListenerSecurity]) -> tuple[str, ...]:
    """One line for each listener on which whoever reaches this machine may do everything."""
    return tuple(
        f"listeners={listener} accepts connections on every network interface, and {_unasked(security[listener.name])} "
        f"{listener.name}://localhost:{listener.port} keeps it to this machine."
        for listener in listeners
        if listener.is_on_every_interface
        and not (security[listener.name].asks_for_login or security[listener.name].asks_for_certificate)
    )


def _unasked(security: ListenerSecurity) -> str:
    if not security.is_encrypted:
        return "asks nobody who they are."
    return f"serves clients without a certificate, whoever they are. {_CLIENT_AUTH}=required asks them for one,"


def peer_login(values: Mapping[str, Any], written: Mapping[str, str], security: ListenerSecurity) -> PeerLogin | None:
    """None where the listener between brokers asks for no login. Raises ConfigError."""
    if not security.asks_for_login:
        return None
    mechanism = str(setting_of(security.name, _BETWEEN_BROKERS, values, written)).upper()
    if mechanism not in security.mechanisms:
        offered = ", ".join(security.mechanisms)
        raise ConfigError(_BETWEEN_BROKERS, mechanism, f"one of those that {_ENABLED} offers there: {offered}")
    module = security.modules.get(mechanism)
    options: Mapping[str, str] = NOTHING if module is None else module.options
    if mechanism == "OAUTHBEARER":
        properties = _token_properties(security, values, written, options)
        return PeerLogin(mechanism, properties=properties, options=options)
    if mechanism == "GSSAPI":
        assert security.kerberos is not None
        service = {_SERVICE_NAME: security.kerberos.service}
        return PeerLogin(mechanism, properties=service, options={**options, "useKeyTab": "true"})
    if not options.get("username") or "password" not in options:
        key = f"listener.name.{security.name.lower()}.{mechanism.lower()}.{_JAAS}"
        raise ConfigError(key, None, "username and password are needed, with which this broker logs in at others")
    return PeerLogin(mechanism, options["username"], options["password"])


def mechanism_setting(
    listener: str, mechanism: str, name: str, values: Mapping[str, Any], written: Mapping[str, str]
) -> Value:
    """The value of one mechanism of a listener, or the listener's, or the broker's. Raises ConfigError."""
    own = f"listener.name.{listener.lower()}.{mechanism.lower()}.{name}"
    if own not in written:
        return setting_of(listener, name, values, written)
    try:
        return broker_settings()[name].parse(written[own])
    except ConfigError as problem:
        raise ConfigError(own, problem.value, problem.allowed) from None


def _token_properties(
    security: ListenerSecurity, values: Mapping[str, Any], written: Mapping[str, str], options: Mapping[str, str]
) -> Mapping[str, str]:
    """Where this broker gets the token that it shows to others: from an endpoint, or unsigned by its own hand."""
    found = {
        key: str(value)
        for key in (*_TOKEN_SETTINGS, _TOKEN_URL)
        if (value := mechanism_setting(security.name, "OAUTHBEARER", key, values, written)) is not None
    }
    if _TOKEN_URL not in found and not any(name.startswith("unsecuredLoginStringClaim_") for name in options):
        key = f"listener.name.{security.name.lower()}.oauthbearer.{_TOKEN_URL}"
        raise ConfigError(key, None, "it is needed to get the token with which this broker logs in at others")
    return MappingProxyType(found)


def setting_of(listener: str, name: str, values: Mapping[str, Any], written: Mapping[str, str]) -> Value:
    """The listener's own value, or the broker's. Raises ConfigError."""
    own = f"listener.name.{listener.lower()}.{name}"
    if own not in written:
        return values[name]  # type: ignore[no-any-return]
    try:
        return broker_settings()[name].parse(written[own])
    except ConfigError as problem:
        raise ConfigError(own, problem.value, problem.allowed) from None


def base_name(name: str) -> str | None:
    """The setting that a name with a listener, and perhaps a mechanism, in front means; None where it has neither."""
    if not name.startswith("listener.name."):
        return None
    _, _, rest = name.removeprefix("listener.name.").partition(".")
    mechanism, _, base = rest.partition(".")
    return base if mechanism.upper() in MECHANISM_NAMES else rest


def _security_of(listener: Listener, values: Mapping[str, Any], written: Mapping[str, str]) -> ListenerSecurity:
    name, protocol = listener.name, listener.security_protocol
    tls = _tls(listener, values, written) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL_"):
        return ListenerSecurity(name, protocol, tls=tls)
    enabled = setting_of(name, _ENABLED, values, written)
    assert isinstance(enabled, tuple)
    mechanisms = tuple(dict.fromkeys(mechanism.upper() for mechanism in enabled))
    _check_mechanisms(listener, mechanisms)
    modules, sessions = {}, {}
    for mechanism in mechanisms:
        module = _module(name, mechanism, values, written)
        if module is not None:
            modules[mechanism] = module
        sessions[mechanism] = _reauthentication_ms(name, mechanism, values, written)
    _check_passwords(listener, mechanisms, modules)
    oauth, kerberos = None, None
    if "OAUTHBEARER" in mechanisms:
        options = modules["OAUTHBEARER"].options if "OAUTHBEARER" in modules else NOTHING
        oauth = oauth_settings(name, lambda key: mechanism_setting(name, "OAUTHBEARER", key, values, written), options)
    if "GSSAPI" in mechanisms:
        options = modules["GSSAPI"].options if "GSSAPI" in modules else NOTHING
        kerberos = kerberos_settings(name, lambda key: mechanism_setting(name, "GSSAPI", key, values, written), options)
    max_receive_bytes = setting_of(name, _MAX_RECEIVE_SIZE, values, written)
    assert isinstance(max_receive_bytes, int)
    known, ends = MappingProxyType(modules), MappingProxyType(sessions)
    return ListenerSecurity(name, protocol, mechanisms, known, ends, tls, oauth, kerberos, max_receive_bytes)


def _tls(listener: Listener, values: Mapping[str, Any], written: Mapping[str, str]) -> TlsSettings:
    own = f"listener.name.{listener.name.lower()}.{_CLIENT_AUTH}"
    # As in Kafka: where clients log in with SASL, only the listener's own setting asks for certificates too.
    asks = listener.security_protocol == "SSL" or own in written
    client_auth = setting_of(listener.name, _CLIENT_AUTH, values, written) if asks else "none"
    settings = tls_settings(lambda name: setting_of(listener.name, name, values, written), str(client_auth))
    if settings.keystore_location is None and settings.keystore_key is None:
        key = f"listener.name.{listener.name.lower()}.ssl.keystore.location"
        raise ConfigError(key, None, f"listener {listener.name} needs a private key and a certificate")
    return settings


def _check_mechanisms(listener: Listener, mechanisms: tuple[str, ...]) -> None:
    if not mechanisms:
        raise ConfigError(_ENABLED, "", f"listener {listener.name} needs at least one mechanism")
    for mechanism in mechanisms:
        if mechanism not in SUPPORTED_MECHANISMS:
            allowed = f"listener {listener.name} can offer {', '.join(SUPPORTED_MECHANISMS)}, not {mechanism}"
            raise ConfigError(_ENABLED, ",".join(mechanisms), allowed)


def _check_passwords(listener: Listener, mechanisms: tuple[str, ...], modules: Mapping[str, LoginModule]) -> None:
    if "PLAIN" in mechanisms and "PLAIN" not in modules:
        key = f"listener.name.{listener.name.lower()}.plain.{_JAAS}"
        allowed = "a PlainLoginModule is needed, here or in the section KafkaServer of a JAAS file"
        raise ConfigError(key, None, allowed)


def _module(listener: str, mechanism: str, values: Mapping[str, Any], written: Mapping[str, str]) -> LoginModule | None:
    own = f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"
    for key in (own, f"listener.name.{listener.lower()}.{_JAAS}"):
        if key in written:
            return _parsed(key, written[key])
    sections = _sections(values.get(_JAAS_SECTIONS))
    for section in (f"{listener.lower()}.{_SECTION}", _SECTION):
        for module in sections.get(section, ()):
            if module.name.endswith(_MODULES[mechanism]):
                return module
    if values[_JAAS] is not None:
        module = _parsed(_JAAS, values[_JAAS])
        return module if module.name.endswith(_MODULES[mechanism]) else None
    return None


def _parsed(key: str, text: str) -> LoginModule:
    try:
        return parse_module(text)
    except JaasError as error:
        raise ConfigError(key, "[hidden]", str(error)) from None


def _sections(text: str | None) -> dict[str, tuple[LoginModule, ...]]:
    try:
        return parse_sections(text or "")
    except JaasError as error:
        raise ConfigError("java.security.auth.login.config", "[hidden]", str(error)) from None


def _reauthentication_ms(listener: str, mechanism: str, values: Mapping[str, Any], written: Mapping[str, str]) -> int:
    found = mechanism_setting(listener, mechanism, _REAUTHENTICATION, values, written)
    assert isinstance(found, int)
    return found
