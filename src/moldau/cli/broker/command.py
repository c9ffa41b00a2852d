"""`moldau broker`: run a broker in the foreground; see and stop those of this machine; take over another one's data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.broker import starting
from moldau.cli.options import DryRun, Output, Yes
from moldau.cli.output import Format

app = typer.Typer(
    help="Run a broker; see and stop those of this machine; take over the data of Apache Kafka's.", no_args_is_help=True
)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def start(context: typer.Context) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    raise typer.Exit(starting.main(context.args))


@app.command()
def status(output: Output = Format.table) -> None:
    """Show your brokers on this machine: ports, data, memory; exit code 4 if none runs."""
    from moldau.cli.broker import actions

    raise typer.Exit(actions.status(output))


@app.command()
def stop(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The one that listens here.")] = None,
    data: Annotated[Path | None, typer.Option(metavar="DIRECTORY", help="The one with this log directory.")] = None,
    node_id: Annotated[int | None, typer.Option(min=0, help="The one with this node.id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    patience: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long to wait.")] = "1m",
) -> None:
    """Ask a broker on this machine to end, and wait until it has."""
    from moldau.cli import times
    from moldau.cli.broker import actions

    actions.stop(port, data, node_id, every, times.duration_ms(patience))


@app.command()
def adopt(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIRECTORY...", help="All log directories of the broker (log.dirs), in their order."),
    ],
    into: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIRECTORY", help="Copy to this new one; once, or once for each of the others."),
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Take the log directories themselves.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Take over the data of an Apache Kafka broker that was stopped: topics, settings, committed offsets, producers.

    Kafka 4 and 3, with KRaft or ZooKeeper. Run it with --dry-run first: it tells what will be taken and what not.
    """
    from moldau.cli.broker import adopting

    raise typer.Exit(adopting.adopt(directories, into or [], in_place, dry_run, yes, output))
