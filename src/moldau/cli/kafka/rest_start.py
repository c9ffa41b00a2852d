"""kafka-rest-start: run a REST proxy with a properties file, as Confluent's script of that name does.

`-daemon` puts it into the background. Settings that only Confluent's proxy knows are ignored, as it ignores those of
others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moldau.cli.kafka.start_options import without_start_options

USAGE: Final = "USAGE: kafka-rest-start [-daemon] kafka-rest.properties"


def main(arguments: Sequence[str]) -> int:
    left, daemon = without_start_options(arguments)
    if len(left) != 1 or left[0] in ("--help", "-h"):
        print(USAGE, file=sys.stderr)
        return 1
    if left[0] == "--version":
        from moldau.cli.kafka.entry import version_line

        print(version_line())
        return 0
    path = Path(left[0])
    if not path.is_file():
        print(f"{path}: no such file; the properties file of the proxy is needed", file=sys.stderr)
        return 1
    if daemon:
        return start_in_background(path)
    from moldau.cli.output import CommandError
    from moldau.cli.services import rest_start

    try:
        rest_start.start(path, None, None, None, [])
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def start_in_background(path: Path) -> int:
    folder = Path(os.environ.get("LOG_DIR", "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "kafka-rest.out").open("ab") as out:
        subprocess.Popen(
            [sys.executable, "-m", "moldau", "rest", "start", "--config", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return 0
