"""kafka-server-start: run a broker with a properties file.

`-daemon` puts it into the background; `-name` and `-loggc` are accepted. JMX_PORT is ignored with a word: there is no
Java process to ask. Settings that only ZooKeeper or Java know are warned about by the broker itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moldau.cli.kafka.start_options import without_start_options

USAGE: Final = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*"
LOG_FOLDER_VARIABLE: Final = "LOG_DIR"


def main(arguments: Sequence[str]) -> int:
    left, daemon = without_start_options(arguments)
    if not left or left[0] in ("--help", "-h"):
        print(USAGE, file=sys.stderr)
        return 1
    if left[0] == "--version":
        from moldau.cli.kafka.entry import version_line

        print(version_line())
        return 0
    path, overrides = left[0], read_overrides(left[1:])
    if overrides is None:
        print(USAGE, file=sys.stderr)
        return 1
    if not Path(path).is_file():
        print(f"{path}: no such file; the properties file of the broker is needed", file=sys.stderr)
        return 1
    command = ["--config", path]
    for override in overrides:
        command += ["--set", override]
    if "JMX_PORT" in os.environ:
        print("warning: JMX_PORT is ignored: there is no Java here", file=sys.stderr)
    if daemon:
        return start_in_background(command)
    from moldau.cli.broker import starting as broker_start

    return 1 if broker_start.main(command) else 0


def read_overrides(left: list[str]) -> list[str] | None:
    found = []
    while left:
        option = left.pop(0)
        name, equals, content = option.partition("=")
        if name != "--override" or (not equals and not left):
            return None
        found.append(content if equals else left.pop(0))
    return found


def start_in_background(command: list[str]) -> int:
    folder = Path(os.environ.get(LOG_FOLDER_VARIABLE, "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "kafkaServer.out").open("ab") as out:
        subprocess.Popen(
            [sys.executable, "-m", "moldau", "broker", "start", *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return 0
