"""`moldau connect`: run workers that bring data in and out of topics."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="Run connectors: data into topics and out of them, without code.", no_args_is_help=True)

WorkerFile = Annotated[str, typer.Argument(metavar="WORKER", help="The worker's properties file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="One of the worker's settings; wins over the file."),
]


@app.command()
def standalone(
    worker: WorkerFile,
    connectors: Annotated[
        list[str] | None, typer.Argument(metavar="CONNECTOR…", help="Properties or JSON files, one for each connector.")
    ] = None,
    settings: Settings = None,
) -> None:
    """Run connectors in one process until SIGTERM, with Connect's REST API beside them."""
    from moldau.cli.connectors import starting

    starting.standalone(worker, connectors or [], settings or [])


@app.command()
def distributed(worker: WorkerFile, settings: Settings = None) -> None:
    """Run one worker of a group until SIGTERM; connectors are made over REST, and taken over when a worker dies."""
    from moldau.cli.connectors import starting

    starting.distributed(worker, settings or [])
