"""`moldau rest`: run a REST proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Run a REST proxy: topics over HTTP.", no_args_is_help=True)


@app.callback()
def rest() -> None:
    """Run a REST proxy: topics over HTTP."""


@app.command()
def start(
    config: Annotated[
        Path | None, typer.Option("--config", help="A properties file with the keys of Confluent's proxy.")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap-server", help="The brokers, instead of bootstrap.servers.")
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="The schema registry, instead of schema.registry.url."),
    ] = None,
    listen: Annotated[str | None, typer.Option("--listen", help="Instead of listeners; http://localhost:8082.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; wins over the file.")
    ] = None,
) -> None:
    """Run a proxy in the foreground until SIGTERM."""
    from moldau.cli.services import rest_start

    rest_start.start(config, bootstrap, registry, listen, settings or [])
