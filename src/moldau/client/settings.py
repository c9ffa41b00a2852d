"""Client settings, read from Kafka's property names (those of the Java client and, for files, librdkafka's too)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.client.errors import SettingError
from moldau.client.login import WIRE_MECHANISMS, chosen_mechanism, jaas_fields
from moldau.client.stores import identity, trusted_certificates
from moldau.client.ticket_source import TicketSource, can_have_tickets, ticket_source
from moldau.client.token_source import TokenSource, token_source

DEFAULT_CLIENT_ID: Final = "moldau"
CONNECT_SECONDS: Final = 10.0
REQUEST_SECONDS: Final = 30.0
TOTAL_SECONDS: Final = 60.0
BACKOFF_SECONDS: Final = 0.1
SYSTEM_BUFFER: Final = -1
ADDRESS_HINT: Final = "expected host:port, several separated by commas"
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """PEM throughout, as a path or as the text itself; what is secret is never printed."""

    ca_file: str | None = None
    ca_text: str | None = field(default=None, repr=False)
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    identity_text: str | None = field(default=None, repr=False)
    """Certificate chain and private key in one text."""
    verify_certificate: bool = True
    verify_hostname: bool = True


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanism: str
    username: str = ""
    password: str = ""
    token: TokenSource | None = None
    by_token: bool = False
    """Whether these are the id and the secret of a delegation token."""
    tickets: TicketSource | None = None

    @property
    def needs_librdkafka(self) -> bool:
        return self.token is None and self.tickets is None and self.mechanism not in WIRE_MECHANISMS

    def __repr__(self) -> str:
        return f"SaslSettings(mechanism={self.mechanism!r}, username={self.username!r}, password=…)"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    bootstrap: tuple[Address, ...]
    client_id: str = DEFAULT_CLIENT_ID
    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None
    connect_seconds: float = CONNECT_SECONDS
    request_seconds: float = REQUEST_SECONDS
    total_seconds: float = TOTAL_SECONDS
    """How long an operation is retried as a whole (`default.api.timeout.ms`)."""
    backoff_seconds: float = BACKOFF_SECONDS
    receive_buffer_bytes: int = SYSTEM_BUFFER
    """-1 leaves it to the operating system."""

    @property
    def needs_librdkafka(self) -> bool:
        return self.sasl is not None and self.sasl.needs_librdkafka

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ClientSettings:
        """Keys that this client does not know are the caller's business and are left alone."""
        protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise SettingError("security.protocol", f"{protocol!r} is none of {', '.join(PROTOCOLS)}")
        total_seconds = milliseconds(properties, "default.api.timeout.ms", TOTAL_SECONDS)
        connect_seconds = milliseconds(properties, "socket.connection.setup.timeout.ms", CONNECT_SECONDS)
        return cls(
            bootstrap=parse_addresses(properties.get("bootstrap.servers", "")),
            client_id=properties.get("client.id", DEFAULT_CLIENT_ID),
            tls=read_tls(properties) if protocol.endswith("SSL") else None,
            sasl=read_sasl(properties) if protocol.startswith("SASL") else None,
            connect_seconds=min(connect_seconds, total_seconds),
            request_seconds=milliseconds(properties, "request.timeout.ms", REQUEST_SECONDS),
            total_seconds=total_seconds,
            backoff_seconds=milliseconds(properties, "retry.backoff.ms", BACKOFF_SECONDS),
            receive_buffer_bytes=integer(properties, "receive.buffer.bytes", SYSTEM_BUFFER),
        )


def parse_addresses(text: str) -> tuple[Address, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise SettingError("bootstrap.servers", f"is missing; {ADDRESS_HINT}")
    return tuple(parse_address(part) for part in parts)


def parse_address(text: str) -> Address:
    host, _, port = text.rpartition("://")[2].rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingError("bootstrap.servers", f"{text!r} is no address; {ADDRESS_HINT}")
    return Address(host, int(port))


def read_tls(properties: Mapping[str, str]) -> TlsSettings:
    trusted, keys = trusted_certificates(properties), identity(properties)
    truststore = None if trusted else properties.get("ssl.truststore.location")
    keystore = None if keys else properties.get("ssl.keystore.location")
    chain, key = properties.get("ssl.keystore.certificate.chain"), properties.get("ssl.keystore.key")
    password = properties.get("ssl.key.password") or properties.get("ssl.keystore.password")
    return TlsSettings(
        ca_file=properties.get("ssl.ca.location") or truststore,
        ca_text=trusted or properties.get("ssl.truststore.certificates"),
        certificate_file=properties.get("ssl.certificate.location") or keystore,
        key_file=properties.get("ssl.key.location") or keystore,
        key_password=keys.password if keys else password,
        identity_text=keys.text if keys else f"{chain}\n{key}\n" if chain and key else None,
        verify_certificate=properties.get("enable.ssl.certificate.verification", "true").lower() != "false",
        verify_hostname=properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "https",
    )


def read_sasl(properties: Mapping[str, str]) -> SaslSettings:
    mechanism = chosen_mechanism(properties)
    fields = jaas_fields(properties.get("sasl.jaas.config", ""))
    if mechanism == "OAUTHBEARER":
        return SaslSettings(mechanism, token=token_source(properties, fields))
    if mechanism == "GSSAPI":
        tickets = ticket_source(properties, fields)
        return SaslSettings(mechanism, tickets=tickets if can_have_tickets() else None)
    username = properties.get("sasl.username") or fields.get("username", "")
    password = properties.get("sasl.password") or fields.get("password", "")
    if mechanism in WIRE_MECHANISMS and not username:
        raise SettingError("sasl.jaas.config", f"{mechanism} needs a username and a password")
    by_token = fields.get("tokenauth", "").lower() == "true" and mechanism.startswith("SCRAM")
    return SaslSettings(mechanism, username, password, by_token=by_token)


def milliseconds(properties: Mapping[str, str], key: str, default: float) -> float:
    return integer(properties, key, round(default * 1000)) / 1000


def integer(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise SettingError(key, f"{text!r} is no whole number") from None
