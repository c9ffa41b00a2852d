"""`moldau broker`: run a broker in the foreground."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

BAD_CONFIGURATION = 2

app = typer.Typer(help="Run a broker.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `start` a command of its own while it is the only one."""


@app.command()
def start(
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file in Kafka's properties format (server.properties).")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; wins over the file.")
    ] = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    from moldau.config.broker import BrokerConfig, BrokerConfigError

    try:
        broker_config = BrokerConfig.load(_from_file(config) | _from_options(settings or []))
    except BrokerConfigError as error:
        _refuse(str(error))
    for warning in broker_config.warnings:
        print(f"warning: {warning}", file=sys.stderr)

    from moldau.server.node import run

    raise typer.Exit(run(broker_config))


def _from_file(path: Path | None) -> dict[str, str]:
    from moldau.config.properties import PropertiesError, read

    if path is None:
        return {}
    try:
        return read(path)
    except OSError as error:
        _refuse(f"--config {path}: {error.strerror}")
    except PropertiesError as error:
        _refuse(f"--config {path}: {error}")


def _from_options(settings: list[str]) -> dict[str, str]:
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            _refuse(f"--set {setting}: expected KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _refuse(reason: str) -> NoReturn:
    print(reason, file=sys.stderr)
    raise typer.Exit(BAD_CONFIGURATION)
