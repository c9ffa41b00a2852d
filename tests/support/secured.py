"""A broker with listeners of every protocol, and what clients need for each."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from moldau.tls.authority import issue, open_authority
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.waiting import wait_until


def now() -> datetime:
    return datetime.now(UTC)


class Secured:
    """A broker with five listeners and more that a test names, each with its protocol."""

    def __init__(self, folder: Path, more: dict[str, str] | None = None, **settings: object) -> None:
        self.folder = folder
        self.authority = open_authority(folder, now())
        hosts = ("127.0.0.1", "localhost")
        self.broker_keys, self.client_keys = (
            issue(self.authority, "broker", now(), hosts),
            issue(self.authority, "alice", now()),
        )
        self.protocols = {
            "CLIENT": "SASL_PLAINTEXT",
            "SSL": "SSL",
            "MUTUAL": "SSL",
            "SECURE": "SASL_SSL",
            **(more or {}),
        }
        self.ports = {name: free_port() for name in self.protocols}
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        users = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_admin='admin-secret' user_bob='b';"
        )
        self.broker = Broker(
            folder / "broker",
            {
                "listeners": ",".join(["PLAINTEXT://127.0.0.1:0", *listeners]),
                "listener.security.protocol.map": ",".join(
                    f"{name}:{protocol}" for name, protocol in {"PLAINTEXT": "PLAINTEXT", **self.protocols}.items()
                ),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.client.plain.sasl.jaas.config": users,
                "sasl.jaas.config": users,
                "connection.failed.authentication.delay.ms": 10,
                "socket.listen.backlog.size": 1000,
                "ssl.keystore.location": self.broker_keys,
                "ssl.truststore.location": self.authority.certificate_file,
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U,DEFAULT",
                **settings,
            },
        )

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def config(self, listener: str, **more: str) -> dict[str, Any]:
        protocol = self.protocols[listener]
        found = {"bootstrap.servers": self.address(listener), "security.protocol": protocol, "log_level": 0}
        if protocol.endswith("SSL"):
            found["ssl.ca.location"] = str(self.authority.certificate_file)
        if listener == "MUTUAL":
            found |= {"ssl.certificate.location": str(self.client_keys), "ssl.key.location": str(self.client_keys)}
        return found | more

    def log_says(self, text: str) -> None:
        files = sorted((self.folder / "broker").glob("*.log"))
        wait_until(lambda: any(text in file.read_text() for file in files), f"the log says {text!r}")


def login(user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {"sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password}


ADMIN = login("admin", "admin-secret")


def gets_in(config: dict[str, Any]) -> bool:
    try:
        return bool(AdminClient(config).list_topics(timeout=3).cluster_id)
    except KafkaException:
        return False
