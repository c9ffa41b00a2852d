"""`moldau cluster`: what the cluster is made of, whether it is well, and a cluster of processes on this host."""

from __future__ import annotations

import typer

from moldau.cli import cluster_local
from moldau.cli.connect import Connection
from moldau.cli.options import Output, connected
from moldau.cli.output import Format

app = typer.Typer(
    help="What the cluster is made of, whether it is well; and a cluster on this host.", no_args_is_help=True
)


@app.command()
@connected
def describe(cluster: Connection, output: Output = Format.table) -> None:
    """Show brokers, controller, features, and how much there is. `-o wide` adds the log folders."""
    from moldau.cli import cluster_actions

    cluster_actions.describe(cluster, output)


@app.command()
@connected
def health(cluster: Connection, output: Output = Format.table) -> None:
    """Look for brokers, partitions and log folders that are not well; exit code 5 if there are any."""
    from moldau.cli import cluster_actions

    raise typer.Exit(cluster_actions.health(cluster, output))


for command in (cluster_local.up, cluster_local.status, cluster_local.kill, cluster_local.restart, cluster_local.down):
    app.command(rich_help_panel="A cluster on this host")(command)
