"""`moldau cluster`: what the cluster is made of, whether it is well, and a cluster of processes on this host."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.cli.cluster import local_command
from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, Output, connected
from moldau.cli.output import Format

app = typer.Typer(
    help="What the cluster is made of, whether it is well; and a cluster on this host.", no_args_is_help=True
)


@app.command()
@connected
def describe(cluster: Connection, output: Output = Format.table) -> None:
    """Show brokers, controller, features, and how much there is. `-o wide` adds the log directories."""
    from moldau.cli.cluster import actions

    actions.describe(cluster, output)


@app.command()
@connected
def health(cluster: Connection, output: Output = Format.table) -> None:
    """Look for brokers, partitions and log directories that are not well; exit code 5 if there are any."""
    from moldau.cli.cluster import actions

    raise typer.Exit(actions.health(cluster, output))


@app.command()
@connected
def forget(
    cluster: Connection,
    broker: Annotated[int, typer.Argument(metavar="BROKER", help="The id of a broker that was stopped.")],
    force: Annotated[bool, typer.Option("--force", help="Although it is still a replica of something.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Remove a broker that will not come back from what the cluster knows, once its replicas were moved to others."""
    from moldau.cli.cluster import actions

    actions.forget(cluster, broker, force, dry_run)


for command in (local_command.up, local_command.status, local_command.kill, local_command.restart, local_command.down):
    app.command(rich_help_panel="A cluster on this host")(command)
