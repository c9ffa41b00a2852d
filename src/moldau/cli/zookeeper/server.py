"""One ZooKeeper server in the foreground or the background, from a properties file as Kafka's own or from options."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moldau.cli.zookeeper.process import SETTINGS, ZooKeeperError, java_command

EFFECTIVE_FILE: Final = "zookeeper.effective.properties"
LOG_FOLDER_VARIABLE: Final = "LOG_DIR"


def read_file(path: str) -> dict[str, str]:
    """Raises ZooKeeperError."""
    from moldau.config.properties import PropertiesError, read

    if not Path(path).is_file():
        raise ZooKeeperError(f"{path}: no such file; the properties file of the ZooKeeper server is needed")
    try:
        return dict(read(Path(path)))
    except (OSError, PropertiesError) as error:
        raise ZooKeeperError(f"{path}: {error}") from error


def prepared(settings: Mapping[str, str], number: int | None = None) -> Path:
    """Writes what the server is started with: what is given, over our defaults. Raises ZooKeeperError."""
    effective = {**SETTINGS, **settings}
    if effective.get("requireClientAuthScheme", "").strip().lower() == "sasl":
        # What the books write; ZooKeeper itself looks at this one alone.
        effective.setdefault("sessionRequireClientSASLAuth", "true")
    folder = Path(effective.get("dataDir", "").strip())
    if not effective.get("dataDir", "").strip():
        raise ZooKeeperError("dataDir is not set: where the server keeps its data")
    servers = [name for name in effective if name.startswith("server.")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        identity = folder / "myid"
        if number is not None:
            identity.write_text(f"{number}\n")
        elif servers and not identity.is_file():
            raise ZooKeeperError(
                f"{identity} is missing: of an ensemble ({', '.join(sorted(servers))}) each server needs a file that "
                "holds its own number"
            )
        path = folder / EFFECTIVE_FILE
        path.write_text("".join(f"{name}={value}\n" for name, value in effective.items()))
    except OSError as error:
        raise ZooKeeperError(f"{folder}: {error.strerror}") from error
    return path


def run(settings_file: Path) -> None:
    """Becomes the server: this process is replaced, and signals reach it. Raises ZooKeeperError."""
    command = java_command(str(settings_file))
    os.execv(command[0], command)


def run_in_background(settings_file: Path) -> int:
    """The id of the process. Its output goes where Kafka's scripts put it. Raises ZooKeeperError."""
    command = java_command(str(settings_file))
    folder = Path(os.environ.get(LOG_FOLDER_VARIABLE, "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "zookeeper.out").open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    return process.pid
