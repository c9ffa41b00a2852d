"""kafka-server-stop: ask the brokers of this machine to end (SIGTERM).

All brokers of this user, or the one with `--node-id`, as its settings on the command line or in its file say.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from moldau.cli.kafka.options import Parser, value

PARSER: Final = Parser(
    "Stops the brokers of this machine.",
    value("process-role", "role", "broker or controller; a broker here is both."),
    value("node-id", "id", "Stop only the broker with this node.id.", kind=int),
)
SIGNAL_VARIABLE: Final = "SIGNAL"
PROCESSES: Final = Path("/proc")


def main(arguments: Sequence[str]) -> int:
    wanted = None
    if arguments:
        options = PARSER.parse(arguments)
        wanted = options.integer("node-id")
    brokers = [pid for pid, command in running_brokers() if wanted is None or node_id_of(pid, command) == wanted]
    if not brokers:
        print("No kafka server to stop", file=sys.stdout)
        return 1
    name = os.environ.get(SIGNAL_VARIABLE, "TERM")
    number = signal.Signals[f"SIG{name.removeprefix('SIG')}"]
    for pid in brokers:
        os.kill(pid, number)
    return 0


def running_brokers() -> Iterator[tuple[int, list[str]]]:
    """Processes of this user that run `moldau broker start` or kafka-server-start."""
    for entry in PROCESSES.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            command = [part.decode(errors="replace") for part in (entry / "cmdline").read_bytes().split(b"\0")[:-1]]
        except OSError:
            continue
        if is_broker(command):
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


def node_id_of(pid: int, command: Sequence[str]) -> int | None:
    """From `--set node.id=…`, `--override node.id=…`, else from the properties file."""
    from moldau.config.properties import PropertiesError, read

    settings: dict[str, str] = {}
    for at, part in enumerate(command[:-1]):
        following = command[at + 1]
        if part == "--config" or (Path(part).name.startswith("kafka-server-start") and not following.startswith("-")):
            try:
                settings = read(PROCESSES / str(pid) / "cwd" / following) | settings
            except (OSError, PropertiesError):
                continue
        if part in ("--set", "--override"):
            key, _, content = following.partition("=")
            settings[key.strip()] = content.strip()
    found = settings.get("node.id", settings.get("broker.id", ""))
    return int(found) if found.isdigit() else None
