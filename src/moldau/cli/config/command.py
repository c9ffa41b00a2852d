"""`moldau config`: settings of topics, brokers, groups, loggers and client metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, FromFile, Output, Yes, connected
from moldau.cli.output import Format

app = typer.Typer(help="Settings of topics, brokers, groups and more, while they run.", no_args_is_help=True)


class Kind(StrEnum):
    """What has settings."""

    topic = "topic"
    broker = "broker"
    """One broker, by id."""
    brokers = "brokers"
    """All brokers: what counts where a broker has no setting of its own."""
    group = "group"
    logger = "logger"
    """The log levels of a broker, by id."""
    client_metrics = "client-metrics"


KindArgument = Annotated[Kind, typer.Argument(metavar="KIND", help=", ".join(Kind))]


@app.command("get")
@connected
def get_settings(
    cluster: Connection,
    kind: KindArgument,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME...", help="Topic, broker id, group; all without one.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option("--key", "-k", help="Only these settings.")] = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Defaults and the broker's file too.")] = False,
    output: Output = Format.table,
) -> None:
    """Show what was set. The JSON can be given to `config set --from-file`."""
    from moldau.cli.config import actions

    actions.get(cluster, kind, names or [], key or [], show_all, output)


@app.command("set")
@connected
def set_settings(
    cluster: Connection,
    kind: Annotated[Kind | None, typer.Argument(metavar="KIND", help=", ".join(Kind))] = None,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="None for `brokers`.")] = None,
    settings: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE...")] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="Add to a setting that is a list.")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", metavar="KEY=VALUE", help="Take from a setting that is a list.")
    ] = None,
    from_file: FromFile = None,
    dry_run: DryRun = False,
) -> None:
    """Change settings: `config set topic orders retention.ms=3600000`."""
    from moldau.cli.config import actions

    if from_file is not None:
        actions.set_from_file(cluster, from_file, kind, name, dry_run)
    else:
        actions.set_some(cluster, kind, name, settings or [], append or [], subtract or [], dry_run)


@app.command()
@connected
def unset(
    cluster: Connection,
    kind: KindArgument,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY...")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every setting that was made.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Put settings back to their defaults."""
    from moldau.cli.config import actions

    actions.unset(cluster, kind, name, keys or [], every, dry_run, yes)
