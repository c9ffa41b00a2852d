"""`moldau connect` and the `connect-*` tools: properties files, then the process."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cli.output import FAILED, UNREACHABLE, WRONG_USAGE, CommandError, warn_of_readers
from moldau.client.errors import SettingError
from moldau.config import properties
from moldau.config.definition import ConfigError

if TYPE_CHECKING:
    from moldau.connect.worker.settings import WorkerSettings

LOG_FOLDER_VARIABLE = "LOG_DIR"


@dataclass(frozen=True, slots=True)
class Arguments:
    files: list[str]
    daemon: bool


def without_java_options(arguments: Sequence[str]) -> Arguments:
    left, daemon = list(arguments), False
    while left and left[0] in ("-daemon", "-name", "-loggc"):
        option = left.pop(0)
        daemon = daemon or option == "-daemon"
        if option == "-name" and left:
            left.pop(0)
    return Arguments(left, daemon)


def usage(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


def in_background(mode: str, files: Sequence[str]) -> int:
    folder = Path(os.environ.get(LOG_FOLDER_VARIABLE, "logs"))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "connect.out").open("ab") as out:
        subprocess.Popen(
            [sys.executable, "-m", "moldau", "connect", mode, *files],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return 0


def tell(action: Callable[[], None]) -> int:
    """For the tools: what went wrong in a line, and the exit code."""
    try:
        action()
    except CommandError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def standalone(worker: str, connectors: Sequence[str], settings: Sequence[str]) -> None:
    def made(worker_settings: WorkerSettings) -> Coroutine[Any, Any, None]:
        from moldau.connect.worker.node import read_connector, serve_standalone

        configs = [read_connector(text_of(path), path) for path in connectors]
        return serve_standalone(worker_settings, configs, ready)

    run(worker, settings, made, distributed=False)


def distributed(worker: str, settings: Sequence[str]) -> None:
    def made(worker_settings: WorkerSettings) -> Coroutine[Any, Any, None]:
        from moldau.connect.worker.group_node import serve_distributed

        return serve_distributed(worker_settings, ready)

    run(worker, settings, made, distributed=True)


def run(
    worker: str,
    settings: Sequence[str],
    made: Callable[[WorkerSettings], Coroutine[Any, Any, None]],
    *,
    distributed: bool,
) -> None:
    try:
        from confluent_kafka import KafkaException

        from moldau.connect.definitions import ConfigRefused
        from moldau.connect.worker.settings import WorkerSettings
    except ImportError as error:
        raise CommandError(f"{error}: pip install 'moldau[connect]'", exit_code=FAILED) from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        asyncio.run(made(WorkerSettings.of(read(worker, settings), distributed=distributed)))
    except (ConfigError, ConfigRefused, SettingError, ValueError) as error:
        raise CommandError(str(error), exit_code=WRONG_USAGE) from None
    except KafkaException as error:
        raise CommandError(f"the brokers cannot be reached: {error}", exit_code=UNREACHABLE) from None
    except OSError as error:
        raise CommandError(str(error), exit_code=FAILED) from None


def ready(where: str) -> None:
    print(f"ready: {where}", flush=True)


def text_of(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}", exit_code=WRONG_USAGE) from None


def read(path: str, settings: Sequence[str]) -> dict[str, str]:
    try:
        found = properties.read(Path(path))
    except (OSError, properties.PropertiesError) as error:
        raise CommandError(f"{path}: {error}", exit_code=WRONG_USAGE) from None
    warn_of_readers(Path(path), found)
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals:
            raise CommandError(f"--set {each}: expected KEY=VALUE", exit_code=WRONG_USAGE)
        found[key.strip()] = value
    return found
