"""Apache Kafka 4.3 as a peer, started from its Maven artifacts, and Kafka's own command-line programs.

Needs Java 17 or newer and, for the first use only, `mvn`. The jars are kept in ~/.cache/moldau/peers, or where
MOLDAU_PEERS says.

    python -m tests.peers.apache_kafka jars                         fetch the jars and say where they are
    python -m tests.peers.apache_kafka up DIRECTORY [key=value ...]  run a broker there until Ctrl-C, print its address
    python -m tests.peers.apache_kafka run CLASS [args ...]          one of Kafka's programs, for example
        run org.apache.kafka.tools.TopicCommand --bootstrap-server HOST:PORT --list
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.peers import maven
from tests.peers.maven import Artifact, PeerMissing
from tests.support.process import BrokerProcess, free_port

VERSION = "4.3.0"
TOOL_SECONDS = 120.0
TOOLS = "org.apache.kafka.tools."
CONFIG_COMMAND = "kafka.admin.ConfigCommand"

ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka_2.13", VERSION),
    Artifact("org.apache.kafka", "kafka-tools", VERSION),
    Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
)

# The programs print results to stdout; what they log goes to a file so that the two never mix.
LOGGING = """<Configuration status="ERROR">
  <Appenders>
    <File name="file" fileName="${sys:peer.log}"><PatternLayout pattern="[%d] %p %m (%c)%n"/></File>
  </Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


def home() -> Path:
    """The folder that holds the peer's jars and logging configuration."""
    return maven.cache() / f"kafka-{VERSION}"


def java_program() -> str:
    """The `java` to use: the one that set-up linked beside Python, else JAVA_HOME's, else the one on the PATH."""
    beside_python = Path(sys.prefix) / "bin" / "java"
    java_home = os.environ.get("JAVA_HOME")
    candidates = [beside_python, *([Path(java_home) / "bin" / "java"] if java_home else [])]
    for candidate in candidates:
        if candidate.exists():
            return str(candidate)
    found = shutil.which("java")
    if found is None:
        raise PeerMissing("Java 17 or newer is needed for Apache Kafka: run `make setup`, or set JAVA_HOME")
    return found


def jars() -> Path:
    """The folder of Kafka's jars, fetched by Maven at the first use."""
    return maven.jars(home() / "libs", ARTIFACTS)


def java_command(main_class: str, arguments: Sequence[str], log: Path, options: Sequence[str]) -> list[str]:
    """The command line that runs one class of Kafka's jars."""
    libraries = jars()
    logging = home() / "log4j2.xml"
    if not logging.exists() or logging.read_text() != LOGGING:
        logging.write_text(LOGGING)
    return [
        java_program(),
        *options,
        f"-Dlog4j2.configurationFile={logging}",
        f"-Dpeer.log={log}",
        "-cp",
        f"{libraries}/*",
        main_class,
        *arguments,
    ]


def tool_command(main_class: str, arguments: Sequence[object], more: Sequence[str] = ()) -> list[str]:
    """A command line for a short-lived program: only the quick compiler, a small heap, no log."""
    options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *more)
    return java_command(main_class, [str(each) for each in arguments], Path(os.devnull), options)


def java_tool(
    main_class: str,
    *arguments: object,
    stdin: str | None = None,
    check: bool = True,
    seconds: float = TOOL_SECONDS,
    options: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs one of Kafka's programs and returns what it printed; a failure shows both streams."""
    done = subprocess.run(
        tool_command(main_class, arguments, options),
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{main_class} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class ApacheKafka(BrokerProcess):
    """One Apache Kafka broker that is its own controller (KRaft)."""

    name = "Apache Kafka"

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        heap: Sequence[str] = ("-Xms256m", "-Xmx512m"),
        cluster_id: str = "",
    ) -> None:
        super().__init__(directory, settings)
        self._port = port or free_port()
        self._controller_port = free_port()
        self._heap = tuple(heap)
        self._cluster_id = cluster_id or new_cluster_id()

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def prepare(self) -> None:
        """Writes the settings and formats the folder if it is new; `start` does so too."""
        self._prepare()

    def _prepare(self) -> None:
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            **self.settings,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        first_folder = Path(str(settings["log.dirs"]).split(",")[0])
        if not (first_folder / "meta.properties").exists():
            self._format("kafka.tools.StorageTool", "format", f"--cluster-id={self._cluster_id}", "-c")

    def _format(self, tool: str, *arguments: str) -> None:
        java_tool(tool, *arguments, self._properties)

    def _command(self) -> list[str]:
        options = ("-server", *self._heap, "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
        return java_command("kafka.Kafka", [str(self._properties)], self.directory / "server.log", options)

    def _find_address(self) -> str | None:
        return f"127.0.0.1:{self._port}"

    def stop(self) -> int:
        """Java answers SIGTERM with 143 after its shutdown hooks; that is its clean end."""
        code = super().stop()
        return 0 if code == 128 + signal.SIGTERM else code


def main(arguments: Sequence[str]) -> int:
    match list(arguments):
        case ["jars"]:
            print(jars())
        case ["run", main_class, *rest]:
            command = tool_command(main_class, rest)
            os.execv(command[0], command)
        case ["up", directory, *pairs]:
            broker = ApacheKafka(Path(directory).resolve(), dict(pair.split("=", 1) for pair in pairs))
            with broker:
                print(broker.address, flush=True)
                signal.sigwait({signal.SIGINT, signal.SIGTERM})
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
