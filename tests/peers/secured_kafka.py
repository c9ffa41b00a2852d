"""Apache Kafka with a second listener that asks for a login: PLAIN, SCRAM, and OAUTHBEARER with unsigned tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.apache_kafka import CONFIG_COMMAND, ApacheKafka, java_tool
from tests.support.process import free_port

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM)
USER, PASSWORD = "alice", "secret"
MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecuredKafka:
    open_address: str
    """Where nobody is asked who they are."""
    address: str


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """USER may log in with PASSWORD by each of MECHANISMS."""
    plain, secure, controller = free_port(), free_port(), free_port()
    listener = "listener.name.sasl_plaintext"
    settings = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secure}",
        "sasl.enabled.mechanisms": ",".join((*MECHANISMS, "OAUTHBEARER")),
        f"{listener}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        f"{listener}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{listener}.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
        f'unsecuredLoginStringClaim_sub="{USER}";',
    }
    with ApacheKafka(folder, settings, port=plain) as broker:
        for mechanism in SCRAM:
            user = ("--entity-type", "users", "--entity-name", USER)
            change = ("--alter", "--add-config", f"{mechanism}=[password={PASSWORD}]")
            java_tool(CONFIG_COMMAND, "--bootstrap-server", broker.address, *change, *user)
        yield SecuredKafka(broker.address, f"127.0.0.1:{secure}")
