"""`moldau services`: schema registry and REST proxy in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Run the schema registry and the REST proxy in one process.", no_args_is_help=True)


@app.callback()
def services() -> None:
    """Run the schema registry and the REST proxy in one process."""


@app.command()
def start(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="One file for both: keys with registry. or rest. before them are for one."),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap-server", help="The brokers, instead of bootstrap.servers.")
    ] = None,
    registry_listen: Annotated[
        str | None, typer.Option("--registry-listen", help="Instead of registry.listeners; http://localhost:8081.")
    ] = None,
    rest_listen: Annotated[
        str | None, typer.Option("--rest-listen", help="Instead of rest.listeners; http://localhost:8082.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting; wins over the file.")
    ] = None,
) -> None:
    """Run both in the foreground until SIGTERM. The proxy asks this registry, or that of schema.registry.url."""
    from moldau.cli.services import services_start

    services_start.start(config, bootstrap, registry_listen, rest_listen, settings or [])
