"""zookeeper-server-stop: ask the ZooKeeper servers of this user on this machine to end (SIGTERM)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

USAGE: Final = "USAGE: zookeeper-server-stop"
SIGNAL_VARIABLE: Final = "SIGNAL"


def main(arguments: Sequence[str]) -> int:
    if arguments:
        print(USAGE, file=sys.stderr)
        return 1
    from moldau.cli.broker.local_brokers import own_processes
    from moldau.cli.zookeeper.process import MAIN_CLASS

    servers = [pid for pid, command in own_processes() if MAIN_CLASS in command]
    if not servers:
        print("No zookeeper server to stop")
        return 1
    name = os.environ.get(SIGNAL_VARIABLE, "TERM")
    for pid in servers:
        os.kill(pid, signal.Signals[f"SIG{name.removeprefix('SIG')}"])
    return 0
