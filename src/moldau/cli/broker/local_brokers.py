"""The brokers of this user on this machine, as the system knows them (Linux: /proc).

A broker holds the lock of its log directories open and listens on its sockets, so that nothing has to be written down
for others to find it: directories and ports are right also where they were chosen by the system.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROCESSES: Final = Path("/proc")
LOCK: Final = "/.lock"
LISTENING: Final = "0A"
START_TICKS: Final = 19
"""The field of /proc/PID/stat behind the name in brackets that says when a process began."""


@dataclass(frozen=True, slots=True)
class LocalBroker:
    pid: int
    command: tuple[str, ...]
    directories: tuple[Path, ...]
    ports: tuple[int, ...]
    node_id: int | None
    cluster_id: str | None
    memory_bytes: int
    running_seconds: float


def running_brokers() -> Iterator[tuple[int, list[str]]]:
    """Processes of this user that run `moldau broker start` or kafka-server-start."""
    return (found for found in own_processes() if is_broker(found[1]))


def own_processes() -> Iterator[tuple[int, list[str]]]:
    """All others of this user, with their command lines."""
    for entry in PROCESSES.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            command = [part.decode(errors="replace") for part in (entry / "cmdline").read_bytes().split(b"\0")[:-1]]
        except OSError:
            continue
        yield int(entry.name), command


def is_broker(command: Sequence[str]) -> bool:
    if not command or "python" not in Path(command[0]).name:
        return False
    names = [Path(part).name for part in command[1:4]]
    if "kafka-server-start" in names or "kafka-server-start.sh" in names:
        return True
    here = command[1:]
    return any(
        here[at : at + 2] == ["broker", "start"] and at > 0 and Path(here[at - 1]).name == "moldau"
        for at in range(len(here))
    )


def found() -> list[LocalBroker]:
    """Those that hold a log directory: helpers and processes that end are none."""
    described = (look(pid, command) for pid, command in running_brokers())
    return sorted((each for each in described if each is not None and each.directories), key=lambda each: each.pid)


def look(pid: int, command: Sequence[str]) -> LocalBroker | None:
    process = PROCESSES / str(pid)
    try:
        targets = [os.readlink(handle) for handle in (process / "fd").iterdir()]
        locked = {Path(target.removesuffix(LOCK)) for target in targets if target.endswith(LOCK)}
        sockets = {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}
        memory = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        seconds = _uptime() - _started(process)
    except OSError:
        return None
    # The metadata's folder lies in a log directory, with a lock of its own.
    directories = tuple(sorted(directory for directory in locked if directory.parent not in locked))
    identity = _identity(directories)
    node = identity.get("node.id", identity.get("broker.id", ""))
    return LocalBroker(
        pid,
        tuple(command),
        directories,
        tuple(sorted(_listening(process, sockets))),
        int(node) if node.isdigit() else None,
        identity.get("cluster.id"),
        memory,
        seconds,
    )


def _uptime() -> float:
    return float((PROCESSES / "uptime").read_text().split()[0])


def _started(process: Path) -> float:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[START_TICKS]) / os.sysconf("SC_CLK_TCK")


def _listening(process: Path, inodes: set[str]) -> set[int]:
    """The ports that these sockets wait at for connections."""
    ports = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = (process / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _identity(directories: Sequence[Path]) -> dict[str, str]:
    from moldau.config.properties import PropertiesError, read

    for directory in directories:
        try:
            return read(directory / "meta.properties")
        except (OSError, PropertiesError):
            continue
    return {}


def is_running(broker: LocalBroker) -> bool:
    """Whether this very process still runs: its number may have been given to another one since."""
    now = look(broker.pid, broker.command)
    return now is not None and bool(now.directories) and now.running_seconds >= broker.running_seconds
