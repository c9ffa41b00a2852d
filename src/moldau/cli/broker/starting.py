"""`moldau broker start`, without the machinery of the other commands: a broker shall be up before they are imported."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.server.log_files import LogFiles

BAD_CONFIGURATION = 2
LAST_PORT = 65535
MEGABYTE = 1_000_000


class BadArgumentError(ValueError):
    """Something on the command line, or in the file it names, that cannot be used."""


def main(arguments: Sequence[str]) -> int:
    """Run a broker until SIGTERM or Ctrl-C; returns the exit code."""
    from moldau.cli.broker.secret_files import warnings_of_readers
    from moldau.cli.jaas_file import use_kerberos_file
    from moldau.config.broker import BrokerConfig, BrokerConfigError
    from moldau.config.broker_checks import refuse_missing_security

    parsed = parser().parse_args(arguments)
    try:
        in_file = from_file(parsed.config)
        properties = from_jaas_file() | in_file | from_options(parsed.settings) | from_shortcuts(parsed)
        given, properties = properties, looked_up(properties)
        config = BrokerConfig.load(properties)
        refuse_missing_security(properties)
    except (BadArgumentError, BrokerConfigError) as error:
        print(error, file=sys.stderr)
        return BAD_CONFIGURATION
    readers = warnings_of_readers(parsed.config, in_file, given, config)
    for warning in (*config.warnings, *readers):
        print(f"warning: {warning}", file=sys.stderr)

    use_kerberos_file()
    from moldau.server.node import run

    try:
        return run(config, log_files(parsed))
    except BadArgumentError as error:
        print(error, file=sys.stderr)
        return BAD_CONFIGURATION


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="moldau broker start", description="Run a broker until SIGTERM or Ctrl-C.")
    found.add_argument(
        "--config", type=Path, metavar="FILE", help="a file in Kafka's properties format (server.properties)"
    )
    found.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="one setting; wins over the file",
    )
    found.add_argument(
        "--port", type=int, metavar="N", help="listen on this port of localhost: short for --set listeners=…"
    )
    found.add_argument(
        "--log-folder",
        type=Path,
        metavar="FOLDER",
        help="write what the broker tells of itself into files here, under Kafka's names; stderr gets warnings",
    )
    found.add_argument(
        "--log-max-mb", type=int, default=100, metavar="MB", help="begin a new log file after so many megabytes (100)"
    )
    found.add_argument(
        "--log-backups", type=int, default=10, metavar="N", help="keep so many full ones of each log file (10)"
    )
    found.add_argument("--data", metavar="DIRECTORY", help="keep everything here: short for --set log.dirs=…")
    return found


def log_files(parsed: argparse.Namespace) -> "LogFiles | None":
    if parsed.log_folder is None:
        return None
    from moldau.server.log_files import LogFiles

    if parsed.log_max_mb < 1 or parsed.log_backups < 1:
        raise BadArgumentError("--log-max-mb and --log-backups: expected at least 1")
    try:
        parsed.log_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadArgumentError(f"--log-folder {parsed.log_folder}: {error.strerror}") from error
    return LogFiles(parsed.log_folder, parsed.log_max_mb * MEGABYTE, parsed.log_backups)


def from_shortcuts(parsed: argparse.Namespace) -> dict[str, str]:
    """Settings under a shorter name; said twice they would contradict each other."""
    found = {}
    if parsed.port is not None:
        if not 0 <= parsed.port <= LAST_PORT:
            raise BadArgumentError(f"--port {parsed.port}: expected 0 (any that is free) to {LAST_PORT}")
        found["listeners"] = f"PLAINTEXT://localhost:{parsed.port}"
    if parsed.data is not None:
        if not parsed.data:
            raise BadArgumentError("--data: expected a directory")
        found["log.dirs"] = parsed.data
    given = from_options(parsed.settings)
    for key, option in (("listeners", "--port"), ("log.dirs", "--data"), ("log.dir", "--data")):
        if key in given and (found.get("log.dirs" if option == "--data" else key)) is not None:
            raise BadArgumentError(f"{option} and --set {key}= say the same: leave one out")
    return found


def from_file(path: Path | None) -> dict[str, str]:
    from moldau.config.properties import PropertiesError, read

    if path is None:
        return {}
    try:
        return read(path)
    except OSError as error:
        raise BadArgumentError(f"--config {path}: {error.strerror}") from error
    except PropertiesError as error:
        raise BadArgumentError(f"--config {path}: {error}") from error


def looked_up(properties: dict[str, str]) -> dict[str, str]:
    """With what `${file:…}` and the like refer to."""
    import os

    from moldau.config.providers import ProviderError, resolved

    try:
        return resolved(properties, os.environ)
    except ProviderError as error:
        raise BadArgumentError(str(error)) from error


def from_jaas_file() -> dict[str, str]:
    """The login modules of the file that KAFKA_OPTS names, as Kafka's users give it to their brokers."""
    from moldau.cli.jaas_file import JaasFileError, jaas_text

    try:
        text = jaas_text()
    except JaasFileError as error:
        raise BadArgumentError(str(error)) from error
    return {} if text is None else {"moldau.jaas.config": text}


def from_options(settings: Sequence[str]) -> dict[str, str]:
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise BadArgumentError(f"--set {setting}: expected KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
