"""`moldau group`: consumer groups, their lag, and where they read on."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.cli import completion
from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, FromFile, GroupName, GroupNames, Output, Yes, connected
from moldau.cli.output import Format

app = typer.Typer(help="Consumer groups: their lag, and where they read on.", no_args_is_help=True)

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0,1,...]",
        help="Only these topics or partitions.",
        autocompletion=completion.topics,
    ),
]


@app.command("list")
@connected
def list_groups(
    cluster: Connection,
    state: Annotated[list[str] | None, typer.Option(help="Only groups in this state, for example Stable.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--type", help="Only classic or consumer groups.")] = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Groups of the platform itself too.")] = False,
    output: Output = Format.table,
) -> None:
    """List groups. `-o wide` adds members and lag."""
    from moldau.cli.group import actions

    actions.list_groups(cluster, state or [], kind or [], show_all, output)


@app.command()
@connected
def describe(
    cluster: Connection,
    names: GroupNames,
    members: Annotated[bool, typer.Option("--members", "-m", help="Show the members and what they read.")] = False,
    output: Output = Format.table,
) -> None:
    """Show state, members, offsets and lag. The JSON can be given to `group reset --from-file`."""
    from moldau.cli.group import actions

    actions.describe(cluster, names, members, output)


@app.command()
@connected
def state(cluster: Connection, names: GroupNames, output: Output = Format.table) -> None:
    """Show the state of groups alone, without asking for offsets."""
    from moldau.cli.group import actions

    actions.state(cluster, names, output)


@app.command()
@connected
def watch(
    cluster: Connection,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="GROUP...", help="All without one.", autocompletion=completion.groups),
    ] = None,
    every: Annotated[str, typer.Option(metavar="DURATION", help="How long between two looks: 2s, 1m, …")] = "2s",
    rounds: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many looks.")] = None,
    output: Output = Format.table,
) -> int:
    """Show the lag of groups again and again, with how fast they read, until Ctrl-C. JSON is a line per group."""
    from moldau.cli import times
    from moldau.cli.group import watch

    return watch.watch(cluster, names or [], times.duration_ms(every), rounds, output)


@app.command()
@connected
def reset(
    cluster: Connection,
    name: GroupName,
    topic: Topics = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To where it is, within what exists.")] = False,
    to_offset: Annotated[int | None, typer.Option(min=0, help="To this offset.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option(metavar="TIME", help="To the first record from then on: 2024-05-01T12:00:00, -2h, …")
    ] = None,
    by_duration: Annotated[str | None, typer.Option(metavar="DURATION", help="To that long ago: 90m, PT1H, …")] = None,
    shift_by: Annotated[int | None, typer.Option(metavar="N", help="Forward, or back if negative.")] = None,
    to_group: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="To where another group is.", autocompletion=completion.groups),
    ] = None,
    from_file: FromFile = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without, the plan is only shown.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan (the default).")] = False,
    output: Output = Format.table,
) -> None:
    """Move a group's offsets. Shows the plan; `--execute` carries it out. The group must have no members."""
    from moldau.cli.group import actions

    target = actions.Target(
        to_earliest, to_latest, to_current, to_offset, to_datetime, by_duration, shift_by, to_group, from_file
    )
    actions.reset(cluster, name, topic or [], target, execute, dry_run, output)


@app.command()
@connected
def delete(
    cluster: Connection,
    names: GroupNames,
    topic: Topics = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete groups, or with --topic only their offsets for these topics."""
    from moldau.cli.group import actions

    actions.delete(cluster, names, topic or [], dry_run, yes)
