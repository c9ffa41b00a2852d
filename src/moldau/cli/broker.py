"""`moldau broker`: run a broker in the foreground; see and stop those of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli import broker_start
from moldau.cli.options import Output
from moldau.cli.output import Format

app = typer.Typer(help="Run a broker; see and stop those of this machine.", no_args_is_help=True)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def start(context: typer.Context) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    raise typer.Exit(broker_start.main(context.args))


@app.command()
def status(output: Output = Format.table) -> None:
    """Show your brokers on this machine: ports, data, memory; exit code 4 if none runs."""
    from moldau.cli import broker_actions

    raise typer.Exit(broker_actions.status(output))


@app.command()
def stop(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The one that listens here.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The one with this log folder.")] = None,
    node_id: Annotated[int | None, typer.Option(min=0, help="The one with this node.id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    patience: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait.")] = "1m",
) -> None:
    """Ask a broker on this machine to end, and wait until it has."""
    from moldau.cli import broker_actions, times

    broker_actions.stop(port, data, node_id, every, times.duration_ms(patience))
