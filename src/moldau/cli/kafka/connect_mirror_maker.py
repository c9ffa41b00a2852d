"""connect-mirror-maker: keep topics of clusters up in each other, with MirrorMaker 2's property file.

`--clusters` names the targets that this worker copies to. `-daemon` puts it into the background; `-name` and `-loggc`
are accepted. What is copied is copied exactly once, also where the file does not ask for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from moldau.cli.kafka.start_options import without_start_options
from moldau.cli.output import CommandError, Format

USAGE: Final = "USAGE: connect-mirror-maker [-daemon] mm2.properties [--clusters CLUSTER [CLUSTER ...]]"
LOG_FOLDER_VARIABLE: Final = "LOG_DIR"


def main(arguments: Sequence[str]) -> int:
    left, daemon = without_start_options(arguments)
    if left and left[0] == "--version":
        from moldau.cli.kafka.entry import version_line

        print(version_line())
        return 0
    found = read_arguments(left)
    if found is None:
        print(USAGE, file=sys.stderr)
        return 1
    config, clusters = found
    if not config.is_file():
        print(f"{config}: no such file; MirrorMaker's property file is needed", file=sys.stderr)
        return 1
    if daemon:
        return start_in_background(config, clusters)
    from moldau.cli.mirror import actions as mirror_actions

    try:
        mirror_actions.start(
            config, clusters or None, progress=False, until_current=False, listen=None, output=Format.table
        )
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def read_arguments(left: list[str]) -> tuple[Path, list[str]] | None:
    """The file and the clusters, in either order."""
    if "--clusters" in left:
        at = left.index("--clusters")
        before, named = left[:at], left[at + 1 :]
        if not before and len(named) > 1:
            before, named = [named[-1]], named[:-1]
    else:
        before, named = left, []
    if len(before) != 1 or before[0].startswith("-") or ("--clusters" in left and not named):
        return None
    return Path(before[0]), named


def start_in_background(config: Path, clusters: list[str]) -> int:
    folder = Path(os.environ.get(LOG_FOLDER_VARIABLE, "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "moldau", "mirror", "start", str(config)]
    for each in clusters:
        command += ["--clusters", each]
    with (folder / "mirrorMaker.out").open("ab") as out:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    return 0
