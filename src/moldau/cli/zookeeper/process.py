"""ZooKeeper servers as processes, from the jars that pip's PySpark contains: one node, or an ensemble on this host.

`ZooKeeperEnsemble` is for development, tests and `moldau cluster up`; servers of a real ensemble are started one on
each machine with `zookeeper-server-start` or `moldau zookeeper start`, or are anybody's from release 3.5 on.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
HEAP_VARIABLE: Final = "KAFKA_HEAP_OPTS"
FLAGS_VARIABLE: Final = "KAFKA_OPTS"
"""Among them the JAAS file whose section `Server` has the logins, and `java.security.krb5.conf`."""
DEFAULT_HEAP: Final = "-Xmx256M"
#: Of Spark's 250 jars those that ZooKeeper needs: Java opens every one that it is given.
JARS: Final = ("zookeeper-*.jar", "slf4j-api-*.jar", "log4j-*.jar", "netty-*.jar", "metrics-core-*.jar",
               "snappy-java-*.jar")  # fmt: skip
LOOK_SECONDS: Final = 0.05

#: A session of 6 s needs a tick well below it: expiry is rounded up to one. The limits of servers among each other stay
#: what they are in seconds; a follower that is cut off ends its sessions after syncLimit ticks, before the cluster
#: does.
SETTINGS: Final[Mapping[str, str]] = {
    "tickTime": "500",
    "initLimit": "20",
    "syncLimit": "4",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "autopurge.snapRetainCount": "3",
    "autopurge.purgeInterval": "1",
    "4lw.commands.whitelist": "srvr,stat,ruok,mntr,conf",
}


class ZooKeeperError(RuntimeError):
    """A server that cannot be started, or did not come up; the text says why."""


def java_command(settings_file: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Raises ZooKeeperError where Java or PySpark is missing."""
    from moldau.spark.java import JavaMissing, find_java_home

    try:
        import pyspark
    except ImportError:
        raise ZooKeeperError(
            "ZooKeeper is started from the jars that PySpark contains, and PySpark is not installed: "
            "pip install 'moldau[spark]'. Any ZooKeeper from 3.5 on serves as well, for example Debian's package "
            "zookeeperd."
        ) from None
    try:
        java = find_java_home(environment) / "bin" / "java"
    except JavaMissing as missing:
        raise ZooKeeperError(str(missing).replace("Spark needs", "ZooKeeper needs", 1)) from None
    folder = Path(pyspark.__file__).parent / "jars"
    jars = [str(jar) for pattern in JARS for jar in sorted(folder.glob(pattern))]
    heap = environment.get(HEAP_VARIABLE, DEFAULT_HEAP).split()
    flags = environment.get(FLAGS_VARIABLE, "").split()
    return [
        str(java), *heap, *flags, "-XX:+UseSerialGC", "-Dlog4j2.level=INFO", "-Dzookeeper.jmx.log4j.disable=true",
        "-Dcom.sun.management.jmxremote=false", "-cp", os.pathsep.join(jars), MAIN_CLASS, settings_file,
    ]  # fmt: skip


def written_settings(folder: Path, settings: Mapping[str, str], number: int | None = None) -> Path:
    """The file that a server is started with; `number` is its id within an ensemble."""
    folder.mkdir(parents=True, exist_ok=True)
    if number is not None:
        (folder / "myid").write_text(f"{number}\n")
    path = folder / "zoo.cfg"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def mode_of(host: str, port: int, seconds: float = 2.0) -> str | None:
    """What a server says it is (standalone, leader, follower); None where it does not serve."""
    try:
        with socket.create_connection((host, port), seconds) as connection:
            connection.settimeout(seconds)
            connection.sendall(b"srvr")
            said = b""
            while part := connection.recv(4096):
                said += part
    except OSError:
        return None
    for line in said.decode(errors="replace").splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ").strip()
    return None


@dataclass(frozen=True, slots=True)
class Member:
    """One server of an ensemble and the three ports that it listens on, all on this host."""

    number: int
    client_port: int
    peer_port: int
    election_port: int


class ZooKeeperNode:
    """A server on this host that can be killed and started again; its output goes to `zookeeper.log` in its folder."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        port: int,
        number: int | None = None,
        before_start: Callable[[], None] | None = None,
    ) -> None:
        self.folder = folder
        self.port = port
        self._settings = settings
        self._number = number
        self._before_start = before_start
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Returns when the process runs, which is before it serves."""
        command = java_command(str(written_settings(self.folder, self._settings, self._number)))
        with (self.folder / "zookeeper.log").open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=self._before_start,  # noqa: PLW1509 - what callers give is one system call
            )

    def mode(self) -> str | None:
        if self._process is not None and self._process.poll() is not None:
            log = (self.folder / "zookeeper.log").read_text(errors="replace")[-2000:]
            raise ZooKeeperError(f"ZooKeeper at {self.address} ended with {self._process.returncode}\n{log}")
        return mode_of("127.0.0.1", self.port)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


class ZooKeeperEnsemble:
    """`size` servers on this host, each in a folder of its own below `folder`."""

    def __init__(
        self,
        folder: Path,
        members: Sequence[Member],
        before_start: Callable[[], None] | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        servers = {
            f"server.{each.number}": f"127.0.0.1:{each.peer_port}:{each.election_port};127.0.0.1:{each.client_port}"
            for each in members
        }
        self.nodes: list[ZooKeeperNode] = []
        for each in members:
            own = folder / f"zookeeper-{each.number}"
            settings = {**SETTINGS, **(extra or {}), "dataDir": str(own)}
            if len(members) > 1:
                settings |= {"standaloneEnabled": "false", **servers}
            else:
                settings |= {"clientPort": str(each.client_port), "clientPortAddress": "127.0.0.1"}
            number = each.number if len(members) > 1 else None
            self.nodes.append(ZooKeeperNode(own, settings, each.client_port, number, before_start))

    @property
    def connect(self) -> str:
        """What `zookeeper.connect` takes, without a chroot."""
        return ",".join(node.address for node in self.nodes)

    def start(self, seconds: float = 120.0) -> None:
        """Returns when every server serves. Raises ZooKeeperError."""
        try:
            for node in self.nodes:
                node.start()
            self.wait_until_serving(seconds)
        except BaseException:
            self.stop()
            raise

    def wait_until_serving(self, seconds: float = 120.0, nodes: Sequence[ZooKeeperNode] | None = None) -> None:
        end = time.monotonic() + seconds
        pause = threading.Event()
        for node in nodes or self.nodes:
            while node.mode() is None:
                if time.monotonic() > end:
                    raise ZooKeeperError(f"ZooKeeper at {node.address} does not serve after {seconds:g} s")
                pause.wait(LOOK_SECONDS)

    def leader(self) -> ZooKeeperNode | None:
        """The server that leads now (the only one, of one)."""
        for node in self.nodes:
            if node.pid is not None and node.mode() in ("leader", "standalone"):
                return node
        return None

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
