"""`moldau broker start`, without the machinery of the other commands: a broker shall be up before they are imported."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

BAD_CONFIGURATION = 2


class BadArgumentError(ValueError):
    """Something on the command line, or in the file it names, that cannot be used."""


def main(arguments: Sequence[str]) -> int:
    """Run a broker until SIGTERM or Ctrl-C; returns the exit code."""
    from moldau.config.broker import BrokerConfig, BrokerConfigError
    from moldau.config.broker_checks import refuse_missing_security

    parsed = parser().parse_args(arguments)
    try:
        properties = from_file(parsed.config) | from_options(parsed.settings)
        config = BrokerConfig.load(properties)
        refuse_missing_security(properties)
    except (BadArgumentError, BrokerConfigError) as error:
        print(error, file=sys.stderr)
        return BAD_CONFIGURATION
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)

    from moldau.server.node import run

    return run(config)


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


def from_options(settings: Sequence[str]) -> dict[str, str]:
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise BadArgumentError(f"--set {setting}: expected KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
