"""Apicurio Registry as a peer, which has Confluent's API beside its own, started from its distribution in Maven's
repository.

Needs Java 17 or newer and, for the first use only, `mvn`. The distribution is kept in ~/.cache/moldau/peers, or where
MOLDAU_PEERS says.
"""

from __future__ import annotations

import http.client
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.peers import maven
from tests.peers.apache_kafka import java_program
from tests.peers.maven import Artifact
from tests.support.process import BrokerProcess, free_port

VERSION = "3.0.9"
"""The last whose distribution is content with Java 17."""
PATH = "/apis/ccompat/v7"
HEAP = ("-Xmx512m",)
"""What Confluent's start script gives its own registry."""


def home() -> Path:
    """The folder of the distribution, fetched and unpacked at the first use."""
    folder = maven.cache() / f"apicurio-registry-{VERSION}"
    return maven.distribution(folder, Artifact("io.apicurio", "apicurio-registry-app", VERSION))


class ApicurioRegistry(BrokerProcess):
    """One instance. It keeps its schemas in topics of the Kafka at `bootstrap`, or without one in memory."""

    name = "Apicurio"

    def __init__(self, directory: Path, bootstrap: str = "", heap: Sequence[str] = HEAP) -> None:
        super().__init__(directory)
        self._port, self._management_port = free_port(), free_port()
        self._bootstrap = bootstrap
        self._heap = tuple(heap)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}{PATH}"

    def _command(self) -> list[str]:
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self._port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": self._management_port,
            "java.util.logging.manager": "org.jboss.logmanager.LogManager",
            "java.io.tmpdir": self.directory,
        }
        if self._bootstrap:
            kept = {"apicurio.storage.kind": "kafkasql", "apicurio.kafkasql.bootstrap.servers": self._bootstrap}
            settings.update(kept)
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return [
            java_program(),
            *self._heap,
            *options,
            "-jar",
            str(home() / f"apicurio-registry-app-{VERSION}-runner.jar"),
        ]

    def _find_address(self) -> str | None:
        return f"127.0.0.1:{self._port}"

    def _is_up(self) -> bool:
        """Only when it has read its topic does it answer with subjects."""
        self.address = f"127.0.0.1:{self._port}"
        connection = http.client.HTTPConnection(self.address, timeout=5)
        try:
            connection.request("GET", f"{PATH}/subjects")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> int:
        """Java answers SIGTERM with 143 after its shutdown hooks; that is its clean end."""
        code = super().stop()
        return 0 if code == 128 + signal.SIGTERM else code
