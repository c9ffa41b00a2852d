"""A cluster on this host: ZooKeeper servers and brokers as processes, each with a folder, a port and a log of its own.

For development, tests and demonstrations, and the way to use more cores of one machine. What belongs to it stands in
`cluster.json` in its home folder, so that a later command, or another process, can look at it, kill a member, start it
again and end it. From Python it is a context manager: `with LocalCluster.make(folder) as cluster:`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

STATE_FILE = "cluster.json"
LOOK_SECONDS = 0.05
START_SECONDS = 120.0
STOP_SECONDS = 60.0
HOST = "127.0.0.1"
LOWEST_PORT = 10_000

#: Stands in settings for the folder of each broker.
OWN_FOLDER = "{folder}"
#: And this for the address that its clients know.
OWN_ADDRESS = "{address}"
OWN_ID = "{id}"

Say = Callable[[str], None]
Command = list[str]


class LocalClusterError(RuntimeError):
    """What cannot be done with this cluster, and what to do instead."""


@dataclass(slots=True)
class Process:
    """A member: what it is started with, and the process that runs it, if one does."""

    kind: str
    number: int
    port: int
    inner_ports: list[int] = field(default_factory=list)
    """Where servers of an ensemble talk to each other."""
    pid: int | None = None
    started: str = ""
    """When the system says that this process began: another one may have its number later."""
    host: str = HOST

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def runs(self) -> bool:
        return self.pid is not None and start_of(self.pid) == self.started != ""


@dataclass(slots=True)
class Layout:
    zookeepers: list[Process]
    brokers: list[Process]
    settings: dict[str, str] = field(default_factory=dict)


class LocalCluster:
    def __init__(
        self,
        home: Path,
        layout: Layout,
        say: Say = lambda _line: None,
        before_start: Callable[[], None] | None = None,
        wrap: Callable[[Process, Command], Command] = lambda _member, command: command,
    ) -> None:
        """Use `make` or `open`."""
        self._wrap = wrap
        self.home = home
        self._layout = layout
        self._say = say
        self._before_start = before_start

    @classmethod
    def make(
        cls,
        home: Path,
        *,
        brokers: int = 3,
        zookeepers: int = 1,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        say: Say = lambda _line: None,
        before_start: Callable[[], None] | None = None,
        host_of: Callable[[Process], str] = lambda _member: HOST,
        wrap: Callable[[Process, Command], Command] = lambda _member, command: command,
    ) -> Self:
        """A new cluster whose brokers listen from `port` on, each on the next one; None takes ports that are free.
        `before_start` is one system call that each new process makes first. `host_of` and `wrap` put members into
        network namespaces of their own: at which address, by which command."""
        if (home / STATE_FILE).exists():
            raise LocalClusterError(
                f"{home} holds a cluster already: 'moldau cluster down' ends it, --delete removes it"
            )
        wanted = brokers + 3 * zookeepers
        ports = iter(range(port, port + wanted) if port is not None else free_ports(wanted))
        own = [Process("broker", number, next(ports)) for number in range(1, brokers + 1)]
        servers = [Process("zookeeper", number, next(ports)) for number in range(1, zookeepers + 1)]
        for server in servers:
            server.inner_ports = [next(ports), next(ports)]
        for member in (*own, *servers):
            member.host = host_of(member)
        layout = Layout(servers, own, dict(settings or {}))
        home.mkdir(parents=True, exist_ok=True)
        made = cls(home, layout, say, before_start, wrap)
        made._save()
        return made

    @classmethod
    def open(cls, home: Path, say: Say = lambda _line: None) -> Self:
        try:
            found = json.loads((home / STATE_FILE).read_text())
        except FileNotFoundError:
            raise LocalClusterError(f"there is no cluster in {home}: 'moldau cluster up' makes one") from None
        layout = Layout(
            [Process(**each) for each in found["zookeepers"]],
            [Process(**each) for each in found["brokers"]],
            found["settings"],
        )
        return cls(home, layout, say)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_all()

    # --- what there is ---

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self._layout.brokers)

    @property
    def zookeeper_connect(self) -> str:
        return ",".join(server.address for server in self._layout.zookeepers)

    @property
    def brokers(self) -> Sequence[Process]:
        return self._layout.brokers

    @property
    def zookeepers(self) -> Sequence[Process]:
        return self._layout.zookeepers

    @property
    def members(self) -> Sequence[Process]:
        return [*self._layout.zookeepers, *self._layout.brokers]

    def broker(self, number: int) -> Process:
        return self._find(self._layout.brokers, number)

    def zookeeper(self, number: int) -> Process:
        return self._find(self._layout.zookeepers, number)

    def grow(self, brokers: int) -> None:
        """More brokers, until there are so many; they listen behind the last port that is taken here."""
        present = self._layout.brokers
        if brokers < len(present):
            raise LocalClusterError(
                f"{self.home} has {len(present)} brokers: to do with fewer, move away what is on the last ones "
                "(kafka-reassign-partitions), then 'moldau cluster kill' and 'moldau cluster forget' them"
            )
        taken = [port for member in self.members for port in (member.port, *member.inner_ports)]
        for port in range(max(taken) + 1, max(taken) + 1 + brokers - len(present)):
            present.append(Process("broker", max(each.number for each in present) + 1, port))
        self._save()

    def set(self, settings: Mapping[str, str]) -> None:
        """For brokers that are started from now on."""
        self._layout.settings.update(settings)
        self._save()

    def _find(self, members: Sequence[Process], number: int) -> Process:
        for member in members:
            if member.number == number:
                return member
        known = ", ".join(str(member.number) for member in members)
        raise LocalClusterError(f"there is no {members[0].kind} {number} here, only {known}")

    def folder(self, member: Process) -> Path:
        return self.home / f"{member.kind}-{member.number}"

    def log_file(self, member: Process) -> Path:
        return self.folder(member) / f"{member.kind}.log"

    # --- starting ---

    def start(self) -> None:
        """Starts what does not run, and returns when all of it serves."""
        for member in self.members:
            if not member.runs:
                refuse_taken(member)
        self._start_all(self._layout.zookeepers)
        self._start_all(self._layout.brokers)

    def start_member(self, member: Process) -> None:
        if member.runs:
            raise LocalClusterError(f"{member.name} runs already, as process {member.pid}")
        self._start_all([member])

    def _start_all(self, members: Sequence[Process]) -> None:
        started = [member for member in members if not member.runs]
        for member in started:
            refuse_taken(member)
            self.spawn_member(member)
        for member in started:
            self._wait_until_ready(member)
            self._say(f"{member.name} serves at {member.address}")

    def spawn_member(self, member: Process) -> None:
        """Returns when the process runs, which is before it serves."""
        folder = self.folder(member)
        folder.mkdir(parents=True, exist_ok=True)
        command = self._broker_command(member) if member.kind == "broker" else self._zookeeper_command(member)
        with self.log_file(member).open("ab") as output:
            process = subprocess.Popen(
                self._wrap(member, command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=self._before_start,  # noqa: PLW1509 - what callers give is one system call
            )
        member.pid, member.started = process.pid, start_of(process.pid)
        _children[process.pid] = process
        self._save()

    def _broker_command(self, member: Process) -> list[str]:
        settings = {
            "node.id": str(member.number),
            "listeners": f"PLAINTEXT://{member.address}",
            "log.dirs": f"{OWN_FOLDER}/data",
            "zookeeper.connect": self.zookeeper_connect,
            **self._layout.settings,
        }
        command = [sys.executable, "-m", "moldau", "broker", "start"]
        for name, value in settings.items():
            own = value.replace(OWN_FOLDER, str(self.folder(member))).replace(OWN_ADDRESS, member.address)
            own = own.replace(OWN_ID, str(member.number))
            command += ["--set", f"{name}={own}"]
        return command

    def _zookeeper_command(self, member: Process) -> list[str]:
        from moldau.cli.zookeeper.process import SETTINGS, java_command, written_settings

        folder = self.folder(member)
        settings = {**SETTINGS, "dataDir": str(folder)}
        servers = self._layout.zookeepers
        if len(servers) == 1:
            settings |= {"clientPort": str(member.port), "clientPortAddress": member.host}
            return java_command(str(written_settings(folder, settings)))
        settings["standaloneEnabled"] = "false"
        for each in servers:
            peer_port, election_port = each.inner_ports
            settings[f"server.{each.number}"] = f"{each.host}:{peer_port}:{election_port};{each.address}"
        return java_command(str(written_settings(folder, settings, member.number)))

    def _wait_until_ready(self, member: Process) -> None:
        end = time.monotonic() + START_SECONDS
        while not self._is_ready(member):
            if not member.runs:
                said = self.log_file(member).read_text(errors="replace").strip()[-2000:]
                raise LocalClusterError(f"{member.name} ended at its start:\n{said}")
            if time.monotonic() > end:
                raise LocalClusterError(f"{member.name} does not serve; see {self.log_file(member)}")
            threading.Event().wait(LOOK_SECONDS)

    def _is_ready(self, member: Process) -> bool:
        if member.kind == "broker":
            return answers(member.host, member.port)
        from moldau.cli.zookeeper.process import mode_of

        return mode_of(member.host, member.port) is not None

    # --- ending ---

    def stop_member(self, member: Process) -> None:
        """In order: a broker hands its partitions over first."""
        self._end(member, signal.SIGTERM)

    def kill_member(self, member: Process) -> None:
        self._end(member, signal.SIGKILL)

    def pause_member(self, member: Process) -> None:
        self._signal(member, signal.SIGSTOP)

    def resume_member(self, member: Process) -> None:
        self._signal(member, signal.SIGCONT)

    def stop(self) -> None:
        """Brokers first, one after the other, while ZooKeeper still serves."""
        for member in [*self._layout.brokers, *self._layout.zookeepers]:
            if member.runs:
                self.stop_member(member)
                self._say(f"{member.name} has stopped")

    def kill_all(self) -> None:
        for member in self.members:
            if member.runs:
                self.kill_member(member)

    def _signal(self, member: Process, number: signal.Signals) -> None:
        if not member.runs or member.pid is None:
            raise LocalClusterError(f"{member.name} does not run")
        os.kill(member.pid, number)

    def _end(self, member: Process, number: signal.Signals) -> None:
        self._signal(member, number)
        end = time.monotonic() + STOP_SECONDS
        while member.runs:
            reap(member.pid)
            if time.monotonic() > end:
                raise LocalClusterError(f"{member.name} does not end; see {self.log_file(member)}")
            threading.Event().wait(LOOK_SECONDS)
        member.pid, member.started = None, ""
        self._save()

    def _save(self) -> None:
        state = {
            "zookeepers": [asdict(each) for each in self._layout.zookeepers],
            "brokers": [asdict(each) for each in self._layout.brokers],
            "settings": self._layout.settings,
        }
        written = self.home / f"{STATE_FILE}.new"
        written.write_text(json.dumps(state, indent=2) + "\n")
        written.replace(self.home / STATE_FILE)


#: Those that this very process has started stay as zombies until somebody asks for their end.
_children: dict[int, subprocess.Popen[bytes]] = {}


def reap(pid: int | None) -> None:
    child = _children.get(pid) if pid is not None else None
    if child is not None and child.poll() is not None:
        del _children[child.pid]


def start_of(pid: int) -> str:
    """When a process began, as the system counts it; empty if there is none, or it has ended and is not reaped yet. One
    whose first thread has ended holds its ports as long as it has others."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "" if os.path.isdir("/proc/self") else _alive_without_proc(pid)
    state, threads, began = fields[0], int(fields[17]), fields[19]
    return "" if state == "Z" and threads <= 1 else began


def _alive_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return "alive"


def refuse_taken(member: Process) -> None:
    """Somebody else who listens there would be taken for the member. Raises LocalClusterError."""
    for port in (member.port, *member.inner_ports):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((member.host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise LocalClusterError(
                        f"{member.name} cannot listen at {member.host}:{port}: another program does. End that, or make "
                        "the cluster at other ports: moldau cluster down --delete, then up --port"
                    ) from None


def answers(host: str, port: int) -> bool:
    """Whether a broker there answers ApiVersions: before it serves, connections are taken but wait."""
    from moldau.client.connection import Connection
    from moldau.client.errors import ClientError
    from moldau.client.settings import Address, ClientSettings

    address = Address(host, port)
    settings = ClientSettings((address,), request_seconds=1.0, connect_seconds=1.0)
    with contextlib.suppress(ClientError), Connection(address, settings):
        return True
    return False


def free_ports(count: int) -> list[int]:
    """Below those that the system gives to outgoing connections: a client that keeps trying to reach a member that is
    down could end up connected to itself there, and the member would find its port taken."""
    candidates = random.SystemRandom().sample(range(LOWEST_PORT, max(first_outgoing_port(), 2 * LOWEST_PORT)), 1000)
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in candidates:
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
            if len(found) == count:
                return found
    raise LocalClusterError(f"{count} free ports were not found: name the first with --port")


def first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 49_152
