"""A broker that asks users of PLAIN who they are, and refuses what no rule allows. On its open listener everybody is
the administrator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.broker import Broker
from tests.support.process import free_port

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class LockedBroker(Broker):
    """Passwords are the users' names with `-secret`."""

    def __init__(self, directory: Path, users: Sequence[str], settings: Mapping[str, object] | None = None) -> None:
        self.logs = directory / "logs"
        self.login_address = f"127.0.0.1:{free_port()}"
        known = " ".join(f'user_{user}="{user}-secret"' for user in users)
        super().__init__(
            directory,
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,USERS://{self.login_address}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.users.plain.sasl.jaas.config": f"{MODULE} required {known};",
                "authorizer.class.name": AUTHORIZER,
                "super.users": "User:ANONYMOUS",
                "connection.failed.authentication.delay.ms": 10,
                "group.initial.rebalance.delay.ms": 0,
                **(settings or {}),
            },
        )

    def _command(self) -> list[str]:
        return [*super()._command(), "--log-folder", str(self.logs)]

    def audit(self) -> str:
        return (self.logs / "kafka-authorizer.log").read_text()

    def config(self, user: str, password: str | None = None, mechanism: str = "PLAIN") -> dict[str, Any]:
        """For librdkafka."""
        return {
            "bootstrap.servers": self.login_address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": user,
            "sasl.password": f"{user}-secret" if password is None else password,
            "log_level": 0,
        }
