"""kafka-server-stop: ask the brokers of this machine to end (SIGTERM).

All brokers of this user, or the one with `--node-id`, as its settings on the command line or in its file say.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moldau.cli.broker.local_brokers import PROCESSES, running_brokers
from moldau.cli.kafka.options import Parser, value

PARSER: Final = Parser(
    "Stops the brokers of this machine.",
    value("process-role", "role", "broker or controller; a broker here is both."),
    value("node-id", "id", "Stop only the broker with this node.id.", kind=int),
)
SIGNAL_VARIABLE: Final = "SIGNAL"


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
