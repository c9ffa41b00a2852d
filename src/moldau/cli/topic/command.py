"""`moldau topic`: make, look at, change and remove topics."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, FromFile, Output, TopicName, TopicNames, Yes, connected
from moldau.cli.output import Format

app = typer.Typer(help="Make, look at, change and remove topics.", no_args_is_help=True)

Count = Annotated[
    bool, typer.Option("--count", help="Count the records, which reads them all: offsets have gaps and markers.")
]
Setting = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A topic setting.")]


@app.command()
@connected
def create(
    cluster: Connection,
    names: Annotated[list[str] | None, typer.Argument(metavar="TOPIC...", help="The new topics.")] = None,
    partitions: Annotated[int | None, typer.Option(min=1, help="How many; without it the broker decides.")] = None,
    replication_factor: Annotated[int | None, typer.Option(min=1, help="How many replicas; else the same.")] = None,
    settings: Setting = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Leave topics alone that exist.")] = False,
    from_file: FromFile = None,
    dry_run: DryRun = False,
    output: Output = Format.table,
) -> None:
    """Make topics, by name or from a file that `topic describe -o json` wrote."""
    from moldau.cli.topic import actions

    if from_file is not None:
        wanted = actions.read_topics(from_file, names or [])
    else:
        wanted = actions.named_topics(names or [], partitions, replication_factor, settings or [])
    actions.create(cluster, wanted, if_not_exists, dry_run, output)


@app.command("list")
@connected
def list_topics(
    cluster: Connection,
    patterns: Annotated[
        list[str] | None, typer.Argument(metavar="PATTERN...", help="Names with * and ?; all without one.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Internal topics too.")] = False,
    count: Count = False,
    output: Output = Format.table,
) -> None:
    """List topics. `-o wide` adds ids and how many offsets they hold."""
    from moldau.cli.topic import actions

    actions.list_topics(cluster, patterns or [], show_all, count, output)


@app.command()
@connected
def describe(cluster: Connection, names: TopicNames, count: Count = False, output: Output = Format.table) -> None:
    """Show partitions, replicas, offsets and changed settings."""
    from moldau.cli.topic import actions

    actions.describe(cluster, names, count, output)


@app.command()
@connected
def alter(
    cluster: Connection,
    name: TopicName,
    partitions: Annotated[int | None, typer.Option(min=1, help="The new number; it can only grow.")] = None,
    settings: Setting = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to the default.")] = None,
    dry_run: DryRun = False,
) -> None:
    """Add partitions, change settings."""
    from moldau.cli.topic import actions

    actions.alter(cluster, name, partitions, settings or [], unset or [], dry_run)


@app.command()
@connected
def delete(
    cluster: Connection,
    names: TopicNames,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Topics that do not exist are no error.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove topics with everything in them."""
    from moldau.cli.topic import actions

    actions.delete(cluster, names, if_exists, dry_run, yes)


@app.command()
@connected
def truncate(
    cluster: Connection,
    name: TopicName,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only these partitions.")] = None,
    before: Annotated[int | None, typer.Option(min=0, metavar="OFFSET", help="Delete what is before it.")] = None,
    before_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Delete what is older: 2024-05-01T12:00:00, -2d, …")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Delete a topic's records, all of them or the oldest, and keep the topic."""
    from moldau.cli.topic import actions

    actions.truncate(cluster, name, partition or [], before, before_time, dry_run, yes, output)
