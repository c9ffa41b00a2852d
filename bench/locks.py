"""Locked listeners beside the open one: TLS, and logins with SCRAM. The same for both brokers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from moldau.tls.authority import issue, open_authority
from tests.support.process import free_port

USER: Final = "bench"
PASSWORD: Final = "bench-secret"
MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Lock:
    """Of one broker: its authority, its key store, and where it listens."""

    authority: Path
    keys: Path
    open_port: int
    tls_port: int
    login_port: int
    controller_port: int

    @classmethod
    def make(cls, folder: Path) -> Lock:
        now = datetime.now(UTC)
        authority = open_authority(folder, now)
        keys = issue(authority, "broker", now, (HOST,))
        return cls(authority.certificate_file, keys, *(free_port() for _ in range(4)))

    @property
    def tls_address(self) -> str:
        return f"{HOST}:{self.tls_port}"

    @property
    def login_address(self) -> str:
        return f"{HOST}:{self.login_port}"

    @property
    def client_settings(self) -> tuple[str, ...]:
        """Of a client on the listener with TLS, for librdkafka."""
        return ("security.protocol=ssl", f"ssl.ca.location={self.authority}")

    def settings(self, *, with_controller: bool) -> dict[str, object]:
        """Of the broker; one kind needs a listener for its controller too."""
        doors = {"PLAINTEXT": self.open_port, "TLS": self.tls_port, "LOGIN": self.login_port}
        protocols = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "LOGIN": "SASL_PLAINTEXT"}
        advertised = ",".join(f"{name}://{HOST}:{port}" for name, port in doors.items())
        found: dict[str, object] = {
            "listeners": advertised,
            "advertised.listeners": advertised,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.keys,
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.login.{MECHANISM.lower()}.sasl.jaas.config": MODULE,
        }
        if with_controller:
            protocols["CONTROLLER"] = "PLAINTEXT"
            found["listeners"] = f"{advertised},CONTROLLER://{HOST}:{self.controller_port}"
            found["controller.quorum.voters"] = f"1@{HOST}:{self.controller_port}"
        mapped = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
        return {**found, "listener.security.protocol.map": mapped}


def add_user(address: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, ITERATIONS)
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    for future in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(USER, info, PASSWORD.encode())]
    ).values():
        future.result(60)
